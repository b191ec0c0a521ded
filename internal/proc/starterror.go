package proc

import (
	"errors"
	"fmt"
	"os/exec"
	"syscall"
)

// StartError is a program that could not be started. It unwraps to the
// operating system's reason (fs.ErrNotExist, fs.ErrPermission, ENOEXEC, ...).
type StartError struct {
	Program string
	Err     error
}

func (e *StartError) Error() string {
	return fmt.Sprintf("start %q: %v", e.Program, e.Err)
}

func (e *StartError) Unwrap() error { return e.Err }

// startReason rebuilds the reason that a guard reported.
func startReason(r report) error {
	if r.Errno != 0 {
		return syscall.Errno(r.Errno)
	}
	return errors.New(r.Failed)
}

// notFound is the error of a lookup on PATH, with the system's word for a
// program that is not there: os/exec has one of its own, which no caller expects.
func notFound(err error) error {
	if errors.Is(err, exec.ErrNotFound) {
		return fmt.Errorf("not on PATH: %w", syscall.ENOENT)
	}
	return err
}
