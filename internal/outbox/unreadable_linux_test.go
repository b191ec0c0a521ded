package outbox_test

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// A result that we may not read but that has bytes was written for this id
// by somebody else; running the task again would answer twice. A directory
// that we may not look into leaves it open, which is an error.
func TestSink_Done_Unreadable(t *testing.T) {
	b := mustBox(t)
	for dir := filepath.Dir(b.results); dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			break
		}
	}
	full, empty := b.put("archive/task-a.txt", "x"), b.put("archive/task-b.txt", "")
	for _, path := range []string{full, empty} {
		if err := os.Chmod(path, 0); err != nil {
			t.Fatal(err)
		}
	}
	asUnprivileged(t, func() {
		if where, done, err := b.Done("task-a"); !done || where != "archive/task-a.txt" || err != nil {
			t.Errorf("unreadable with bytes: %q %v %v", where, done, err)
		}
		if where, done, err := b.Done("task-b"); done || err != nil {
			t.Errorf("unreadable and empty: %q %v %v", where, done, err)
		}
	})
	archive := filepath.Dir(full)
	if err := os.Chmod(archive, 0); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.Chmod(archive, 0o755) }()
	asUnprivileged(t, func() {
		if _, done, err := b.Done("task-c"); done || err == nil {
			t.Errorf("unreadable archive: %v %v", done, err)
		}
		if _, err := b.Publish("task-c", "owner", "x"); err == nil {
			t.Error("published without knowing whether it is done")
		}
	})
}

// asUnprivileged runs fn without root's right to read everything: the file
// system identity is a thread's own.
func asUnprivileged(tb testing.TB, fn func()) {
	tb.Helper()
	if os.Geteuid() == 0 {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		if err := unix.Setfsuid(65534); err != nil {
			tb.Fatal(err)
		}
		defer func() { _ = unix.Setfsuid(0) }()
	}
	fn()
}
