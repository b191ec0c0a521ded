package proc

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
)

// Spec is a program to start.
type Spec struct {
	Argv []string // the program, looked up on PATH when it holds no slash, and its arguments
	Dir  string
	Env  []string // the whole environment
	// NoFile is the soft limit on descriptors, at most the hard one; 0 leaves
	// what the service was started with. Codex needs 2 for each loaded thread and
	// fails at 1,024 (codex app-server 0.171.0, measured).
	NoFile uint64
}

// Spawner starts processes from one OS thread that lives until Close. Pdeathsig
// fires when the thread that forked ends, so a thread of the runtime's pool
// would signal the children at any moment.
type Spawner struct {
	requests chan func()
	closing  chan struct{}
	done     sync.WaitGroup
	once     sync.Once
}

// NewSpawner starts the thread.
func NewSpawner() *Spawner {
	s := &Spawner{requests: make(chan func()), closing: make(chan struct{})}
	s.done.Go(func() { // waited for by Close
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		for {
			select {
			case f := <-s.requests:
				f()
			case <-s.closing:
				return
			}
		}
	})
	return s
}

// Close ends the thread. Processes that still run are not touched: their guards
// look to the pipe and to the whole service, not to a thread of it.
func (s *Spawner) Close() {
	s.once.Do(func() { close(s.closing) })
	s.done.Wait()
}

// ErrSpawnerClosed is returned by Start after Close.
var ErrSpawnerClosed = errors.New("spawner is closed")

// Start starts a program under a guard of its own. It returns when the program
// runs, or *[StartError] when it could not be started.
func (s *Spawner) Start(spec Spec) (*Process, error) {
	if len(spec.Argv) == 0 {
		return nil, &StartError{Err: errors.New("no program is given")}
	}
	program := spec.Argv[0]
	if !strings.Contains(program, "/") {
		found, err := exec.LookPath(program)
		if err != nil {
			return nil, &StartError{Program: program, Err: notFound(err)}
		}
		program = found
	}
	self, err := selfPath()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	pipes, err := openPipes()
	if err != nil {
		return nil, err
	}
	defer pipes.closeTheirs()
	attr := &os.ProcAttr{
		Dir: spec.Dir, Env: withoutService(spec.Env),
		Files: []*os.File{pipes.stdinR, pipes.stdoutW, pipes.stderrW, pipes.controlR, pipes.statusW},
		Sys:   guardAttr(),
	}
	d := duty{noFile: spec.NoFile, argv: append([]string{program}, spec.Argv[1:]...)}
	var guard *os.Process
	started := make(chan struct{})
	start := func() {
		defer close(started)
		guard, err = os.StartProcess(self, d.args(), attr)
	}
	select {
	case s.requests <- start:
		<-started
	case <-s.closing:
		err = ErrSpawnerClosed
	}
	if err != nil { // of the guard: no memory, no processes left, no such directory
		pipes.closeOurs()
		if _, dirErr := os.Stat(spec.Dir); spec.Dir != "" && dirErr != nil {
			err = dirErr // StartProcess names the program only
		}
		return nil, &StartError{Program: program, Err: fmt.Errorf("start the guard: %w", err)}
	}
	return newProcess(program, guard, pipes)
}

// pipes are the five between the service and a guard.
type pipes struct {
	stdinR, stdinW, stdoutR, stdoutW, stderrR, stderrW, controlR, controlW, statusR, statusW *os.File
}

func openPipes() (*pipes, error) {
	p := &pipes{}
	for _, ends := range [][2]**os.File{
		{&p.stdinR, &p.stdinW}, {&p.stdoutR, &p.stdoutW}, {&p.stderrR, &p.stderrW}, {&p.controlR, &p.controlW}, {&p.statusR, &p.statusW},
	} {
		r, w, err := os.Pipe()
		if err != nil {
			p.closeTheirs()
			p.closeOurs()
			return nil, fmt.Errorf("open pipes: %w", err)
		}
		*ends[0], *ends[1] = r, w
	}
	return p, nil
}

func (p *pipes) closeTheirs() {
	closeAll(p.stdinR, p.stdoutW, p.stderrW, p.controlR, p.statusW)
}

func (p *pipes) closeOurs() {
	closeAll(p.stdinW, p.stdoutR, p.stderrR, p.controlW, p.statusR)
}

func closeAll(files ...*os.File) {
	for _, f := range files {
		if f != nil {
			_ = f.Close()
		}
	}
}
