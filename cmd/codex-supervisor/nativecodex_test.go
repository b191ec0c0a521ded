package main

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

func program(t *testing.T, path, text string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// npmCodex lays out what `npm install @openai/codex` does, below root.
func npmCodex(t *testing.T, root string) (link string) {
	t.Helper()
	script := program(t, filepath.Join(root, "node_modules/@openai/codex/bin/codex.js"), "#!/usr/bin/env node\n")
	link = filepath.Join(root, "bin/codex")
	if err := os.MkdirAll(filepath.Dir(link), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(script, link); err != nil {
		t.Fatal(err)
	}
	return link
}

func TestNativeCodex(t *testing.T) {
	platform, triple := codexPlatform(runtime.GOOS, runtime.GOARCH)
	native := filepath.Join("node_modules/@openai/codex-"+platform, "vendor", triple, "bin/codex")

	t.Run("beside the script, found by name", func(t *testing.T) {
		root := t.TempDir()
		npmCodex(t, root)
		want := program(t, filepath.Join(root, native), "\x7fELF")
		t.Setenv("PATH", filepath.Join(root, "bin"))
		if got, err := nativeCodex("codex"); err != nil || got != want {
			t.Errorf("%q, %v", got, err)
		}
	})
	t.Run("nested below the script's package", func(t *testing.T) {
		root := t.TempDir()
		link := npmCodex(t, root)
		want := program(t, filepath.Join(root, "node_modules/@openai/codex", native), "\x7fELF")
		if got, err := nativeCodex(link); err != nil || got != want {
			t.Errorf("%q, %v", got, err)
		}
	})
	t.Run("not installed for this system", func(t *testing.T) {
		root := t.TempDir()
		link := npmCodex(t, root)
		program(t, filepath.Join(root, "node_modules/@openai/codex-plan9-mips/vendor/mips-plan9/bin/codex"), "x")
		if got, err := nativeCodex(link); err == nil || !strings.Contains(err.Error(), platform) {
			t.Errorf("%q, %v", got, err)
		}
	})
	t.Run("a file that cannot run is none", func(t *testing.T) {
		root := t.TempDir()
		link := npmCodex(t, root)
		if err := os.Chmod(program(t, filepath.Join(root, native), "x"), 0o644); err != nil {
			t.Fatal(err)
		}
		if got, err := nativeCodex(link); err == nil {
			t.Errorf("%q", got)
		}
	})
	t.Run("other programs are taken as they are", func(t *testing.T) {
		for _, text := range []string{"\x7fELF and so on", "#!/bin/sh\nexec node\n", ""} {
			path := program(t, filepath.Join(t.TempDir(), "codex"), text)
			if got, err := nativeCodex(path); err != nil || got != path {
				t.Errorf("%q: %q, %v", text, got, err)
			}
		}
	})
	t.Run("missing", func(t *testing.T) {
		t.Setenv("PATH", t.TempDir())
		if got, err := nativeCodex("codex"); err == nil || !strings.Contains(err.Error(), "codex") {
			t.Errorf("%q, %v", got, err)
		}
	})
}

func TestCodexPlatform(t *testing.T) {
	for _, tc := range [][4]string{
		{"linux", "amd64", "linux-x64", "x86_64-unknown-linux-musl"},
		{"linux", "arm64", "linux-arm64", "aarch64-unknown-linux-musl"},
		{"darwin", "arm64", "darwin-arm64", "aarch64-apple-darwin"},
		{"darwin", "amd64", "darwin-x64", "x86_64-apple-darwin"},
	} {
		if p, tr := codexPlatform(tc[0], tc[1]); p != tc[2] || tr != tc[3] {
			t.Errorf("%s/%s: %s %s", tc[0], tc[1], p, tr)
		}
	}
}
