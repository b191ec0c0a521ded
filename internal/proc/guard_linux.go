package proc

import (
	"errors"
	"io"
	"os"
	"os/signal"
	"runtime"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// sweepPatience bounds a sweep: a process that waits for a dead disk cannot be
// ended by anybody, and the service must not hang with it.
const sweepPatience = 20 * time.Second

// guard is the state of a running guard. Its main goroutine owns it.
type guard struct {
	status io.Writer
	child  *os.Process
	ended  chan *os.ProcessState
	swept  int
}

// runGuard starts the program, waits for its end or for an order, and returns
// when no descendant is left.
func runGuard(argv []string, control io.Reader, status io.Writer) int {
	// Pdeathsig of the app-server follows this thread, so it must not end.
	runtime.LockOSThread()
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		tell(status, report{Failed: "become subreaper: " + err.Error()})
		return 1
	}
	// Handlers rather than SIG_IGN: ignored signals would stay ignored in the
	// app-server.
	parent := os.Getppid()
	asked := make(chan os.Signal, 16)
	signal.Notify(asked, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGCHLD)
	defer signal.Stop(asked)

	g := &guard{status: status, ended: make(chan *os.ProcessState, 1)}
	child, err := os.StartProcess(argv[0], argv, &os.ProcAttr{
		Env:   os.Environ(),
		Files: []*os.File{os.Stdin, os.Stdout, os.Stderr},
		Sys:   &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL},
	})
	if err != nil {
		r := report{Failed: err.Error()}
		var errno syscall.Errno
		if errors.As(err, &errno) {
			r.Errno = int(errno)
		}
		tell(status, r)
		return 1
	}
	g.child = child
	// Only the app-server may hold its pipes: else its end would not be seen.
	for _, f := range []*os.File{os.Stdin, os.Stdout, os.Stderr} {
		_ = f.Close()
	}
	var waiting sync.WaitGroup
	waiting.Go(func() { // ends with the app-server, which the sweep makes sure of
		state, _ := child.Wait()
		g.ended <- state
	})
	id, err := identify(child.Pid)
	if err != nil {
		id = Identity{PID: child.Pid, BootID: BootID()} // it has ended already
	}
	tell(status, report{Started: &id})

	orders := make(chan byte)
	go readOrders(control, orders) // ends with the process: a pipe cannot be waited for otherwise
	state := g.attend(parent, asked, orders)
	left := g.sweep()
	if state == nil && left == 0 {
		state = <-g.ended
	}
	r := report{Ended: true, Swept: g.swept, Left: left}
	if state != nil {
		if ws, ok := state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
			r.Signal = unix.SignalName(ws.Signal())
		} else {
			r.Code = state.ExitCode()
		}
	}
	tell(status, r)
	return 0
}

// attend returns when the sweep is due, with the app-server's state if it ended.
func (g *guard) attend(parent int, asked <-chan os.Signal, orders <-chan byte) *os.ProcessState {
	for {
		select {
		case state := <-g.ended:
			return state
		case s := <-asked:
			if s == syscall.SIGCHLD {
				g.reap()
				continue
			}
			// Pdeathsig: the thread that started us has died. Any other sender
			// is not our business; orders come through the pipe.
			if os.Getppid() != parent {
				return nil
			}
		case o, ok := <-orders:
			switch {
			case !ok, o == orderKill:
				return nil
			case o == orderTerm:
				_ = g.child.Signal(syscall.SIGTERM)
			}
		}
	}
}

func readOrders(control io.Reader, orders chan<- byte) {
	defer close(orders)
	buf := make([]byte, 1)
	for {
		if _, err := control.Read(buf); err != nil {
			return
		}
		orders <- buf[0]
	}
}

// reap collects orphans that have ended. It goes by pid: wait4(-1) would steal
// the app-server's status from the goroutine that waits for it.
func (g *guard) reap() {
	found, err := below(os.Getpid())
	if err != nil {
		return
	}
	for _, s := range found {
		if s.state == 'Z' && s.parent == os.Getpid() && s.pid != g.child.Pid {
			_, _ = unix.Wait4(s.pid, nil, unix.WNOHANG, nil)
		}
	}
}

// sweep kills every descendant until none is left, and returns how many could
// not be ended. New ones may appear while it kills, so it goes in rounds.
func (g *guard) sweep() (left int) {
	deadline := time.Now().Add(sweepPatience)
	seen := map[int]uint64{}
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		found, err := below(os.Getpid())
		if err != nil {
			return 1
		}
		living := 0
		for _, s := range found {
			if s.state == 'Z' || s.state == 'X' {
				continue
			}
			living++
			if seen[s.pid] != s.start+1 {
				seen[s.pid] = s.start + 1
				if s.pid != g.child.Pid {
					g.swept++
				}
			}
			_ = unix.Kill(s.pid, unix.SIGKILL)
		}
		g.reap()
		if living == 0 {
			return 0
		}
		if time.Now().After(deadline) {
			return living
		}
		time.Sleep(pause)
	}
}
