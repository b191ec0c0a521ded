package proc

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// BootID is the kernel's id of this boot.
func BootID() string { return bootID() }

var bootID = sync.OnceValue(func() string {
	raw, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(raw))
})

func statOf(pid int) (stat, error) {
	raw, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return stat{}, fmt.Errorf("look at pid %d: %w", pid, err)
	}
	return parseStat(pid, raw)
}

// parseStat reads /proc/PID/stat. The second field is a name in parentheses that
// may itself hold blanks and parentheses, so fields are counted from the last ')'.
func parseStat(pid int, raw []byte) (stat, error) {
	end := bytes.LastIndexByte(raw, ')')
	if end < 0 {
		return stat{}, fmt.Errorf("read stat of pid %d: no name", pid)
	}
	f := strings.Fields(string(raw[end+1:]))
	if len(f) < 20 {
		return stat{}, fmt.Errorf("read stat of pid %d: %d fields", pid, len(f))
	}
	parent, err := strconv.Atoi(f[1])
	if err != nil {
		return stat{}, fmt.Errorf("read stat of pid %d: parent: %w", pid, err)
	}
	start, err := strconv.ParseUint(f[19], 10, 64)
	if err != nil {
		return stat{}, fmt.Errorf("read stat of pid %d: start time: %w", pid, err)
	}
	return stat{pid: pid, parent: parent, state: f[0][0], start: start}, nil
}

// processes lists every process that can be seen.
func processes() ([]stat, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	var all []stat
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if s, err := statOf(pid); err == nil { // else it has just ended
			all = append(all, s)
		}
	}
	return all, nil
}

// below returns the descendants of a process, zombies included.
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
		if s.state != 'Z' && s.state != 'X' {
			ids = append(ids, Identity{PID: s.pid, StartTime: s.start, BootID: BootID()})
		}
	}
	return ids, nil
}

// SweepStale ends recorded processes of an earlier run and everything below
// them. Pid, start time and boot must all match, so a reused pid is never hit.
func SweepStale(ids ...Identity) (killed int, err error) {
	var errs []error
	for _, id := range ids {
		if !id.Alive() {
			continue
		}
		family, err := Descendants(id.PID)
		if err != nil {
			errs = append(errs, err)
		}
		for _, p := range append([]Identity{id}, family...) {
			switch err := kill(p); {
			case err == nil:
				killed++
			case !errors.Is(err, unix.ESRCH):
				errs = append(errs, fmt.Errorf("end %s: %w", p, err))
			}
		}
	}
	return killed, errors.Join(errs...)
}

// kill sends SIGKILL through a pidfd that is checked after it was opened, so
// that the pid cannot change hands in between.
func kill(id Identity) error {
	fd, err := unix.PidfdOpen(id.PID, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if !id.Alive() {
		return unix.ESRCH
	}
	return unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
}

// ResidentBytes is the resident memory of a process.
func ResidentBytes(pid int) (uint64, error) {
	raw, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/statm")
	if err != nil {
		return 0, fmt.Errorf("read memory of pid %d: %w", pid, err)
	}
	f := strings.Fields(string(raw))
	if len(f) < 2 {
		return 0, fmt.Errorf("read memory of pid %d: %d fields", pid, len(f))
	}
	pages, err := strconv.ParseUint(f[1], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("read memory of pid %d: %w", pid, err)
	}
	return pages * uint64(os.Getpagesize()), nil
}
