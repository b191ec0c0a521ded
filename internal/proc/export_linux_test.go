package proc

import "syscall"

// ParseStat reads a /proc/PID/stat and returns what was understood of it.
func ParseStat(raw string) (name string, parent, threads int, state byte, start uint64, err error) {
	s, err := parseStat(1, []byte(raw))
	return s.name, s.parent, s.threads, s.state, s.start, err
}

// Zombies counts the dead below a process that nobody has collected.
func Zombies(pid int) (n int, err error) {
	found, err := below(pid)
	for _, s := range found {
		if s.dead() {
			n++
		}
	}
	return n, err
}

// Identify names a process that is there.
func Identify(pid int) Identity { return identify(pid) }

// Signal signals this very process.
func (i Identity) Signal(s syscall.Signal) error { return i.signal(s) }

// LevelOOMScore takes a protection out of a file as of /proc/self/oom_score_adj.
func LevelOOMScore(file string) (restore func()) { return levelOOMScore(file) }

// HolderIn is holderIn.
var HolderIn = holderIn
