package supervisor

import (
	"context"
	"strings"
	"time"

	"github.com/codex-supervisor/codex-supervisor/internal/reason"
	"github.com/codex-supervisor/codex-supervisor/internal/task"
	"github.com/codex-supervisor/codex-supervisor/rpc"
	"github.com/codex-supervisor/codex-supervisor/store"
)

// judge decides what follows a turn: another attempt of the kind it names, or
// the end of the walk.
func (k *walk) judge(ctx context.Context, kind store.AttemptKind, end turnEnd) (store.AttemptKind, walkEnd, error) {
	if end.status == turnCompleted && strings.TrimSpace(end.text) != "" {
		// Also after an interrupt: a turn that completes late is done.
		done, err := k.reply(store.Answered, reason.Answered, "", end.text)
		return "", done, err
	}
	if end.stopping != "" {
		if end.status == turnCut {
			k.waitGone()
		}
		k.lost = end.status == turnIgnored
		done, err := k.fail(failure{why: end.stopping, after: k.cap(), partial: end.partial})
		return "", done, err
	}
	switch end.status {
	case turnCut:
		return "", k.waitGone(), nil
	case turnRefused:
		return k.refusedStart(ctx, end.callErr)
	case turnInterrupted:
		done, err := k.fail(failure{why: reason.TurnInterrupted, partial: end.partial})
		return "", done, err
	case turnFailed:
		return k.failedTurn(ctx, end)
	case turnCompleted, turnIgnored:
	}
	if end.oversize {
		done, err := k.fail(failure{why: reason.ReplyTooLarge, partial: end.partial})
		return "", done, err
	}
	if kind != store.EmptyRetry {
		return store.EmptyRetry, 0, nil
	}
	done, err := k.fail(failure{why: reason.EmptyReply})
	return "", done, err
}

// refusedStart handles a turn/start that was answered with an error.
func (k *walk) refusedStart(ctx context.Context, err error) (store.AttemptKind, walkEnd, error) {
	if rpc.FaultOf(err) == rpc.FaultInputTooLarge {
		done, err := k.fail(failure{why: reason.PromptTooLong})
		return "", done, err
	}
	if rpc.FaultOf(err) == rpc.FaultThreadNotFound && !k.reopened && !k.opened.Ephemeral {
		// Codex had unloaded it behind our back; nothing ran.
		k.gen.session.Closed(k.opened.ID)
		k.opened, k.reopened = nil, true
		return again(k.lastAttempt()), 0, nil
	}
	done, err := k.callFailed(ctx, err)
	return "", done, err
}

// failedTurn handles a turn that Codex gave up on. The kinds that mean nothing to
// the service, an open set, are the model's failure (codex app-server 0.171.0).
func (k *walk) failedTurn(ctx context.Context, end turnEnd) (store.AttemptKind, walkEnd, error) {
	var info rpc.ErrorInfo
	message := ""
	if end.err != nil {
		info, message = end.err.CodexErrorInfo, end.err.Message
	}
	switch {
	case info.Kind == rpc.ErrUsageLimitExceeded:
		done, err := k.limited()
		return "", done, err
	case info.Kind == rpc.ErrUnauthorized, info.HTTPStatus == 401:
		k.holdChild(hold{why: reason.LoginMissing, detail: "the login was refused; run `codex login`", since: time.Now()})
		done, err := k.fail(failure{why: reason.LoginMissing})
		return "", done, err
	case info.Kind == rpc.ErrContextWindowExceeded && k.task.Tier == task.Owner:
		return k.makeRoom(ctx, end)
	case info.Kind == rpc.ErrContextWindowExceeded:
		done, err := k.fail(failure{why: reason.ContextWindow, partial: end.partial})
		return "", done, err
	default:
		done, err := k.fail(failure{why: reason.ModelError, detail: message, partial: end.partial})
		return "", done, err
	}
}

// unknownReset is how long a usage limit without a reset time holds the child.
const unknownReset = 15 * time.Minute

// limited holds the child until the account's limit resets. A reset soon is
// waited for; a later one is told at once.
func (k *walk) limited() (walkEnd, error) {
	now := time.Now()
	h := hold{why: reason.UsageLimit, until: k.gen.limitResets(now), since: now}
	told := h.until
	if h.until.IsZero() {
		h.until = now.Add(unknownReset)
	}
	k.holdChild(h)
	if told.IsZero() || h.tell(now) {
		return k.fail(failure{why: reason.UsageLimit, until: told})
	}
	if err := k.note(func(a *store.Attempt) { a.End = reason.UsageLimit }); err != nil {
		return 0, err
	}
	return walkDeferred, nil
}

// makeRoom answers a conversation that no longer fits the model: compact it
// once, then go to a fresh thread that says so, then give up.
func (k *walk) makeRoom(ctx context.Context, end turnEnd) (store.AttemptKind, walkEnd, error) {
	tries := 0
	for _, a := range k.row.Attempts {
		if a.Kind == store.AfreshRetry {
			tries++
		}
	}
	switch tries {
	case 0:
		if err := k.open(ctx, store.EmptyRetry); err != nil { // after a crash nothing is open yet
			done, err := k.callFailed(ctx, err)
			return "", done, err
		}
		compacted := k.compact(ctx)
		if compacted.status == turnCut {
			return "", k.waitGone(), nil
		}
		k.fresh = compacted.status != turnCompleted
		if !k.fresh || !k.bound() {
			return store.AfreshRetry, 0, nil
		}
	case 1:
		k.fresh = !k.lastAttempt().NewThread
		if k.fresh && !k.bound() {
			return store.AfreshRetry, 0, nil
		}
	}
	done, err := k.fail(failure{why: reason.ContextWindow, partial: end.partial})
	return "", done, err
}

// bound says whether an operator bound the channel to its thread, which is then
// never replaced by a fresh one.
func (k *walk) bound() bool {
	channel, ok, err := k.w.store.Channel(k.item.ChannelKey)
	return err != nil || ok && channel.Owner != nil && channel.Owner.Bound
}

// compact runs the thread's compaction, which is a turn like any other, with
// the same cap and the same ladder.
func (k *walk) compact(ctx context.Context) turnEnd {
	k.phase("compacting")
	t := &turn{gen: k.gen, child: k.w.child, log: k.log, spec: turnSpec{
		threadID: k.opened.ID, compact: true,
		cap: k.cap(), grace: k.w.opt.InterruptGrace, quiet: k.w.opt.QuietAfter,
		intent: func(reason.Reason) error { return nil },
		stuck:  func(stuck bool) { k.w.post(msgStuck{id: k.item.ID, stuck: stuck}) },
	}}
	return t.run(ctx)
}
