package threads

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/codex-supervisor/codex-supervisor/internal/proc"
	"github.com/codex-supervisor/codex-supervisor/rpc"
	"github.com/codex-supervisor/codex-supervisor/store"
)

// keepLoaded bounds the durable threads that one generation keeps loaded.
const keepLoaded = 200

// Open returns the thread for a task. Errors of the connection and of Check
// come through as they are; others may be *[LockedError] or *[MissingError].
func (t *Threads) Open(ctx context.Context, s *Session, r Request) (Opened, error) {
	if r.Check == nil {
		return Opened{}, errors.New("open a thread without a check of its policy")
	}
	if !r.Durable {
		return t.openEphemeral(ctx, s, r)
	}
	channel, _, err := t.opt.Store.Channel(r.Key)
	if err != nil {
		return Opened{}, err
	}
	owner := channel.Owner
	switch {
	case owner == nil:
		return t.start(ctx, s, r)
	case r.Fresh:
		return t.replace(ctx, s, r, *owner)
	case s.reuse(owner.ID):
		return Opened{ID: owner.ID}, nil
	default:
		return t.load(ctx, s, r, *owner)
	}
}

// load resumes the channel's thread, or begins afresh when it is gone.
func (t *Threads) load(ctx context.Context, s *Session, r Request, owner store.Thread) (Opened, error) {
	if err := t.makeRoom(ctx, s); err != nil {
		return Opened{}, err
	}
	params := r.Resume(owner.ID)
	params.ThreadID, params.ExcludeTurns = owner.ID, true // its history may be tens of megabytes
	reply, err := t.resume(ctx, s, params)
	if why, is := gone(err, owner); is {
		if owner.Bound {
			return Opened{}, &MissingError{ThreadID: owner.ID, Why: why}
		}
		t.opt.Logger.Warn("thread is gone; starting afresh", "channel", r.Key, "thread", owner.ID, "error", err)
		opened, err := t.start(ctx, s, r)
		opened.Afresh, opened.AfreshWhy = true, why
		return opened, err
	}
	if err != nil {
		return Opened{}, err
	}
	if err := t.check(ctx, s, r, reply); err != nil {
		return Opened{}, err
	}
	if reply.Thread.ID != owner.ID {
		t.letGo(ctx, s, reply.Thread.ID)
		return Opened{}, fmt.Errorf("resume thread %s: the answer is for %q", owner.ID, reply.Thread.ID)
	}
	s.use(owner.ID)
	return Opened{ID: owner.ID}, nil
}

// replace begins afresh on request. The present thread stays on record until the
// new one is acknowledged: before that there is nothing to go on with.
func (t *Threads) replace(ctx context.Context, s *Session, r Request, owner store.Thread) (Opened, error) {
	if owner.Bound {
		return Opened{}, fmt.Errorf("thread %s is bound to the channel and is not replaced by a fresh one", owner.ID)
	}
	opened, err := t.start(ctx, s, r)
	if err != nil {
		return Opened{}, err
	}
	t.opt.Logger.Info("thread retired", "channel", r.Key, "thread", owner.ID)
	if s.reuse(owner.ID) {
		t.letGo(ctx, s, owner.ID)
	}
	opened.Afresh, opened.AfreshWhy = true, "the earlier one was retired"
	return opened, nil
}

// start makes a durable thread.
func (t *Threads) start(ctx context.Context, s *Session, r Request) (Opened, error) {
	if err := t.makeRoom(ctx, s); err != nil {
		return Opened{}, err
	}
	r.Start.Ephemeral = false
	id, err := t.startChecked(ctx, s, r)
	if err != nil {
		return Opened{}, err
	}
	s.use(id)
	return Opened{ID: id, New: true}, nil
}

// openEphemeral makes a thread that leaves nothing behind, and lists it.
func (t *Threads) openEphemeral(ctx context.Context, s *Session, r Request) (Opened, error) {
	r.Start.Ephemeral = true
	id, err := t.startChecked(ctx, s, r)
	if err != nil {
		return Opened{}, err
	}
	e := store.Ephemeral{ThreadID: id, TaskID: r.TaskID, Tier: r.Tier, Generation: s.generation, Started: time.Now()}
	if err := t.opt.Store.AddEphemeral(r.Key, r.Name, e); err != nil {
		t.letGo(ctx, s, id)
		return Opened{}, err
	}
	return Opened{ID: id, Ephemeral: true, New: true}, nil
}

func (t *Threads) startChecked(ctx context.Context, s *Session, r Request) (string, error) {
	reply, err := s.client.ThreadStart(ctx, r.Start)
	if err != nil {
		return "", err
	}
	if err := t.check(ctx, s, r, reply); err != nil {
		return "", err
	}
	if reply.Thread.ID == "" {
		return "", errors.New("start thread: the answer names none")
	}
	return reply.Thread.ID, nil
}

func (t *Threads) check(ctx context.Context, s *Session, r Request, reply rpc.ThreadReply) error {
	err := r.Check(reply)
	if err != nil {
		t.letGo(ctx, s, reply.Thread.ID)
	}
	return err
}

// letGo unsubscribes from a thread that is not wanted. Codex unloads it then; if
// it does not, that costs memory and nothing else.
func (t *Threads) letGo(ctx context.Context, s *Session, threadID string) {
	// Also after the caller gave up: the client has a deadline of its own.
	if err := s.unsubscribe(context.WithoutCancel(ctx), threadID); err != nil {
		t.opt.Logger.Debug("thread not unsubscribed", "thread", threadID, "error", err)
	}
}

// makeRoom unsubscribes from idle threads before one more is loaded.
func (t *Threads) makeRoom(ctx context.Context, s *Session) error {
	err := s.UnsubscribeIdle(ctx, keepLoaded-1)
	if rpc.FaultOf(err) == rpc.FaultConnection || ctx.Err() != nil {
		return err
	}
	if err != nil {
		t.opt.Logger.Warn("idle threads not unsubscribed", "loaded", s.Loaded(), "error", err)
	}
	return nil
}

// Waits between tries at a thread that another process holds.
const (
	lockPollFirst = 100 * time.Millisecond
	lockPollMost  = 5 * time.Second
)

// resume loads a thread, waiting a bounded time for another holder to let go.
// The thread is never forked instead: there would be two conversations, and one
// of them would be lost on somebody.
func (t *Threads) resume(ctx context.Context, s *Session, p rpc.ThreadResumeParams) (rpc.ThreadReply, error) {
	deadline := time.Now().Add(t.opt.LockWait)
	for pause := lockPollFirst; ; pause = min(2*pause, lockPollMost) {
		reply, err := s.client.ThreadResume(ctx, p)
		if rpc.FaultOf(err) != rpc.FaultActiveWriter {
			return reply, err
		}
		left := time.Until(deadline)
		if left <= 0 {
			return rpc.ThreadReply{}, &LockedError{ThreadID: p.ThreadID, HolderPID: t.holder(p.ThreadID)}
		}
		if pause == lockPollFirst {
			t.opt.Logger.Warn("thread is open in another process; waiting", "thread", p.ThreadID, "pid", t.holder(p.ThreadID), "at_most", left)
		}
		timer := time.NewTimer(min(pause, left))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return rpc.ThreadReply{}, fmt.Errorf("wait for thread %s: %w", p.ThreadID, context.Cause(ctx))
		}
	}
}

// holder is the process that holds a thread, 0 when it cannot be told.
func (t *Threads) holder(threadID string) int {
	if t.opt.CodexHome == nil || filepath.Base(threadID) != threadID {
		return 0
	}
	// An flock on a file into which nothing is written (codex 0.171.0, measured).
	return proc.LockHolder(filepath.Join(t.opt.CodexHome(), "thread-writer-locks", threadID+".lock"))
}
