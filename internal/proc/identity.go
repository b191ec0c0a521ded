package proc

import "fmt"

// Identity names one process for good: a pid alone is used again. The zero
// Identity names none.
type Identity struct {
	PID int `json:"pid"`
	// StartTime is the kernel's start time of the process in clock ticks since
	// boot (Linux: field 22 of /proc/PID/stat).
	StartTime uint64 `json:"start_time"`
	// BootID tells one boot of the machine from another.
	BootID string `json:"boot_id"`
}

// String implements fmt.Stringer.
func (i Identity) String() string { return fmt.Sprintf("pid %d (start %d)", i.PID, i.StartTime) }

// Alive says whether this very process still runs. A zombie is dead.
func (i Identity) Alive() bool {
	if i.PID <= 0 || (i.BootID != "" && i.BootID != BootID()) {
		return false
	}
	s, err := statOf(i.PID)
	return err == nil && s.state != 'Z' && s.state != 'X' && s.start == i.StartTime
}

// identify reads the identity of a running process.
func identify(pid int) (Identity, error) {
	s, err := statOf(pid)
	if err != nil {
		return Identity{}, err
	}
	return Identity{PID: pid, StartTime: s.start, BootID: BootID()}, nil
}

// stat is what is needed of a process.
type stat struct {
	pid, parent int
	state       byte
	start       uint64
}
