package proc

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// Bounds of SweepStale.
const (
	freezePatience = time.Second     // until all are stopped; what waits in the kernel cannot fork either
	stalePatience  = 5 * time.Second // until what was killed is gone
)

// SweepStale ends recorded processes of an earlier run and everything below
// them, and returns how many it ended, once they are gone. Pid, start time and
// boot must all match, so a reused pid is never hit.
//
// What is below is stopped first, in rounds until no new one is found: a stopped
// process cannot fork, so the list is complete when killing begins. Without that
// the children of one that is killed would move to pid 1, out of sight.
func SweepStale(ids ...Identity) (killed int, err error) {
	family, err := freeze(ids)
	errs := []error{err}
	for id := range family {
		switch err := id.signal(syscall.SIGKILL); {
		case err == nil:
			killed++
		case errors.Is(err, os.ErrProcessDone):
			delete(family, id)
		default:
			errs = append(errs, fmt.Errorf("end %s: %w", id, err))
			delete(family, id)
		}
	}
	deadline := time.Now().Add(stalePatience)
	for id := range family {
		if !id.goneBy(deadline) {
			errs = append(errs, fmt.Errorf("%s is not gone %s after SIGKILL", id, stalePatience))
		}
	}
	return killed, errors.Join(errs...)
}

// goneBy waits for the end of a process that is not our child, or is about to end.
func (i Identity) goneBy(deadline time.Time) bool {
	for pause := 100 * time.Microsecond; i.Alive(); pause = min(2*pause, 20*time.Millisecond) {
		if time.Now().After(deadline) {
			return false
		}
		time.Sleep(pause)
	}
	return true
}

// freeze stops the given processes and all below them and returns them.
func freeze(ids []Identity) (family map[Identity]bool, err error) {
	family = map[Identity]bool{}
	var errs []error
	stop := func(id Identity) {
		if family[id] || !id.Alive() {
			return
		}
		family[id] = true
		if err := id.signal(syscall.SIGSTOP); err != nil && !errors.Is(err, os.ErrProcessDone) {
			errs = append(errs, fmt.Errorf("stop %s: %w", id, err))
		}
	}
	for _, id := range ids {
		if id.BootID != "" { // else nothing tells it from a stranger of another boot
			stop(id)
		}
	}
	deadline := time.Now().Add(freezePatience)
	for settled := len(family) == 0; !settled; {
		// A fork that had begun when its process was told to stop is still
		// completed, so a look counts only when all have come to rest before it.
		settled = time.Now().After(deadline) || restingBy(family, deadline)
		all, err := processes()
		if err != nil {
			return family, errors.Join(append(errs, err)...)
		}
		before := len(family)
		adopt(family, all, stop)
		settled = settled && len(family) == before
	}
	return family, errors.Join(errs...)
}

// adopt hands every process to stop that is below one of the family.
func adopt(family map[Identity]bool, all []stat, stop func(Identity)) {
	ours := map[int]bool{}
	for known := -1; len(family) > known; {
		known = len(family)
		for _, s := range all {
			ours[s.pid] = family[s.identity()] // not by pid alone
		}
		for _, s := range all {
			if ours[s.parent] {
				stop(s.identity())
			}
		}
	}
}

// restingBy waits until none of the family can fork any more.
func restingBy(family map[Identity]bool, deadline time.Time) bool {
	for id := range family {
		for pause := 100 * time.Microsecond; !id.resting(); pause = min(2*pause, 20*time.Millisecond) {
			if time.Now().After(deadline) {
				return false
			}
			time.Sleep(pause)
		}
	}
	return true
}
