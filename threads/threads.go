package threads

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/codex-supervisor/codex-supervisor/internal/task"
	"github.com/codex-supervisor/codex-supervisor/rpc"
	"github.com/codex-supervisor/codex-supervisor/store"
)

// DefaultLockWait is how long a thread that another process holds is waited
// for. After a kill the lock is free within 0.2 s (codex 0.171.0, measured); a
// person's terminal may hold it for hours.
const DefaultLockWait = 30 * time.Second

// keepLoaded bounds the durable threads that one generation keeps loaded.
const keepLoaded = 200

// Options of New.
type Options struct {
	Store     *store.DB
	Logger    *slog.Logger
	LockWait  time.Duration // DefaultLockWait when 0
	CodexHome func() string // where the writer locks lie, to name a holder; may be nil
}

// Threads opens threads. It is safe for use by several goroutines, as long as a
// channel is used by one at a time.
type Threads struct {
	opt Options
}

// New makes a Threads.
func New(o Options) *Threads {
	if o.LockWait <= 0 {
		o.LockWait = DefaultLockWait
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Threads{opt: o}
}

// Request asks for a thread.
type Request struct {
	Key, Name string // the channel
	Durable   bool   // the channel's own thread; else an ephemeral one
	Start     rpc.ThreadStartParams
	Resume    func(threadID string) rpc.ThreadResumeParams
	// Check judges the effective policy in a reply. When it fails no turn may
	// run: the thread is let go and the error returned as it is.
	Check func(rpc.ThreadReply) error
	// Fresh retires the channel's thread first. A bound one is not retired.
	Fresh bool
	// TaskID and Tier are listed with an ephemeral thread.
	TaskID string
	Tier   task.Tier
}

// Opened is the thread that a turn may run on.
type Opened struct {
	ID        string
	Ephemeral bool
	New       bool // it has had no turn yet
	// Afresh says that the channel had a conversation which is gone. The reply
	// must say so.
	Afresh bool
}

// LockedError is a thread that another process holds.
type LockedError struct {
	ThreadID  string
	HolderPID int // 0 = not known
}

func (e *LockedError) Error() string {
	if e.HolderPID != 0 {
		return fmt.Sprintf("thread %s is open in another process (pid %d)", e.ThreadID, e.HolderPID)
	}
	return fmt.Sprintf("thread %s is open in another process", e.ThreadID)
}

// MissingError is a bound thread that Codex does not know.
type MissingError struct{ ThreadID string }

func (e *MissingError) Error() string {
	return fmt.Sprintf("thread %s, to which the channel is bound, does not exist", e.ThreadID)
}

// Open returns the thread for a task. Errors of the connection and of Check
// come through as they are.
func (t *Threads) Open(ctx context.Context, s *Session, r Request) (Opened, error) {
	if !r.Durable {
		return t.openEphemeral(ctx, s, r)
	}
	channel, _, err := t.opt.Store.Channel(r.Key)
	if err != nil {
		return Opened{}, err
	}
	owner := channel.Owner
	if owner == nil {
		return t.start(ctx, s, r)
	}
	if r.Fresh {
		if owner.Bound {
			return Opened{}, fmt.Errorf("thread %s is bound to the channel and is not replaced by a fresh one", owner.ID)
		}
		t.opt.Logger.Info("thread retired", "channel", r.Key, "thread", owner.ID)
		return t.start(ctx, s, r)
	}
	if s.has(owner.ID) {
		s.use(owner.ID)
		return Opened{ID: owner.ID}, nil
	}
	reply, err := t.resume(ctx, s, r.Resume(owner.ID))
	switch {
	case err == nil:
		if err := t.check(ctx, s, r, reply); err != nil {
			return Opened{}, err
		}
		s.use(owner.ID)
		return Opened{ID: owner.ID}, nil
	case !gone(err):
		return Opened{}, err
	case owner.Bound:
		return Opened{}, &MissingError{ThreadID: owner.ID}
	}
	t.opt.Logger.Warn("thread is gone; starting afresh", "channel", r.Key, "thread", owner.ID, "error", err)
	opened, err := t.start(ctx, s, r)
	opened.Afresh = true
	return opened, err
}

// gone says whether Codex says that a thread does not exist (any more). Nothing
// else may lead to a fresh one.
func gone(err error) bool {
	switch rpc.FaultOf(err) {
	case rpc.FaultNoRollout, rpc.FaultArchived:
		return true
	default:
		return false
	}
}

func (t *Threads) openEphemeral(ctx context.Context, s *Session, r Request) (Opened, error) {
	reply, err := s.client.ThreadStart(ctx, r.Start)
	if err != nil {
		return Opened{}, err
	}
	if err := t.check(ctx, s, r, reply); err != nil {
		return Opened{}, err
	}
	e := store.Ephemeral{ThreadID: reply.Thread.ID, TaskID: r.TaskID, Tier: r.Tier, Generation: s.generation, Started: time.Now()}
	if err := t.opt.Store.AddEphemeral(r.Key, r.Name, e); err != nil {
		return Opened{}, err
	}
	return Opened{ID: reply.Thread.ID, Ephemeral: true, New: true}, nil
}

func (t *Threads) start(ctx context.Context, s *Session, r Request) (Opened, error) {
	if err := s.UnsubscribeIdle(ctx, keepLoaded, func(string) bool { return false }); err != nil {
		return Opened{}, err
	}
	reply, err := s.client.ThreadStart(ctx, r.Start)
	if err != nil {
		return Opened{}, err
	}
	if err := t.check(ctx, s, r, reply); err != nil {
		return Opened{}, err
	}
	s.use(reply.Thread.ID)
	return Opened{ID: reply.Thread.ID, New: true}, nil
}

func (t *Threads) check(ctx context.Context, s *Session, r Request, reply rpc.ThreadReply) error {
	if r.Check == nil {
		return errors.New("a thread's policy has to be checked")
	}
	err := r.Check(reply)
	if err == nil {
		return nil
	}
	s.Closed(reply.Thread.ID)
	if _, unsubscribed := s.client.ThreadUnsubscribe(ctx, rpc.ThreadUnsubscribeParams{ThreadID: reply.Thread.ID}); unsubscribed != nil {
		t.opt.Logger.Debug("thread not unsubscribed", "thread", reply.Thread.ID, "error", unsubscribed)
	}
	return err
}

// resume loads a thread, waiting a bounded time for another holder to let go.
func (t *Threads) resume(ctx context.Context, s *Session, p rpc.ThreadResumeParams) (rpc.ThreadReply, error) {
	wait := backoff.NewExponentialBackOff()
	wait.InitialInterval, wait.MaxInterval, wait.Multiplier = 100*time.Millisecond, 5*time.Second, 2
	wait.MaxElapsedTime = t.opt.LockWait
	wait.Reset()
	said := false
	for {
		reply, err := s.client.ThreadResume(ctx, p)
		if rpc.FaultOf(err) != rpc.FaultActiveWriter {
			return reply, err
		}
		pause := wait.NextBackOff()
		if pause == backoff.Stop {
			return reply, &LockedError{ThreadID: p.ThreadID, HolderPID: t.holder(p.ThreadID)}
		}
		if !said {
			said = true
			t.opt.Logger.Warn("thread is open in another process; waiting", "thread", p.ThreadID, "pid", t.holder(p.ThreadID), "at_most", t.opt.LockWait)
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return reply, fmt.Errorf("wait for thread %s: %w", p.ThreadID, context.Cause(ctx))
		}
	}
}

func (t *Threads) holder(threadID string) int {
	if t.opt.CodexHome == nil {
		return 0
	}
	return lockHolder(t.opt.CodexHome(), threadID)
}

// Acknowledge notes that a turn began on a durable thread. A thread's first one
// saves it: without a turn it has no rollout and could never be resumed.
func (t *Threads) Acknowledge(s *Session, key, name string, o Opened) error {
	if o.Ephemeral {
		return nil
	}
	channel, _, err := t.opt.Store.Channel(key)
	if err != nil {
		return err
	}
	now := time.Now()
	owner := store.Thread{ID: o.ID, Created: now}
	if channel.Owner != nil && channel.Owner.ID == o.ID {
		owner = *channel.Owner
	}
	owner.LastUsed, owner.Generation = now, s.generation
	owner.Turns++
	return t.opt.Store.SaveOwner(key, name, owner)
}

// Bind makes a channel use an existing thread. Binding the thread that it uses
// already keeps what is known of it.
func (t *Threads) Bind(key, name, threadID string) error {
	channel, _, err := t.opt.Store.Channel(key)
	if err != nil {
		return err
	}
	owner := store.Thread{ID: threadID, Created: time.Now()}
	if channel.Owner != nil && channel.Owner.ID == threadID {
		owner = *channel.Owner
	}
	owner.Bound = true
	return t.opt.Store.SaveOwner(key, name, owner)
}

// Reset makes a channel's next task start afresh, and returns the thread that it
// used. The thread itself stays with Codex.
func (t *Threads) Reset(key string) (old string, had bool, err error) {
	thread, had, err := t.opt.Store.DropOwner(key)
	return thread.ID, had, err
}
