package proc

import "fmt"

// Identity names one process for good: a pid alone is used again. The zero
// Identity names none.
type Identity struct {
	PID int `json:"pid"`
	// StartTime is the kernel's start time of the process (Linux: clock ticks
	// since boot, field 22 of /proc/PID/stat; macOS: microseconds since 1970).
	StartTime uint64 `json:"start_time"`
	// BootID tells one boot of the machine from another.
	BootID string `json:"boot_id"`
}

// String implements fmt.Stringer.
func (i Identity) String() string { return fmt.Sprintf("pid %d (start %d)", i.PID, i.StartTime) }

// Alive says whether this very process still runs. A zombie is dead.
func (i Identity) Alive() bool {
	s, ok := i.look()
	return ok && !s.dead()
}

// look finds this very process, which may be a zombie.
func (i Identity) look() (stat, bool) {
	if i.PID <= 0 || i.BootID != BootID() {
		return stat{}, false
	}
	s, err := statOf(i.PID)
	return s, err == nil && s.start == i.StartTime
}

// identify reads the identity of a child of ours, which has a pid of its own
// until we collect it.
func identify(pid int) Identity {
	s, err := statOf(pid)
	if err != nil {
		return Identity{PID: pid, BootID: BootID()} // matches no process
	}
	return s.identity()
}

// stat is what the kernel says of a process.
type stat struct {
	pid, parent int
	name        string
	state       byte
	threads     int
	start       uint64
}

// dead says that nothing of the process runs any more. When only its first
// thread has ended it looks like a zombie as well, but works on.
func (s stat) dead() bool { return s.state == 'X' || s.state == 'Z' && s.threads <= 1 }

func (s stat) identity() Identity {
	return Identity{PID: s.pid, StartTime: s.start, BootID: BootID()}
}

// below returns the descendants of a process, zombies included, parents first.
func below(root int) ([]stat, error) {
	all, err := processes()
	if err != nil {
		return nil, err
	}
	children := map[int][]stat{}
	for _, s := range all {
		children[s.parent] = append(children[s.parent], s)
	}
	var found []stat
	for queue := []int{root}; len(queue) > 0; queue = queue[1:] {
		for _, s := range children[queue[0]] {
			found = append(found, s)
			queue = append(queue, s.pid)
		}
		delete(children, queue[0]) // pids that changed hands meanwhile must not make a circle
	}
	return found, nil
}

// Descendants lists the living descendants of a process.
func Descendants(pid int) ([]Identity, error) {
	found, err := below(pid)
	if err != nil {
		return nil, err
	}
	var ids []Identity
	for _, s := range found {
		if !s.dead() {
			ids = append(ids, s.identity())
		}
	}
	return ids, nil
}
