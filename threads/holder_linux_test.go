package threads_test

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/codex-supervisor/codex-supervisor/rpc"
	"github.com/codex-supervisor/codex-supervisor/store"
	"github.com/codex-supervisor/codex-supervisor/threads"
)

// TestOpen_LockHolder: whoever holds the thread is named.
func TestOpen_LockHolder(t *testing.T) {
	home := t.TempDir()
	locks := filepath.Join(home, "thread-writer-locks")
	if err := os.Mkdir(locks, 0o700); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(filepath.Join(locks, "old.lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	h := newHouse(t)
	h.Threads = threads.New(threads.Options{Store: h.db, LockWait: 1, CodexHome: func() string { return home }})
	h.client.ResumeFn = func(rpc.ThreadResumeParams) (rpc.ThreadReply, error) { return rpc.ThreadReply{}, errLocked }
	holder := func(thread string) int {
		t.Helper()
		h.saved(store.Thread{ID: thread, Turns: 1})
		_, err := h.open(owners())
		lock, ok := errors.AsType[*threads.LockedError](err)
		if !ok {
			t.Fatalf("error %v", err)
		}
		return lock.HolderPID
	}
	if pid := holder("old"); pid != 0 {
		t.Errorf("nobody holds it, and yet %d", pid)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	for thread, want := range map[string]int{"old": os.Getpid(), "other": 0, "../thread-writer-locks/old": 0, "*": 0} {
		if pid := holder(thread); pid != want {
			t.Errorf("%s: held by %d, want %d", thread, pid, want)
		}
	}
}
