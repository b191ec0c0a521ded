package supervisor

import (
	"context"
	"fmt"
	"time"

	"github.com/codex-supervisor/codex-supervisor/internal/proc"
	"github.com/codex-supervisor/codex-supervisor/internal/reason"
	"github.com/codex-supervisor/codex-supervisor/internal/task"
	"github.com/codex-supervisor/codex-supervisor/rpc"
	"github.com/codex-supervisor/codex-supervisor/sandbox"
	"github.com/codex-supervisor/codex-supervisor/store"
	"github.com/codex-supervisor/codex-supervisor/threads"
)

// attempt commits one try to the ledger and runs its turn.
func (k *walk) attempt(ctx context.Context, kind store.AttemptKind) (turnEnd, error) {
	first := len(k.row.Attempts) == 0
	a := store.Attempt{
		Kind: kind, Generation: k.gen.number, BootID: proc.BootID(), ThreadID: k.opened.ID,
		NewThread: k.opened.New, Ephemeral: k.opened.Ephemeral, Began: time.Now(),
	}
	k.row.Notice = k.notice
	row, err := k.w.store.Begin(k.row, a)
	if err != nil {
		return turnEnd{}, fmt.Errorf("begin attempt of %q: %w", k.item.ID, err)
	}
	k.row = row
	n := len(row.Attempts)
	if first {
		k.w.metrics.waited(k.item.Tier, a.Began.Sub(k.item.ModTime))
	}
	k.show(func(r *RunningTask) { r.Attempt, r.Started = n, a.Began })
	k.w.emit(Event{Kind: EventAttempt, TaskID: k.item.ID, Tier: k.item.Tier, Attempt: n, Try: kind, Thread: k.opened.ID})
	t := &turn{gen: k.gen, child: k.w.child, log: k.log, spec: turnSpec{
		threadID: k.opened.ID, ephemeral: k.opened.Ephemeral,
		input: k.input(kind), clientID: k.lastAttempt().ClientID(k.item.ID),
		cap: k.cap(), grace: k.w.opt.InterruptGrace, quiet: k.w.opt.QuietAfter,
		stuck:   func(stuck bool) { k.w.post(msgStuck{id: k.item.ID, stuck: stuck}) },
		abandon: k.task.Tier != task.Owner, cancel: k.cancel,
		intent: func(why reason.Reason) error {
			k.w.emit(Event{Kind: EventStop, TaskID: k.item.ID, Tier: k.item.Tier, Attempt: n, Reason: why})
			return k.note(func(a *store.Attempt) { a.Stopping = why })
		},
		known: func(id string) error {
			k.show(func(r *RunningTask) { r.TurnID = id })
			return k.note(func(a *store.Attempt) { a.TurnID = id })
		},
		begun: func() error {
			// In this order: an attempt whose turn was seen has its thread saved,
			// and recovery need not save it against an operator's reset.
			if err := k.keepThread(); err != nil {
				return err
			}
			return k.note(func(a *store.Attempt) { a.TurnSeen = true })
		},
		show: func(phase string, length int) {
			k.show(func(r *RunningTask) { r.Phase, r.TextLen = phase, length })
		},
	}}
	end := t.run(ctx)
	k.opened.New = false // from here on it has had a turn
	if end.stopping != "" && end.status != turnCut {
		k.cleanTerminals(ctx)
	}
	return end, k.ended(end)
}

// keepThread saves an owner's thread once its first turn has begun: a thread
// without a turn has no rollout and could never be resumed.
func (k *walk) keepThread() error {
	if k.opened.Ephemeral {
		return nil
	}
	return k.w.threads.Acknowledge(k.gen.session, k.item.ChannelKey, k.row.ChannelName, *k.opened)
}

// note changes the newest attempt of the row.
func (k *walk) note(change func(*store.Attempt)) error {
	row, err := k.w.store.Update(k.item.ID, func(r *store.Row) error {
		change(&r.Attempts[len(r.Attempts)-1])
		return nil
	})
	if err != nil {
		return fmt.Errorf("note attempt of %q: %w", k.item.ID, err)
	}
	k.row = row
	return nil
}

// ended records what a turn cost. A cut turn stays open: its end is found out
// on the next generation.
func (k *walk) ended(end turnEnd) error {
	if end.status == turnCut {
		return nil
	}
	k.w.metrics.turn(k.item.Tier, outcomeOf(end), end.took, end.first)
	if end.tokens > 0 {
		k.w.metrics.m.tokens.WithLabelValues(k.w.metrics.name, string(k.item.Tier)).Add(float64(end.tokens))
	}
	now := time.Now()
	row, err := k.w.store.Update(k.item.ID, func(r *store.Row) error {
		r.Attempts[len(r.Attempts)-1].Ended = now
		r.Tokens += end.tokens
		for _, m := range end.declined {
			r.Declined = append(r.Declined, store.Declined{Method: m, At: now})
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("end attempt of %q: %w", k.item.ID, err)
	}
	k.row = row
	return nil
}

func outcomeOf(end turnEnd) store.Outcome {
	switch {
	case end.status == turnCompleted:
		return store.Answered
	case end.stopping == reason.Cancelled:
		return store.Cancelled
	case end.stopping != "":
		return store.TimedOut
	default:
		return store.Failed
	}
}

// input builds what the turn is given to read.
func (k *walk) input(kind store.AttemptKind) []rpc.UserInput {
	frame := sandbox.Frame{Task: k.task}
	if k.room != nil {
		frame.RoomFiles = k.room.Files
	}
	var prompt string
	switch kind {
	case store.Continuation:
		prompt = sandbox.ContinuationPrompt(frame)
	case store.Resumed:
		frame.Notice = "The turn was stopped by the usage limit of the account, which has been reset since."
		prompt = sandbox.ContinuationPrompt(frame)
	case store.EmptyRetry:
		prompt = sandbox.EmptyPrompt(frame)
	case store.AfreshRetry:
		frame.Notice = "An earlier try at this ended because the conversation was too long for the model. Parts may be done already; check before doing them again."
		prompt = frame.Prompt()
	case store.First, store.Again:
		prompt = frame.Prompt()
	default:
		prompt = frame.Prompt()
	}
	input := []rpc.UserInput{{Type: "text", Text: prompt}}
	if k.room != nil {
		for _, image := range k.room.Images {
			input = append(input, rpc.UserInput{Type: "localImage", Path: image})
		}
	}
	return input
}

// ask puts the recovery question: what became of the newest attempt? A thread
// that is missing or locked is asked again for a while, since the old process
// may have been the one that held it.
func (k *walk) ask(ctx context.Context) (threads.Found, error) {
	k.phase("asking the thread")
	last := k.lastAttempt()
	client := last.ClientID(k.item.ID)
	for wait := 200 * time.Millisecond; ; wait *= 2 {
		found, err := k.w.threads.Find(ctx, k.gen.client, last.ThreadID, client)
		if err != nil {
			return found, err
		}
		uncertain := found.State == threads.ThreadLocked || (found.State == threads.ThreadMissing && !last.NewThread)
		if !uncertain || wait > 2*time.Second {
			return found, k.adopt(last, found)
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return found, ctx.Err()
		}
	}
}

// adopt saves the thread of a first turn that was stored though we were gone
// before we could save it, in place of the one that it was to replace.
func (k *walk) adopt(last store.Attempt, found threads.Found) error {
	switch found.State {
	case threads.Completed, threads.Failed, threads.Interrupted, threads.InProgress:
	case threads.NeverStored, threads.ThreadMissing, threads.ThreadLocked:
		return nil
	}
	if !last.NewThread || last.TurnSeen {
		return nil
	}
	return k.w.threads.Acknowledge(k.gen.session, k.item.ChannelKey, k.row.ChannelName, threads.Opened{ID: last.ThreadID, New: true})
}

// storedEnd is the end of a turn as its thread tells it.
func storedEnd(found threads.Found) turnEnd {
	end := turnEnd{turnID: found.TurnID, text: found.Reply, err: found.Err, status: turnCompleted}
	if found.State == threads.Failed {
		end.status = turnFailed
	}
	return end
}
