package proc

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/prometheus/procfs"
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
	begin, end := bytes.IndexByte(raw, '('), bytes.LastIndexByte(raw, ')')
	if begin < 0 || end < begin {
		return stat{}, fmt.Errorf("read stat of pid %d: no name", pid)
	}
	f := strings.Fields(string(raw[end+1:])) // f[0] is field 3
	if len(f) < 20 {
		return stat{}, fmt.Errorf("read stat of pid %d: %d fields", pid, len(f))
	}
	parent, parentErr := strconv.Atoi(f[1])
	threads, threadsErr := strconv.Atoi(f[17])
	start, startErr := strconv.ParseUint(f[19], 10, 64)
	if err := errors.Join(parentErr, threadsErr, startErr); err != nil {
		return stat{}, fmt.Errorf("read stat of pid %d: %w", pid, err)
	}
	return stat{pid: pid, parent: parent, name: string(raw[begin+1 : end]), state: f[0][0], threads: threads, start: start}, nil
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

// resting says that no thread of the process can fork: it is stopped or gone.
func (i Identity) resting() bool {
	if !i.Alive() {
		return true
	}
	threads, err := os.ReadDir("/proc/" + strconv.Itoa(i.PID) + "/task")
	if err != nil {
		return !i.Alive()
	}
	for _, t := range threads {
		raw, err := os.ReadFile("/proc/" + strconv.Itoa(i.PID) + "/task/" + t.Name() + "/stat")
		if err != nil {
			continue // it has ended
		}
		if s, err := parseStat(i.PID, raw); err != nil || !strings.ContainsRune("TtZX", rune(s.state)) {
			return false
		}
	}
	return true
}

// signal signals this very process through a pidfd that is checked after it was
// opened: the pid cannot change hands in between.
func (i Identity) signal(s syscall.Signal) error {
	if i.PID <= 0 {
		return os.ErrProcessDone
	}
	fd, err := unix.PidfdOpen(i.PID, 0)
	if err != nil {
		return doneOr(err)
	}
	defer unix.Close(fd)
	if _, ok := i.look(); !ok {
		return os.ErrProcessDone
	}
	return doneOr(unix.PidfdSendSignal(fd, s, nil, 0))
}

func doneOr(err error) error {
	if errors.Is(err, unix.ESRCH) {
		return os.ErrProcessDone
	}
	return err
}

// ResidentBytes is the resident memory of a process.
func ResidentBytes(pid int) (uint64, error) {
	p, err := procfs.NewProc(pid)
	if err != nil {
		return 0, fmt.Errorf("read memory of pid %d: %w", pid, err)
	}
	st, err := p.Stat()
	if err != nil {
		return 0, fmt.Errorf("read memory of pid %d: %w", pid, err)
	}
	return uint64(st.ResidentMemory()), nil
}
