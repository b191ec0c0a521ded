package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRun(t *testing.T) {
	list := func() (string, []string, error) {
		return "example.org/m", []string{"example.org/m/a", "example.org/m/cmd/x", "example.org/m/untested"}, nil
	}
	write := func(text string) string {
		name := filepath.Join(t.TempDir(), "profile")
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	// The second profile covers what the first does not: 9 of 10 statements.
	first := write("mode: set\nexample.org/m/a/a.go:1.1,2.2 5 1\nexample.org/m/a/a.go:3.1,4.2 4 0\n" +
		"example.org/m/a/a.go:5.1,6.2 1 0\nexample.org/m/cmd/x/x.go:1.1,2.2 3 0\n")
	second := write("mode: set\nexample.org/m/a/a.go:3.1,4.2 4 7\nexample.org/m/a/a.go:1.1,2.2 5 0\n")

	var out, errs strings.Builder
	if status := run([]string{"-floor", "85", "-exempt", "other,cmd", first, second}, &out, &errs, list); status != 1 {
		t.Errorf("exit %d with an untested package, want 1", status)
	}
	for _, want := range []string{
		"  90.0 %  a\n", "   0.0 %  cmd/x  (not held to the floor)\n", "   0.0 %  untested  BELOW 85 %\n", "1 package(s) below",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("report lacks %q:\n%s", want, &out)
		}
	}

	tested := func() (string, []string, error) { return "example.org/m", []string{"example.org/m/a"}, nil }
	if status := run([]string{"-exempt", "cmd", first, second}, &out, &errs, tested); status != 0 {
		t.Errorf("exit %d with 90 %%, want 0", status)
	}
	if status := run([]string{"-exempt", "cmd", first}, &out, &errs, tested); status != 1 {
		t.Errorf("exit %d with 50 %%, want 1", status)
	}
	if status := run([]string{write("no profile\n")}, &out, &errs, tested); status != 1 {
		t.Errorf("exit %d for a broken profile, want 1", status)
	}
}
