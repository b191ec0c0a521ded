package proc

import (
	"context"
	"fmt"
	"time"
)

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
