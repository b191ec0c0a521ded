package supervisor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/codex-supervisor/codex-supervisor/internal/reason"
)

// ChildState is where the child of a work dir stands.
type ChildState string

// The states of a child. Only child.transition changes them.
const (
	ChildDown     ChildState = "down"
	ChildStarting ChildState = "starting"
	ChildReady    ChildState = "ready"
	ChildDraining ChildState = "draining" // will be replaced; turns may still finish
	ChildStopping ChildState = "stopping"
	ChildBackoff  ChildState = "backoff" // waits before the next start
	ChildHeld     ChildState = "held"    // runs, but no new turn may start
)

// Restart policy. The first restart is quick because most deaths are single;
// there is no give-up, since nobody is watching and most causes heal.
const (
	firstBackoff = 200 * time.Millisecond
	maxBackoff   = time.Minute
	// stableUptime is how long a generation must be up before its
	// predecessors' failures are forgotten.
	stableUptime = time.Minute
	// crashLoopAfter failures without a stable minute the loop is flagged.
	crashLoopAfter = 5
	// healPoll is how often a held child looks whether its cause has gone.
	healPoll = 2 * time.Second
)

// childOptions is what a child needs besides the way to start a generation.
type childOptions struct {
	replaceDrain time.Duration
	start        func(ctx context.Context, number uint64) (*generation, error)
	healed       func(*generation) bool // whether the cause of a hold may have gone
	stale        func(*generation) bool // whether the login has changed since it started
	nextNumber   func() (uint64, error)
	record       func(*generation, childEnd)
	notify       func(childEvent)
	watch        func(ChildStatus) // each change of state
	metrics      *workdirMetrics
	log          *slog.Logger
}

// childEnd is how a generation ended.
type childEnd struct {
	why    reason.Reason
	detail string
	ours   bool
}

// child keeps one app-server of a work dir alive. Serve's goroutine owns it;
// everybody else reads the snapshot and sends orders.
type child struct {
	opt      childOptions
	orders   *mailbox[childOrder]
	snapshot atomic.Pointer[ChildStatus]

	// Owned by Serve's goroutine.
	status   ChildStatus
	failures int
	backoff  *backoff.ExponentialBackOff
}

func newChild(opt childOptions) *child {
	b := backoff.NewExponentialBackOff()
	b.InitialInterval, b.MaxInterval, b.Multiplier = firstBackoff, maxBackoff, 2
	b.RandomizationFactor = 0.3
	b.MaxElapsedTime = 0 // the library would give up after 15 minutes
	b.Reset()
	c := &child{opt: opt, orders: newMailbox[childOrder](), backoff: b}
	c.status = ChildStatus{State: ChildDown, Since: time.Now()}
	c.publish()
	return c
}

// Status is a snapshot for readers on other goroutines.
func (c *child) Status() ChildStatus { return *c.snapshot.Load() }

func (c *child) order(o childOrder) { c.orders.put(o) }

// Serve keeps generations coming until ctx ends, and returns when the last one
// is gone with all its descendants.
func (c *child) Serve(ctx context.Context) error {
	defer c.transition(ChildDown, reason.ChildStopped, "")
	for ctx.Err() == nil {
		number, err := c.opt.nextNumber()
		if err != nil {
			c.pause(ctx, childEnd{why: reason.DiskFull, detail: err.Error()})
			continue
		}
		c.status.Generation = number
		c.transition(ChildStarting, "", "")
		began := time.Now()
		gen, err := c.opt.start(ctx, number)
		if err != nil {
			if ctx.Err() == nil {
				end := startFailure(err)
				c.restarted(end.why)
				c.pause(ctx, end)
			}
			continue
		}
		c.opt.metrics.childStart.Observe(time.Since(began).Seconds())
		c.status.PID, c.status.Version, c.status.StartedAt = gen.pid, gen.version, time.Now()
		end := c.attend(ctx, gen)
		c.stop(gen, &end)
		if ctx.Err() != nil {
			break
		}
		c.restarted(end.why)
		if !end.ours {
			c.pause(ctx, end)
		}
	}
	return nil
}

// restarted counts a generation that another one follows, also one that did not
// get through its handshake.
func (c *child) restarted(why reason.Reason) {
	c.status.Restarts++
	c.status.LastRestart = why
	c.opt.metrics.restart(why)
}

// attend watches one generation until it has to be stopped.
func (c *child) attend(ctx context.Context, gen *generation) childEnd {
	var held *hold
	if gen.hold != nil {
		held = gen.hold
		c.hold(gen, *held)
	} else {
		c.transition(ChildReady, "", "")
	}
	c.opt.notify(childUp{gen})
	if held != nil {
		c.opt.notify(childHolds{gen, *held})
	}
	stable := time.NewTimer(stableUptime)
	defer stable.Stop()
	poll := time.NewTicker(healPoll)
	defer poll.Stop()
	var drainEnds <-chan time.Time
	var replacing childEnd
	stale := false
	for {
		select {
		case <-ctx.Done():
			return childEnd{why: reason.ChildStopped, ours: true}
		case <-gen.lost():
			end := gen.lostBecause()
			if drainEnds != nil {
				return replacing
			}
			return end
		case <-stable.C:
			c.failures = 0
			c.backoff.Reset()
			c.setCrashLoop(false)
		case <-drainEnds:
			return replacing
		case <-poll.C:
			if held == nil && drainEnds == nil && !stale && c.opt.stale(gen) {
				stale = true
				c.opt.notify(childStale{gen})
			}
			if held == nil || drainEnds != nil {
				continue
			}
			if held.why == reason.UsageLimit {
				if !held.until.IsZero() && time.Now().After(held.until) {
					held = nil
					c.release(gen)
				}
				continue
			}
			if c.opt.healed(gen) {
				return childEnd{why: reason.ChildRecycled, detail: string(held.why), ours: true}
			}
		case <-c.orders.ready:
			for _, o := range c.orders.take() {
				if o.what != orderRestart && o.gen != gen.number {
					continue
				}
				switch o.what {
				case orderReplace, orderRestart:
					if drainEnds != nil {
						continue
					}
					replacing = childEnd{why: o.why, detail: o.detail, ours: true}
					drainEnds = time.After(c.opt.replaceDrain)
					c.transition(ChildDraining, o.why, o.detail)
					c.opt.notify(childDrains{gen})
				case orderDrained:
					if drainEnds != nil {
						return replacing
					}
				case orderWithdraw:
					if drainEnds == nil || replacing.why != reason.ChildUnresponsive {
						continue
					}
					drainEnds = nil
					c.transition(ChildReady, "", "")
					c.opt.notify(childReleased{gen})
				case orderHold:
					if held != nil && (held.why != reason.LoginMissing || o.hold.why != reason.ConfigBroken) {
						continue // a broken configuration is why no login was found
					}
					h := o.hold
					held = &h
					c.hold(gen, h)
					c.opt.notify(childHolds{gen, h})
				}
			}
		}
	}
}

func (c *child) hold(gen *generation, h hold) {
	c.status.HeldUntil = h.until
	c.transition(ChildHeld, h.why, h.detail)
	c.opt.log.Warn("child held", "generation", gen.number, "reason", string(h.why), "detail", h.detail, "until", h.until)
}

func (c *child) release(gen *generation) {
	c.status.HeldUntil = time.Time{}
	c.transition(ChildReady, "", "")
	c.opt.notify(childReleased{gen})
}

// stop ends a generation, waits until nothing of it is left, records how it
// ended and only then tells the work dir: a continuation must not start while
// a command of the cut turn still runs.
func (c *child) stop(gen *generation, end *childEnd) {
	c.transition(ChildStopping, end.why, end.detail)
	began := time.Now()
	gen.stop(end)
	c.opt.metrics.replace.Observe(time.Since(began).Seconds())
	c.status.LastExit = gen.exitText()
	c.opt.record(gen, *end)
	level := slog.LevelInfo
	if !end.ours {
		level = slog.LevelWarn
	}
	c.opt.log.Log(context.Background(), level, "child ended", "generation", gen.number, "reason", string(end.why),
		"detail", end.detail, "exit", gen.exitText(), "swept", gen.exit.Swept, "stderr_lines", len(gen.stderr.Lines()))
	c.opt.notify(childEnded{gen: gen, why: end.why, ours: end.ours})
}

// pause waits before the next start. An operator's restart cuts it short.
func (c *child) pause(ctx context.Context, end childEnd) {
	c.failures++
	wait := c.backoff.NextBackOff()
	c.status.NextStart = time.Now().Add(wait)
	c.status.PID = 0
	same := c.status.LastFailure == end.why && c.status.LastFailureDetail == end.detail
	c.status.LastFailure, c.status.LastFailureDetail = end.why, end.detail
	c.transition(ChildBackoff, end.why, end.detail)
	if !same || c.failures == 1 {
		// One line for each change, not one for each try: a loop over a night
		// must not fill the log.
		c.opt.log.Warn("child will be started again", "reason", string(end.why), "detail", end.detail, "in", wait.Round(time.Millisecond))
	}
	c.setCrashLoop(c.failures >= crashLoopAfter)
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			return
		case <-c.orders.ready:
			for _, o := range c.orders.take() {
				if o.what == orderRestart {
					c.failures = 0
					c.backoff.Reset()
					c.setCrashLoop(false)
					return
				}
			}
		}
	}
}

func (c *child) setCrashLoop(on bool) {
	if c.status.CrashLooping == on {
		return
	}
	c.status.CrashLooping = on
	c.publish()
	c.opt.metrics.crashLooping.Set(boolGauge(on))
	if on {
		c.opt.log.Error("child is crash looping", "failures", c.failures, "reason", string(c.status.Reason))
	} else {
		c.opt.log.Info("child no longer crash looping")
	}
}

// transition is the only writer of the child's state.
func (c *child) transition(to ChildState, why reason.Reason, detail string) {
	from := c.status.State
	if !legal(from, to) {
		// A bug of ours; the state is still set, since readers must see what is.
		c.opt.log.Error("illegal child transition", "from", string(from), "to", string(to))
	}
	c.status.State, c.status.Reason, c.status.Detail = to, why, detail
	c.status.Since = time.Now()
	switch to {
	case ChildDown, ChildBackoff, ChildStarting:
		c.status.PID, c.status.HeldUntil = 0, time.Time{}
	case ChildReady, ChildDraining, ChildStopping, ChildHeld:
	}
	if to != ChildBackoff {
		c.status.NextStart = time.Time{}
	}
	c.opt.metrics.child(c.status)
	c.publish()
	if c.opt.watch != nil {
		c.opt.watch(c.status)
	}
	if from != to {
		c.opt.log.Debug("child state", "from", string(from), "to", string(to), "generation", c.status.Generation, "reason", string(why))
	}
}

func (c *child) publish() {
	s := c.status
	c.snapshot.Store(&s)
}

// legal is the table of transitions.
func legal(from, to ChildState) bool {
	switch to {
	case ChildDown:
		return true
	case ChildStarting:
		return from == ChildDown || from == ChildBackoff || from == ChildStopping || from == ChildStarting
	case ChildReady:
		return from == ChildStarting || from == ChildHeld || from == ChildDraining
	case ChildHeld:
		return from == ChildStarting || from == ChildReady || from == ChildDraining
	case ChildDraining:
		return from == ChildReady || from == ChildHeld
	case ChildStopping:
		return from == ChildReady || from == ChildHeld || from == ChildDraining
	case ChildBackoff:
		return from == ChildStarting || from == ChildStopping || from == ChildDown
	default:
		return false
	}
}

// startError is a start that failed, with the word for it.
type startError struct {
	why reason.Reason
	err error
}

func (e *startError) Error() string { return fmt.Sprintf("start app-server: %v", e.err) }
func (e *startError) Unwrap() error { return e.err }

func startFailure(err error) childEnd {
	var s *startError
	switch {
	case errors.As(err, &s):
		return childEnd{why: s.why, detail: oneLine(s.err.Error(), 300)}
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission):
		return childEnd{why: reason.BinaryMissing, detail: oneLine(err.Error(), 300)}
	default:
		return childEnd{why: reason.ChildExited, detail: oneLine(err.Error(), 300)}
	}
}

func boolGauge(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
