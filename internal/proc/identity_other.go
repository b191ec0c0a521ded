//go:build !linux

package proc

import (
	"errors"
	"fmt"
	"syscall"
)

// BootID is not known off Linux.
func BootID() string { return "" }

// statOf knows only whether a process exists: there is no start time to compare,
// so an identity is as good as its pid.
func statOf(pid int) (stat, error) {
	if err := syscall.Kill(pid, 0); err != nil && !errors.Is(err, syscall.EPERM) {
		return stat{}, fmt.Errorf("look at pid %d: %w", pid, err)
	}
	return stat{pid: pid, state: 'S'}, nil
}

// Descendants is not known off Linux.
func Descendants(int) ([]Identity, error) { return nil, errors.ErrUnsupported }

// SweepStale does nothing off Linux: without a start time a recorded pid may
// belong to somebody else by now, and a stranger must never be killed.
func SweepStale(...Identity) (int, error) { return 0, nil }

// ResidentBytes is not known off Linux.
func ResidentBytes(int) (uint64, error) { return 0, errors.ErrUnsupported }
