package threads

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/codex-supervisor/codex-supervisor/internal/task"
	"github.com/codex-supervisor/codex-supervisor/rpc"
	"github.com/codex-supervisor/codex-supervisor/store"
)

// DefaultLockWait is how long a thread that another process holds is waited
// for. After a kill the lock is free within 0.2 s (codex 0.171.0, measured); a
// person's terminal may hold it for hours.
const DefaultLockWait = 30 * time.Second

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
	// Resume are the parameters for the channel's thread, with the policy: a
	// thread that is resumed without takes the one it was stored with.
	Resume func(threadID string) rpc.ThreadResumeParams
	// Check judges the effective policy in a reply, before anything else is done
	// with it. When it fails no turn may run: the thread is let go and the error
	// returned as it is.
	Check func(rpc.ThreadReply) error
	// Fresh retires the channel's thread and starts a new one. A bound one is
	// not retired.
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
	// Afresh says that the channel had a conversation, which is not gone on with.
	// The reply must say so. AfreshWhy is the reason, as a clause for people.
	Afresh    bool
	AfreshWhy string
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

// MissingError is a bound thread that cannot be gone on with. It is the
// operator's to mend: what he bound is never replaced by a fresh one.
type MissingError struct {
	ThreadID string
	Why      string // a clause
}

func (e *MissingError) Error() string {
	return fmt.Sprintf("thread %s, to which the channel is bound, cannot be resumed: %s", e.ThreadID, e.Why)
}

// gone says whether, and why, a channel's thread cannot be gone on with, ever.
// Nothing else may lead to a fresh one: not a dead connection, a lock, a timeout
// or an error that nobody has thought of.
func gone(err error, owner store.Thread) (why string, ok bool) {
	//exhaustive:ignore every fault but these leaves the thread alone
	switch rpc.FaultOf(err) {
	case rpc.FaultNoRollout:
		return "Codex has no stored history of it", true
	case rpc.FaultArchived:
		return "it is archived", true
	case rpc.FaultThreadNotLoaded:
		// The file of a thread that was cut off in its first turn may be empty, and
		// stays so (codex 0.171.0, measured). A file that held more and cannot be
		// read is damage, for a person to look at.
		return "its first turn was never stored", owner.Turns <= 1
	case rpc.FaultInvalidThread:
		return "Codex says that this is no thread's id", owner.Bound
	default:
		return "", false
	}
}

// Acknowledge notes that a turn began on a durable thread. A thread's first one
// saves it: without a turn it has no rollout and could never be resumed. What an
// operator bound or reset since the thread was opened stands.
func (t *Threads) Acknowledge(s *Session, key, name string, o Opened) error {
	if o.Ephemeral {
		return nil
	}
	if o.ID == "" {
		return errors.New("acknowledge a thread without an id")
	}
	now := time.Now()
	return t.opt.Store.ChangeOwner(key, name, func(present *store.Thread) *store.Thread {
		owner := store.Thread{ID: o.ID, Created: now}
		switch {
		case present != nil && present.ID == o.ID:
			owner = *present
		case !o.New, present != nil && present.Bound:
			return present
		}
		owner.LastUsed, owner.Generation = now, s.generation
		owner.Turns++
		return &owner
	})
}

// Bind makes a channel use an existing thread. Binding the thread that it uses
// already keeps what is known of it.
func (t *Threads) Bind(key, name, threadID string) error {
	if threadID == "" {
		return errors.New("bind a thread without an id")
	}
	return t.opt.Store.ChangeOwner(key, name, func(present *store.Thread) *store.Thread {
		owner := store.Thread{ID: threadID, Created: time.Now()}
		if present != nil && present.ID == threadID {
			owner = *present
		}
		owner.Bound = true
		return &owner
	})
}

// Reset makes a channel's next task start afresh, and returns the thread that it
// used. The thread itself stays with Codex.
func (t *Threads) Reset(key string) (old string, had bool, err error) {
	thread, had, err := t.opt.Store.DropOwner(key)
	return thread.ID, had, err
}
