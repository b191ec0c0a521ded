package proc

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// BootID is the kernel's id of this boot.
func BootID() string { return bootID() }

var bootID = sync.OnceValue(func() string {
	id, err := unix.Sysctl("kern.bootsessionuuid")
	if err != nil {
		return ""
	}
	return id
})

func statOf(pid int) (stat, error) {
	k, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil {
		return stat{}, fmt.Errorf("look at pid %d: %w", pid, err)
	}
	if int(k.Proc.P_pid) != pid {
		return stat{}, fmt.Errorf("look at pid %d: %w", pid, os.ErrNotExist)
	}
	return statFrom(k), nil
}

func statFrom(k *unix.KinfoProc) stat {
	const stopped, zombie = 4, 5 // SSTOP, SZOMB of sys/proc.h
	s := stat{
		pid: int(k.Proc.P_pid), parent: int(k.Eproc.Ppid), name: unix.ByteSliceToString(k.Proc.P_comm[:]), state: 'S',
		start: uint64(k.Proc.P_starttime.Sec)*1_000_000 + uint64(k.Proc.P_starttime.Usec),
	}
	switch k.Proc.P_stat {
	case stopped:
		s.state = 'T'
	case zombie:
		s.state = 'Z'
	}
	return s
}

// processes lists every process that can be seen.
func processes() ([]stat, error) {
	found, err := unix.SysctlKinfoProcSlice("kern.proc.all")
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	all := make([]stat, 0, len(found))
	for i := range found {
		all = append(all, statFrom(&found[i]))
	}
	return all, nil
}

// resting says that the process cannot fork: it is stopped or gone.
func (i Identity) resting() bool {
	s, ok := i.look()
	return !ok || s.state != 'S'
}

// signal signals this very process. There are no pidfds here: between the look
// and the signal the pid could change hands, in theory.
func (i Identity) signal(s syscall.Signal) error {
	if _, ok := i.look(); !ok {
		return os.ErrProcessDone
	}
	if err := syscall.Kill(i.PID, s); !errors.Is(err, syscall.ESRCH) {
		return err
	}
	return os.ErrProcessDone
}

// ResidentBytes is not known without ps here.
func ResidentBytes(int) (uint64, error) { return 0, errors.ErrUnsupported }
