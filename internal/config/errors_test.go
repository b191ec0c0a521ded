package config_test

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/codex-supervisor/codex-supervisor/internal/config"
)

var update = flag.Bool("update", false, "write the golden files anew")

// environ is the environment of an ordinary user.
func environ(pairs ...string) func(string) string {
	vars := map[string]string{"HOME": "/home/u", "XDG_RUNTIME_DIR": "/run/user/7"}
	for i := 0; i < len(pairs); i += 2 {
		vars[pairs[i]] = pairs[i+1]
	}
	return func(name string) string { return vars[name] }
}

// TestErrors compares what each broken file of testdata/errors is told.
func TestErrors(t *testing.T) {
	files, err := filepath.Glob("testdata/errors/*.toml")
	if err != nil || len(files) < 20 {
		t.Fatalf("found %d files (%v), want all of testdata/errors", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".toml"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			_, err = config.Parse("/etc/codex-supervisor.toml", text, config.Overlay{}, environ())
			if err == nil {
				t.Fatal("no error")
			}
			var one *config.Error
			if !errors.As(err, &one) {
				t.Fatalf("%T holds no *config.Error", err)
			}
			got := err.Error() + "\n"
			golden := strings.TrimSuffix(file, ".toml") + ".golden"
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("got:\n%s\nwant:\n%s", got, want)
			}
		})
	}
}
