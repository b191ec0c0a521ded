package proc

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"
)

// startPatience is how long a guard may take to start a program. Only a dead
// disk needs as long.
const startPatience = 30 * time.Second

// Process is a running program and its guards. Close it when Done has fired.
type Process struct {
	// Stdin takes write deadlines, Stdout and Stderr read deadlines.
	Stdin, Stdout, Stderr *os.File

	child  Identity
	inner  Identity // the guard, which started the child
	keeper Identity // above it, ours
	done   chan struct{}
	exit   Exit // written before done is closed

	mu      sync.Mutex
	control *os.File // nil once it is closed
}

// Exit is how a program ended.
type Exit struct {
	Code   int    // exit status; -1 when a signal ended it or when it is not known
	Signal string // name of the signal that ended it, else ""
	Swept  int    // descendants that had to be ended
	Err    error  // the guards were lost, or something could not be ended
}

// newProcess waits for the guard's word that the program runs. It owns the
// guard and our ends of the pipes from here on.
func newProcess(program string, keeper *os.Process, p *pipes) (*Process, error) {
	status := bufio.NewReader(p.statusR)
	_ = p.statusR.SetReadDeadline(time.Now().Add(startPatience))
	first, err := readReport(status)
	if err == nil && first.Started == nil {
		err = startReason(first)
	}
	if err != nil {
		p.closeOurs() // the end of the control pipe ends a guard that still works
		if errors.Is(err, os.ErrDeadlineExceeded) {
			_ = keeper.Kill()
			go func() { _, _ = keeper.Wait() }() // ends when the disk comes back, or never
		} else {
			_, _ = keeper.Wait()
		}
		return nil, &StartError{Program: program, Err: err}
	}
	_ = p.statusR.SetReadDeadline(time.Time{})
	proc := &Process{
		Stdin: p.stdinW, Stdout: p.stdoutR, Stderr: p.stderrR,
		child: *first.Started, inner: *first.Guard, keeper: identify(keeper.Pid),
		control: p.controlW, done: make(chan struct{}),
	}
	go proc.wait(keeper, p.statusR, status) // ends with the guards; Done tells
	return proc, nil
}

func readReport(from *bufio.Reader) (report, error) {
	var r report
	line, err := from.ReadBytes('\n')
	if err != nil {
		return r, fmt.Errorf("hear from the guard: %w", err)
	}
	if err := json.Unmarshal(line, &r); err != nil {
		return r, fmt.Errorf("read the guard's report: %w", err)
	}
	return r, nil
}

// wait reads what the guards report until they are gone: both hold the status
// pipe, so its end is theirs.
func (p *Process) wait(keeper *os.Process, pipe *os.File, status *bufio.Reader) {
	defer close(p.done)
	defer pipe.Close()
	p.exit.Code = -1
	known := false
	var left []string
	for {
		r, err := readReport(status)
		if err != nil {
			break
		}
		if r.Ended {
			known, p.exit.Code, p.exit.Signal = true, r.Code, r.Signal
		}
		p.exit.Swept += r.Swept
		left = r.Left // the keeper, who speaks last, may have ended what the guard could not
	}
	_, _ = keeper.Wait()
	// A guard whose keeper was killed is nobody's child that we could wait for, and
	// lets go of the pipe a moment before it is gone.
	p.inner.goneBy(time.Now().Add(stalePatience))
	p.closeControl()
	if !known {
		// The app-server dies with its guard (Pdeathsig). What is left of it is
		// ended here; usually the keeper has done that already.
		killed, err := SweepStale(p.child)
		p.exit.Swept += killed
		p.exit.Err = errors.Join(fmt.Errorf("the guard of %s was killed", p.child), err)
	}
	if left != nil {
		p.exit.Err = errors.Join(p.exit.Err, fmt.Errorf("could not be ended: %s", strings.Join(left, ", ")))
	}
}

// Child is the program itself.
func (p *Process) Child() Identity { return p.child }

// Guard is the topmost process of the program's family. Everything else of it is
// below, and [SweepStale] of it ends all.
func (p *Process) Guard() Identity { return p.keeper }

// Terminate asks the program to end (SIGTERM).
func (p *Process) Terminate() error { return p.order(orderTerm) }

// Kill ends the program and everything below it.
func (p *Process) Kill() error {
	err := p.order(orderKill)
	// Somebody may have stopped the guards, who could not obey then.
	for _, id := range []Identity{p.keeper, p.inner} {
		_ = id.signal(syscall.SIGCONT)
	}
	return err
}

func (p *Process) order(o byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.control == nil {
		return os.ErrProcessDone
	}
	_, err := p.control.Write([]byte{o})
	switch {
	case errors.Is(err, syscall.EPIPE):
		return os.ErrProcessDone
	case err != nil:
		return fmt.Errorf("order the guard of %s: %w", p.child, err)
	}
	return nil
}

func (p *Process) closeControl() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.control != nil {
		_ = p.control.Close()
		p.control = nil
	}
}

// Done fires when the program and all its descendants are gone, or when Exit
// says in Err why they are not.
func (p *Process) Done() <-chan struct{} { return p.done }

// Exit is how the program ended; it waits until Done has fired.
func (p *Process) Exit() Exit {
	<-p.done
	return p.exit
}

// Close closes the pipes. A program that still runs is ended, as by Kill.
func (p *Process) Close() {
	p.closeControl()
	closeAll(p.Stdin, p.Stdout, p.Stderr)
}
