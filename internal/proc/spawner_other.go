//go:build !linux

package proc

import (
	"os"
	"syscall"
)

func selfPath() (string, error) { return os.Executable() }

// guardAttr puts the guard into a session of its own, out of reach of a
// terminal's Ctrl-C.
func guardAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }
