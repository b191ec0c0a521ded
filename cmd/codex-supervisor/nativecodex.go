package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
)

// nativeCodex finds the program that really is Codex. What npm puts on PATH is a
// script for node that starts the native binary and stays as its parent: one
// process more to die, and a start slower by the time node takes. The native one
// lies in an optional package beside it (@openai/codex 0.171.0, measured):
// node_modules/@openai/codex-<os>-<arch>/vendor/<triple>/bin/codex.
//
// A program that is no such script is taken as it is.
func nativeCodex(name string) (string, error) {
	path, err := exec.LookPath(name)
	if err != nil && !errors.Is(err, exec.ErrDot) {
		return "", fmt.Errorf("find codex: %w", err)
	}
	if path, err = filepath.Abs(path); err != nil {
		return "", fmt.Errorf("find codex: %w", err)
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", fmt.Errorf("follow %q: %w", path, err)
	}
	if !nodeScript(real) {
		return path, nil
	}
	platform, triple := codexPlatform(runtime.GOOS, runtime.GOARCH)
	vendor := filepath.Join("vendor", triple, "bin", "codex")
	for dir := filepath.Dir(real); ; dir = filepath.Dir(dir) {
		for _, candidate := range []string{
			filepath.Join(dir, "node_modules", "@openai", "codex-"+platform, vendor),
			filepath.Join(dir, vendor),
		} {
			if info, err := os.Stat(candidate); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
				return candidate, nil
			}
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("%q is npm's script and the native binary of %s is not beside it (was it installed with --omit=optional?)", path, platform)
		}
	}
}

func nodeScript(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	head := make([]byte, 128)
	n, _ := io.ReadFull(f, head)
	first, _, _ := bytes.Cut(head[:n], []byte("\n"))
	return bytes.HasPrefix(first, []byte("#!")) && bytes.Contains(first, []byte("node"))
}

// codexPlatform is how npm's packages and their vendor directories call a system.
func codexPlatform(goos, goarch string) (platform, triple string) {
	arch, cpu := "x64", "x86_64"
	if goarch == "arm64" {
		arch, cpu = "arm64", "aarch64"
	}
	if goos == "darwin" {
		return "darwin-" + arch, cpu + "-apple-darwin"
	}
	return "linux-" + arch, cpu + "-unknown-linux-musl"
}
