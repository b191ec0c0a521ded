package supervisor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"syscall"
	"time"

	"github.com/codex-supervisor/codex-supervisor/internal/inbox"
	"github.com/codex-supervisor/codex-supervisor/internal/proc"
	"github.com/codex-supervisor/codex-supervisor/internal/reason"
	"github.com/codex-supervisor/codex-supervisor/internal/task"
	"github.com/codex-supervisor/codex-supervisor/rpc"
	"github.com/codex-supervisor/codex-supervisor/sandbox"
	"github.com/codex-supervisor/codex-supervisor/store"
	"github.com/codex-supervisor/codex-supervisor/threads"
)

// walkEnd is how a task's walk on one generation ended.
type walkEnd int

const (
	walkSettled     walkEnd = iota // the row is closed and the result is out
	walkCut                        // the generation ended; settle it on the next one
	walkDeferred                   // a hold began; go on when it ends
	walkGone                       // the file vanished before anything ran
	walkChanged                    // the file's tier or channel changed; queue it again
	walkUnpublished                // the answer is known but could not be written; try again
)

// walk takes one task from picked to settled on one generation. It is used by
// one goroutine. Whatever it did is in the ledger, so a walk that is cut short
// is taken up by another one, on the next generation or after a restart.
type walk struct {
	w      *WorkDir
	gen    *generation
	item   inbox.Item
	blame  bool      // the child died with this task alone on it
	known  *knownEnd // the end is known and needs no child
	held   *hold     // the child takes no new turns
	tries  int       // earlier walks that could not write the answer
	caused bool      // this walk made the child hold
	err    error     // why the answer could not be written
	cancel chan reason.Reason
	show   func(func(*RunningTask))
	log    *slog.Logger

	row      store.Row
	task     task.Task
	room     *sandbox.Room
	opened   *threads.Opened
	notice   string
	fresh    bool // the next turn needs a new thread
	reopened bool // the thread had been unloaded and was opened once more
	lost     bool // the turn was abandoned and still holds its slot
}

func (k *walk) run(ctx context.Context) walkEnd {
	end, err := k.steps(ctx)
	k.leaveRoom(ctx)
	if err != nil {
		k.err = err
		return walkUnpublished
	}
	return end
}

func (k *walk) steps(ctx context.Context) (walkEnd, error) {
	row, open, err := k.w.store.Row(k.item.ID)
	if err != nil {
		return 0, fmt.Errorf("read ledger row %q: %w", k.item.ID, err)
	}
	_, exists, err := k.w.sink.Done(k.item.ID)
	if err != nil {
		return 0, fmt.Errorf("look for a result of %q: %w", k.item.ID, err)
	}
	if open && row.State == store.StateSettled {
		return walkSettled, nil
	}
	if k.known != nil {
		return k.end(row, exists)
	}
	if !open {
		if exists {
			return walkSettled, nil // answered by somebody else; nothing was begun
		}
		k.row = k.freshRow()
		return k.begin(ctx, store.First, nil)
	}
	k.row, k.notice = row, row.Notice
	if k.blame {
		if k.row, err = k.w.store.Update(row.TaskID, func(r *store.Row) error { r.Deaths++; return nil }); err != nil {
			return 0, fmt.Errorf("record death under %q: %w", row.TaskID, err)
		}
	}
	d := decideKnown(k.row, exists)
	var found threads.Found
	if d.move == moveAsk {
		if found, err = k.ask(ctx); err != nil {
			return k.callFailed(ctx, err)
		}
		d = decideFound(k.row, found, k.lastAttempt().BootID != proc.BootID())
	}
	k.log.Info("task taken up again", "move", d.move.String(), "reason", string(d.why), "attempts", len(k.row.Attempts))
	switch d.move {
	case moveSettle:
		return k.settle(store.Answered, reason.AlreadyAnswered)
	case movePublishKept:
		return k.publishKept()
	case moveFail:
		return k.fail(failure{why: d.why, detail: d.detail, after: k.cap(), ran: d.why == reason.CutTwice || d.why == reason.ChildDied})
	case moveReply:
		end := storedEnd(found)
		return k.begin(ctx, k.lastAttempt().Kind, &end)
	case moveRun, moveContinue:
		return k.begin(ctx, d.kind, nil)
	case moveAsk:
		return 0, fmt.Errorf("task %q: the thread was asked and nothing was decided", k.item.ID)
	default:
		return 0, fmt.Errorf("task %q: unknown move %d", k.item.ID, d.move)
	}
}

// end settles a task whose end is known without a turn: a file that is no task,
// a cancelled one, one that meets a long hold.
func (k *walk) end(row store.Row, exists bool) (walkEnd, error) {
	k.row = row // empty when there is none yet
	switch {
	case row.State == store.StateReplied:
		return k.publishKept()
	case exists && row.TaskID != "":
		return k.settle(store.Answered, reason.AlreadyAnswered)
	case exists:
		return walkSettled, nil
	}
	return k.replyWith(k.known.outcome, k.known.failure.why, k.known.detail, k.known.failure.text())
}

func (k *walk) freshRow() store.Row {
	it := k.item
	return store.Row{
		TaskID: it.ID, ChannelKey: it.ChannelKey, ChannelName: it.ChannelID, Tier: it.Tier, Verdict: it.Verdict,
		Queued: it.ModTime, Seen: time.Now(),
	}
}

// begin reads the task and runs turns for it until there is an answer. When the
// thread already holds the end of the newest turn, that is where it starts.
func (k *walk) begin(ctx context.Context, kind store.AttemptKind, stored *turnEnd) (walkEnd, error) {
	if end, ok, err := k.read(kind); !ok {
		return end, err
	}
	if end, ok, err := k.allowed(); !ok {
		return end, err
	}
	for {
		if stored == nil && k.held != nil {
			if k.held.tell(time.Now()) {
				return k.fail(failure{why: k.held.why, until: k.held.until})
			}
			return walkDeferred, nil
		}
		if stored == nil {
			if err := k.open(ctx, kind); err != nil {
				return k.callFailed(ctx, err)
			}
			if goesOn(kind) && k.opened.ID != k.lastAttempt().ThreadID {
				// The channel was bound to another thread in between.
				return k.fail(failure{why: reason.MayHaveRun})
			}
			end, err := k.attempt(ctx, kind)
			if err != nil {
				return 0, err
			}
			stored = &end
		}
		next, done, err := k.judge(ctx, kind, *stored)
		if err != nil || next == "" {
			return done, err
		}
		kind, stored = next, nil
	}
}

// goesOn says whether an attempt of this kind only makes sense on the thread of
// the attempt before it.
func goesOn(kind store.AttemptKind) bool {
	return kind == store.Continuation || kind == store.EmptyRetry || kind == store.Resumed
}

func (k *walk) lastAttempt() store.Attempt {
	if len(k.row.Attempts) == 0 {
		return store.Attempt{}
	}
	return k.row.Attempts[len(k.row.Attempts)-1]
}

// read takes the task's bytes once more: the queue holds only what the order
// needs, and the bytes that are run are the bytes whose envelope was judged.
func (k *walk) read(kind store.AttemptKind) (walkEnd, bool, error) {
	t, err := k.w.source.Read(k.item.ID)
	var rejection *task.Rejection
	switch {
	case err == nil:
	case errors.As(err, &rejection):
		end, err := k.reject(rejection.Reason, rejection.Detail)
		return end, false, err
	case errors.Is(err, fs.ErrNotExist):
		if len(k.row.Attempts) == 0 {
			return walkGone, false, nil
		}
		if goesOn(kind) {
			// What goes on does not need the words that it began with.
			k.task = task.Task{ID: k.row.TaskID, Tier: k.row.Tier, Verdict: k.row.Verdict, ChannelID: k.row.ChannelName}
			return 0, true, nil
		}
		end, err := k.fail(failure{why: reason.Cancelled})
		return end, false, err
	default:
		end, err := k.reject(reason.FileUnreadable, oneLine(err.Error(), 200))
		return end, false, err
	}
	if t.Tier != k.item.Tier || task.ChannelKey(t.ChannelID) != k.item.ChannelKey {
		if len(k.row.Attempts) == 0 {
			k.task = t
			return walkChanged, false, nil
		}
		// Rewritten while it ran. The attempt on record says whose it was.
		t.Tier, t.ChannelID = k.row.Tier, k.row.ChannelName
	}
	k.task = t
	return 0, true, nil
}

// allowed refuses what may not run here before anything is started for it.
func (k *walk) allowed() (walkEnd, bool, error) {
	if k.task.Tier == task.Owner {
		return 0, true, nil
	}
	if o, ok := k.w.opt.Tiers[k.task.Tier]; ok && o.Disabled {
		end, err := k.refuse(reason.TierDisabled, "")
		return end, false, err
	}
	if c := k.gen.guests(); c.why != "" {
		end, err := k.refuse(c.why, c.detail)
		return end, false, err
	}
	return 0, true, nil
}

// open finds the thread that the next turn runs on.
func (k *walk) open(ctx context.Context, kind store.AttemptKind) error {
	if k.opened != nil && kind != store.AfreshRetry {
		return nil // the retry of an empty reply goes on where it was
	}
	k.phase("opening thread")
	owner := k.task.Tier == task.Owner
	req := threads.Request{Key: k.item.ChannelKey, Name: k.row.ChannelName, Durable: owner}
	if owner {
		req.Start = k.gen.sandbox.OwnerStart()
		req.Resume = k.gen.sandbox.OwnerResume
		req.Check = k.gen.sandbox.CheckOwner
		req.Fresh = k.fresh
	} else {
		if err := k.enterRoom(ctx); err != nil {
			return err
		}
		servers, err := k.mcpServers(ctx)
		if err != nil {
			return err
		}
		room := k.room.Dir
		req.Start = k.gen.sandbox.GuestStart(k.task.Tier, room, servers)
		req.Check = func(r rpc.ThreadReply) error { return k.gen.sandbox.CheckGuest(r, room) }
		req.TaskID, req.Tier = k.task.ID, k.task.Tier
	}
	o, err := k.w.threads.Open(ctx, k.gen.session, req)
	if err != nil {
		return err
	}
	k.opened = &o
	switch {
	case req.Fresh:
		k.notice, k.fresh = noticeTooLong, false
	case o.Afresh:
		k.notice = noticeAfresh
	}
	k.show(func(r *RunningTask) { r.ThreadID = o.ID })
	return nil
}

// mcpServers learns the servers configured for a guest's room, each of which
// has to be switched off by name.
func (k *walk) mcpServers(ctx context.Context) ([]string, error) {
	cfg, err := k.gen.client.ConfigRead(ctx, rpc.ConfigReadParams{Cwd: k.room.Dir})
	if err != nil {
		return nil, err
	}
	return cfg.MCPServers(), nil
}

func (k *walk) gone() bool {
	select {
	case <-k.gen.ended:
		return true
	case <-k.gen.lost():
		return true
	default:
		return false
	}
}

// callFailed names a request that failed before a turn was begun.
func (k *walk) callFailed(ctx context.Context, err error) (walkEnd, error) {
	var missing *threads.MissingError
	var locked *threads.LockedError
	var mismatch *sandbox.Mismatch
	var attachment *sandbox.AttachmentError
	switch {
	case ctx.Err() != nil:
		return k.waitGone(), nil
	case errors.As(err, &missing):
		return k.fail(failure{why: reason.ThreadMissing, detail: err.Error()})
	case errors.As(err, &locked):
		return k.fail(failure{why: reason.ThreadLocked, detail: err.Error()})
	case errors.As(err, &mismatch):
		return k.refuse(reason.PolicyUnverified, err.Error())
	case errors.As(err, &attachment):
		return k.refuse(reason.AttachmentRefused, err.Error())
	}
	switch rpc.FaultOf(err) {
	case rpc.FaultConnection:
		return k.waitGone(), nil
	case rpc.FaultTimeout:
		k.w.child.order(childOrder{what: orderReplace, gen: k.gen.number, why: reason.ChildUnresponsive, detail: oneLine(err.Error(), 200)})
		return k.waitGone(), nil
	case rpc.FaultConfig:
		k.holdChild(hold{why: reason.ConfigBroken, detail: oneLine(err.Error(), 300), since: time.Now()})
		return walkDeferred, nil
	default:
		var errno syscall.Errno
		if errors.As(err, &errno) {
			return 0, err // ours: the disk, a room, the ledger; tried again
		}
		return k.fail(failure{why: reason.CodexError, detail: err.Error()})
	}
}

func (k *walk) holdChild(h hold) {
	k.caused = true
	k.w.child.order(childOrder{what: orderHold, gen: k.gen.number, hold: h})
}

// waitGone waits until nothing of the generation is left: what comes next must
// not meet a command of the cut turn still running.
func (k *walk) waitGone() walkEnd {
	k.phase("waiting for the child")
	<-k.gen.ended
	return walkCut
}

func (k *walk) phase(p string) { k.show(func(r *RunningTask) { r.Phase = p }) }

func (k *walk) cap() time.Duration { return k.w.turnTimeout(k.item.Tier) }
