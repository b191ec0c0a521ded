package config_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/codex-supervisor/codex-supervisor/internal/config"
)

// FuzzLoad feeds any text: it never panics, a complaint stands inside the file,
// and what is accepted keeps the promises of Config.
func FuzzLoad(f *testing.F) {
	files, err := filepath.Glob("testdata/errors/*.toml")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add([]byte(full))
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := config.Parse("/etc/codex-supervisor.toml", text, config.Overlay{}, environ())
		if err != nil {
			var all config.Errors
			if !errors.As(err, &all) || len(all) == 0 {
				t.Fatalf("%T: %v", err, err)
			}
			for _, one := range all {
				if one.Message == "" || one.Line < 0 || one.Line > 1+strings.Count(string(text), "\n") ||
					one.Line > 0 && (one.Column < 1 || one.Column > len(one.Source)+1) {
					t.Fatalf("%+v for %q", one, text)
				}
				if strings.Contains(one.Message, "config.") {
					t.Fatalf("%q names a Go type, for %q", one.Message, text)
				}
			}
			return
		}
		if len(c.WorkDirs) == 0 {
			t.Fatalf("no work dir for %q", text)
		}
		names := map[string]bool{}
		for _, w := range c.WorkDirs {
			for _, path := range []string{w.Path, w.Tasks, w.Results, w.State, w.HMACKey, w.Cwd} {
				if !filepath.IsAbs(path) || path != filepath.Clean(path) {
					t.Fatalf("path %q for %q", path, text)
				}
			}
			if names[w.Name] || w.Name == "" || strings.ContainsAny(w.Name, "/ ") {
				t.Fatalf("name %q for %q", w.Name, text)
			}
			names[w.Name] = true
			if w.MaxTurns < 1 || w.TurnTimeout <= 0 || len(w.Codex) == 0 {
				t.Fatalf("%+v for %q", w, text)
			}
		}
	})
}
