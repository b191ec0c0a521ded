package proc

import "syscall"

// selfPath is this very program, also after its file was replaced by an upgrade.
func selfPath() (string, error) { return "/proc/self/exe", nil }

// guardAttr puts the guard into a session of its own, out of reach of a
// terminal's Ctrl-C. It gets no Pdeathsig: SIGKILL would take away who must
// sweep, and any other signal tells less than the end of the control pipe.
func guardAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }
