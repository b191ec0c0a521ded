//go:build !linux && !darwin

package proc

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// BootID is not known here.
func BootID() string { return "" }

// statOf knows only whether a process exists. There is no start time to compare,
// so an identity is as good as its pid, and SweepStale ends nothing.
func statOf(pid int) (stat, error) {
	if err := syscall.Kill(pid, 0); err != nil && !errors.Is(err, syscall.EPERM) {
		return stat{}, fmt.Errorf("look at pid %d: %w", pid, err)
	}
	return stat{pid: pid, state: 'S'}, nil
}

func processes() ([]stat, error) { return nil, errors.ErrUnsupported }

func (i Identity) resting() bool { return true }

func (i Identity) signal(s syscall.Signal) error {
	if !i.Alive() {
		return os.ErrProcessDone
	}
	return syscall.Kill(i.PID, s)
}

// ResidentBytes is not known here.
func ResidentBytes(int) (uint64, error) { return 0, errors.ErrUnsupported }
