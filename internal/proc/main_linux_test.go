package proc_test

import (
	"os"
	"runtime"
	"strconv"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/codex-supervisor/codex-supervisor/internal/proc"
)

// playHeadless ends its first thread and works on in others.
func playHeadless() {
	runtime.LockOSThread()
	if os.Getpid() != syscall.Gettid() {
		os.Exit(99)
	}
	go func() {
		_, _ = os.Stdout.Write([]byte{'.'})
		select {}
	}()
	_, _, _ = syscall.RawSyscall(syscall.SYS_EXIT, 0, 0, 0)
}

// mustFamily starts a family and returns it with all that lives below its keeper.
func mustFamily(t testing.TB, s *proc.Spawner) (*proc.Process, []proc.Identity) {
	t.Helper()
	p := mustStart(t, s, familySpec())
	if line := mustLine(t, p); line != "ready" {
		t.Fatalf("the family says %q", line)
	}
	return p, mustBelow(t, p.Guard())
}

// mustBelow waits until the whole family is there: a headless one is ready a
// moment before its first thread is gone.
func mustBelow(t testing.TB, keeper proc.Identity) (all []proc.Identity) {
	t.Helper()
	eventually(t, "the whole family", func() bool {
		var err error
		if all, err = proc.Descendants(keeper.PID); err != nil {
			t.Fatal(err)
		}
		return len(all) == escapees+2 // guard, app-server
	})
	return append(all, keeper)
}

func assertGone(t testing.TB, ids []proc.Identity) {
	t.Helper()
	for _, id := range ids {
		if id.Alive() {
			t.Errorf("%s lives on", id)
			_ = id.Signal(syscall.SIGKILL)
		}
	}
}

// eachOfSession finds the living processes of a session.
func eachOfSession(t testing.TB, session int, do func(pid int)) {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if sid, err := unix.Getsid(pid); err == nil && sid == session && proc.Identify(pid).Alive() {
			do(pid)
		}
	}
}
