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
	// NoFile raises the soft limit on descriptors, at most to the hard one; 0
	// leaves it. Codex needs 2 for each loaded thread and fails at 1,024.
	NoFile uint64
}

// Spawner starts processes from one OS thread that lives until Close. Pdeathsig
// fires when the thread that forked ends, so a thread of the runtime's pool
// would take the children with it at any moment.
type Spawner struct {
	requests chan func()
	done     sync.WaitGroup
	once     sync.Once
}

// NewSpawner starts the thread.
func NewSpawner() *Spawner {
	s := &Spawner{requests: make(chan func())}
	s.done.Go(func() { // waited for by Close
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		for f := range s.requests {
			f()
		}
	})
	return s
}

// Close ends the thread. Guards that still run then sweep and end.
func (s *Spawner) Close() {
	s.once.Do(func() { close(s.requests) })
	s.done.Wait()
}

// Start starts a program under a guard of its own. It returns when the program
// runs, or *[StartError] when it could not be started.
func (s *Spawner) Start(spec Spec) (*Process, error) {
	if len(spec.Argv) == 0 {
		return nil, &StartError{Err: errors.New("no program is given")}
	}
	program, err := exec.LookPath(spec.Argv[0])
	if err != nil {
		return nil, &StartError{Program: spec.Argv[0], Err: err}
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
	argv := append([]string{guardName, fmt.Sprintf("--nofile=%d", spec.NoFile), program}, spec.Argv[1:]...)
	var guard *os.Process
	started := make(chan struct{})
	s.requests <- func() {
		defer close(started)
		guard, err = os.StartProcess(self, argv, attr)
	}
	<-started
	if err != nil {
		pipes.closeOurs()
		return nil, &StartError{Program: self, Err: err}
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

// withoutService drops what the service manager told us: a child that pinged
// our watchdog or took our sockets would speak for us.
func withoutService(env []string) []string {
	kept := make([]string, 0, len(env))
	for _, e := range env {
		name, _, _ := strings.Cut(e, "=")
		if name == "NOTIFY_SOCKET" || strings.HasPrefix(name, "WATCHDOG_") || strings.HasPrefix(name, "LISTEN_") {
			continue
		}
		kept = append(kept, e)
	}
	return kept
}
