package proc

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"
)

// Process is a running program and its guard. Close it when Done has fired.
type Process struct {
	// Stdin takes write deadlines, Stdout and Stderr read deadlines.
	Stdin, Stdout, Stderr *os.File

	child, guard Identity
	control      *os.File
	done         chan struct{}
	exit         Exit // written before done is closed

	mu     sync.Mutex
	closed bool // the control pipe
}

// Exit is how a program ended.
type Exit struct {
	Code   int    // exit status, when it was not a signal
	Signal string // name of the signal that ended it, else ""
	Swept  int    // descendants that had to be ended
	Err    error  // the guard was lost, or something could not be ended
}

// newProcess waits for the guard's word that the program runs.
func newProcess(program string, guard *os.Process, p *pipes) (*Process, error) {
	status := bufio.NewReader(p.statusR)
	first, err := readReport(status)
	if err != nil || first.Started == nil {
		p.closeOurs()
		_, _ = guard.Wait()
		if err != nil {
			return nil, &StartError{Program: program, Err: fmt.Errorf("the guard ended: %w", err)}
		}
		return nil, startError(program, first)
	}
	proc := &Process{
		Stdin: p.stdinW, Stdout: p.stdoutR, Stderr: p.stderrR,
		child: *first.Started, control: p.controlW, done: make(chan struct{}),
	}
	if proc.guard, err = identify(guard.Pid); err != nil {
		proc.guard = Identity{PID: guard.Pid, BootID: BootID()}
	}
	go proc.wait(guard, p.statusR, status) // ends with the guard; Done tells
	return proc, nil
}

func readReport(from *bufio.Reader) (report, error) {
	var r report
	line, err := from.ReadBytes('\n')
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(line, &r); err != nil {
		return r, fmt.Errorf("read the guard's report: %w", err)
	}
	return r, nil
}

// wait reads the guard's last word and waits for its end.
func (p *Process) wait(guard *os.Process, pipe *os.File, status *bufio.Reader) {
	defer close(p.done)
	defer pipe.Close()
	last, err := readReport(status)
	_, _ = guard.Wait()
	p.closeControl()
	if err != nil {
		// The guard was killed. The app-server dies with it (Pdeathsig); what
		// can still be found of it is ended here.
		killed, sweepErr := SweepStale(p.child)
		p.exit = Exit{Code: -1, Swept: killed, Err: errors.Join(fmt.Errorf("the guard of %s was lost: %w", p.child, err), sweepErr)}
		return
	}
	p.exit = Exit{Code: last.Code, Signal: last.Signal, Swept: last.Swept}
	if last.Left > 0 {
		p.exit.Err = fmt.Errorf("%d processes could not be ended", last.Left)
	}
}

// Child is the program itself, Guard the process that watches over it.
func (p *Process) Child() Identity { return p.child }

// Guard is the process between.
func (p *Process) Guard() Identity { return p.guard }

// Terminate asks the program to end (SIGTERM).
func (p *Process) Terminate() error { return p.order(orderTerm) }

// Kill ends the program and everything below it.
func (p *Process) Kill() error { return p.order(orderKill) }

func (p *Process) order(o byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return os.ErrProcessDone
	}
	if _, err := p.control.Write([]byte{o}); err != nil {
		return fmt.Errorf("order the guard of %s: %w", p.child, err)
	}
	return nil
}

func (p *Process) closeControl() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.closed = true
		_ = p.control.Close()
	}
}

// Done fires when the program and all its descendants are gone.
func (p *Process) Done() <-chan struct{} { return p.done }

// Exit is how the program ended; it is known once Done has fired.
func (p *Process) Exit() Exit {
	<-p.done
	return p.exit
}

// Close closes the pipes. A process that still runs is ended.
func (p *Process) Close() {
	p.closeControl()
	closeAll(p.Stdin, p.Stdout, p.Stderr)
}

// StopTimes is how long each step of Stop may take.
type StopTimes struct {
	Stdin time.Duration // after stdin was closed
	Term  time.Duration // after SIGTERM
	Kill  time.Duration // after SIGKILL, until nothing is left
}

// Stop ends a program by the ladder: stdin closed, SIGTERM, SIGKILL. Each step
// comes only when the one before did not end it. ctx cuts the waits short, not
// the ladder. It returns when nothing is left, or when even SIGKILL did not help
// in time (Exit.Err).
func Stop(ctx context.Context, p *Process, times StopTimes) Exit {
	_ = p.Stdin.Close()
	if p.endsWithin(ctx, times.Stdin) {
		return p.exit
	}
	_ = p.Terminate()
	if p.endsWithin(ctx, times.Term) {
		return p.exit
	}
	_ = p.Kill()
	if p.endsWithin(context.WithoutCancel(ctx), times.Kill) {
		return p.exit
	}
	return Exit{Code: -1, Err: fmt.Errorf("%s is not gone %s after SIGKILL", p.child, times.Kill)}
}

func (p *Process) endsWithin(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-p.done:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}
