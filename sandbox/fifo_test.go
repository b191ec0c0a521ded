//go:build unix

package sandbox_test

import (
	"syscall"
	"testing"
)

func mustFifo(tb testing.TB, path string) {
	tb.Helper()
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		tb.Fatal(err)
	}
}
