package proc

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// patience bounds a sweep: a process that waits for a dead disk, or that has
// become root, cannot be ended by us, and the service must not hang with it.
type patience struct {
	stall time.Duration // without any progress
	whole time.Duration
}

var (
	guardPatience  = patience{stall: 5 * time.Second, whole: time.Minute}
	keeperPatience = patience{stall: time.Second, whole: time.Minute} // the guard was patient already
)

const (
	sweepPause   = 100 * time.Microsecond // grows while nothing changes
	sweepPauseTo = 100 * time.Millisecond
	sweepDeep    = 10 * time.Millisecond // a pause from which on it looks below its own children
)

// sweep kills every descendant until none is left and returns a line for each
// that could not be ended.
//
// It kills its own children and collects them, and what those leave behind comes
// to it, since it is their subreaper: one generation of the family a round. A
// pid of its own cannot be used again before it collects it, so no stranger is
// hit, and listing them takes so little that a process which forks and ends all
// the time, under another pid whenever it is looked for, is caught as well. Having no children
// is the kernel's own word that there are no descendants either.
func (g *guard) sweep() (left []string) {
	began := time.Now()
	progress := began
	pause := sweepPause
	for {
		for _, pid := range ownChildren() {
			g.kill(pid)
		}
		collected := g.reap()
		if !hasChildren() {
			return nil
		}
		now := time.Now()
		if collected > 0 {
			progress, pause = now, sweepPause
		}
		if now.Sub(progress) > g.stall || now.Sub(began) > g.whole {
			return leftBehind()
		}
		if pause >= sweepDeep {
			killBelow() // a child that cannot be ended must not shield what is below it
		}
		select {
		case <-g.signals: // most likely SIGCHLD
		case <-time.After(pause):
		}
		pause = min(2*pause, sweepPauseTo)
	}
}

func (g *guard) kill(pid int) {
	if pid == g.child.Pid {
		_ = g.child.Kill() // collected by another goroutine, so its pid is not safe
		return
	}
	_ = unix.Kill(pid, unix.SIGKILL)
}

// reap collects children that have ended, by pid: wait4(-1) would take the
// child's status from the goroutine that waits for it.
func (g *guard) reap() (collected int) {
	for _, pid := range ownChildren() {
		if pid == g.child.Pid {
			continue
		}
		var ws syscall.WaitStatus
		if got, err := syscall.Wait4(pid, &ws, syscall.WNOHANG|unix.WALL, nil); err != nil || got != pid {
			continue
		}
		collected++
		if ws.Signaled() && ws.Signal() == syscall.SIGKILL {
			g.swept++
		}
	}
	return collected
}

// hasChildren asks the kernel whether there is any child, dead or alive. It
// collects none.
func hasChildren() bool {
	for {
		err := unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT|unix.WALL, nil)
		if err != unix.EINTR {
			return err != unix.ECHILD
		}
	}
}

// ownChildren lists the children of this process, zombies included. While they
// come and go it may miss some, so nothing is concluded from an empty list.
func ownChildren() []int {
	var pids []int
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return nil
	}
	for _, t := range threads {
		raw, err := os.ReadFile("/proc/self/task/" + t.Name() + "/children")
		if os.IsNotExist(err) {
			if _, err := os.Stat("/proc/self/task/" + t.Name()); err == nil {
				return childrenByScan() // a kernel without CONFIG_PROC_CHILDREN
			}
		}
		for f := range strings.FieldsSeq(string(raw)) {
			if pid, err := strconv.Atoi(f); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

func childrenByScan() []int {
	all, err := processes()
	if err != nil {
		return nil
	}
	var pids []int
	for _, s := range all {
		if s.parent == os.Getpid() {
			pids = append(pids, s.pid)
		}
	}
	return pids
}

// killBelow kills all descendants at once, each checked to be the one listed.
func killBelow() {
	found, err := below(os.Getpid())
	if err != nil {
		return
	}
	for _, s := range found {
		_ = s.identity().signal(unix.SIGKILL)
	}
}

// leftBehind describes what is still there, for a person to read.
func leftBehind() []string {
	left := []string{}
	found, _ := below(os.Getpid())
	for _, s := range found {
		if !s.dead() {
			left = append(left, fmt.Sprintf("pid %d (%s, state %c)", s.pid, s.name, s.state))
		}
	}
	if len(left) == 0 {
		left = append(left, "a process that cannot be seen")
	}
	return left
}
