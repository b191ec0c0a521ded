package schematest_test

import (
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/codex-supervisor/codex-supervisor/rpc/schematest"
)

// door lets a test see a helper fail or skip.
type door struct {
	testing.TB
	said    []string
	stopped bool
	dir     string
}

func (d *door) Helper()         {}
func (d *door) TempDir() string { return d.dir }
func (d *door) Skip(args ...any) {
	d.said, d.stopped = append(d.said, "skip: "+args[0].(string)), true
	runtime.Goexit()
}
func (d *door) Errorf(format string, _ ...any) { d.said = append(d.said, "error: "+format) }
func (d *door) Fatal(...any)                   { d.Fatalf("") }
func (d *door) Fatalf(format string, _ ...any) {
	d.said, d.stopped = append(d.said, "fatal: "+format), true
	runtime.Goexit()
}

// behind runs f, which may end its goroutine.
func behind(f func()) {
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	<-done
}

func mustWrite(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
}

const strict = `{"type":"object","required":["id"],"properties":{"id":{"type":"string"}}}`

func TestSchemas(t *testing.T) {
	dir := t.TempDir()
	mustWrite(t, filepath.Join(dir, "v2/Thing.json"), strict)
	mustWrite(t, filepath.Join(dir, "v1/Old.json"), `{"type":"string"}`)
	mustWrite(t, filepath.Join(dir, "Union.json"), `{"oneOf":[{"properties":{"method":{"enum":["a"]}}},{"properties":{"method":{"enum":["b"]}}}]}`)
	t.Setenv("CODEX_SCHEMA_DIR", dir)
	s := schematest.Load(t)
	s.Check(t, "v2/Thing", map[string]string{"id": "x"})
	s.Check(t, "v2/Thing", map[string]string{"id": "x", "more": "y"}) // compiled before
	s.Check(t, "Old", "text")
	if err := s.Validate("v2/Thing", map[string]int{"id": 1}); err == nil || !strings.Contains(err.Error(), "validate against v2/Thing") {
		t.Errorf("a wrong type: %v", err)
	}
	if err := s.Validate("v2/Absent", 1); err == nil || !strings.Contains(err.Error(), "compile schema v2/Absent") {
		t.Errorf("a schema that does not exist: %v", err)
	}
	if err := s.Validate("v2/Thing", func() {}); err == nil || !strings.Contains(err.Error(), "marshal for v2/Thing") {
		t.Errorf("a value that cannot be marshalled: %v", err)
	}
	if got := s.Unknown(t, "v2/Thing", map[string]int{"id": 1, "ID": 2}); !reflect.DeepEqual(got, []string{"ID"}) {
		t.Errorf("unknown fields %v", got)
	}
	if got := s.Methods(t, "Union"); !reflect.DeepEqual(got, []string{"a", "b"}) {
		t.Errorf("methods %v", got)
	}
	for name, f := range map[string]func(*door){
		"error: %v\nvalue: %.2000s": func(d *door) { s.Check(d, "v2/Thing", 1) },
		"fatal: no methods in %s":   func(d *door) { s.Methods(d, "v2/Thing") },
		"fatal: ":                   func(d *door) { s.Unknown(d, "v2/Absent", 1) },
	} {
		d := &door{}
		behind(func() { f(d) })
		if len(d.said) != 1 || d.said[0] != name {
			t.Errorf("said %q, want %q", d.said, name)
		}
	}
}

func TestLoad(t *testing.T) {
	t.Setenv("CODEX_SCHEMA_DIR", "")
	t.Setenv("CODEX_BINARY", "")
	d := &door{dir: t.TempDir()}
	behind(func() { schematest.Load(d) })
	if !d.stopped || len(d.said) != 1 || !strings.HasPrefix(d.said[0], "skip: neither CODEX_SCHEMA_DIR nor CODEX_BINARY is set") {
		t.Errorf("with neither: %q", d.said)
	}

	binary := filepath.Join(t.TempDir(), "codex")
	mustWrite(t, binary, "#!/bin/sh\n[ \"$1 $2 $3 $4\" = 'app-server generate-json-schema --experimental --out' ] && mkdir $5/v2 && echo '"+strict+"' > $5/v2/Thing.json\n")
	t.Setenv("CODEX_BINARY", binary)
	schematest.Load(t).Check(t, "v2/Thing", map[string]string{"id": "x"})

	mustWrite(t, binary, "#!/bin/sh\nexit 3\n")
	d = &door{dir: t.TempDir()}
	behind(func() { schematest.Load(d) })
	if len(d.said) != 1 || d.said[0] != "fatal: generate the schema: %v\n%s" {
		t.Errorf("with a broken binary: %q", d.said)
	}
}
