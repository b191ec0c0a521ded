//go:build !linux

package proc

import (
	"os"
	"syscall"
)

func selfPath() (string, error) { return os.Executable() }

func guardAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

func raiseNoFile(n uint64) {
	var l syscall.Rlimit
	if n == 0 || syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l) != nil {
		return
	}
	l.Cur = min(max(n, l.Cur), l.Max)
	_ = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &l)
}
