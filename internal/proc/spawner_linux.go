package proc

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// selfPath is this very program, also after its file was replaced by an upgrade.
func selfPath() (string, error) { return "/proc/self/exe", nil }

// guardAttr puts the guard into a session of its own, out of reach of a
// terminal's Ctrl-C. The signal of its parent's death is one it can catch: it
// must sweep, not die.
func guardAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGTERM}
}

// raiseNoFile raises the soft limit on descriptors for the program to come. The
// Go runtime would otherwise hand it the limit that this process began with.
func raiseNoFile(n uint64) {
	var l unix.Rlimit
	if n == 0 || unix.Getrlimit(unix.RLIMIT_NOFILE, &l) != nil {
		return
	}
	l.Cur = min(max(n, l.Cur), l.Max)
	// syscall.Setrlimit, since only that tells the runtime not to put the
	// original value back in the child.
	_ = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: l.Cur, Max: l.Max})
}
