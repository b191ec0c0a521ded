package supervisor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/codex-supervisor/codex-supervisor/internal/reason"
	"github.com/codex-supervisor/codex-supervisor/internal/task"
	"github.com/codex-supervisor/codex-supervisor/store"
)

// fail answers with the plain text of a reason.
func (k *walk) fail(f failure) (walkEnd, error) {
	if k.item.Tier != task.Owner {
		f.detail = "" // errors of the house are not a guest's business
	}
	outcome := store.Failed
	switch f.why {
	case reason.TurnTimeout:
		outcome = store.TimedOut
	case reason.Cancelled:
		outcome = store.Cancelled
	default:
	}
	return k.reply(outcome, f.why, f.detail, f.text())
}

// refuse answers a task that may not run here; nothing was started for it.
func (k *walk) refuse(why reason.Reason, detail string) (walkEnd, error) {
	return k.replyWith(store.Refused, why, detail, failure{why: why}.text())
}

// reject answers a file that is not a task we can run.
func (k *walk) reject(why reason.Reason, detail string) (walkEnd, error) {
	return k.replyWith(store.Rejected, why, detail, failure{why: why}.text())
}

// reply commits the text before anybody can see it, then publishes it.
func (k *walk) reply(outcome store.Outcome, why reason.Reason, detail, text string) (walkEnd, error) {
	return k.replyWith(outcome, why, detail, noticed(k.notice, text))
}

func (k *walk) replyWith(outcome store.Outcome, why reason.Reason, detail, text string) (walkEnd, error) {
	k.phase("publishing")
	if err := k.w.sink.Keep(k.item.ID, text); err != nil {
		return 0, fmt.Errorf("keep reply to %q: %w", k.item.ID, err)
	}
	if k.row.TaskID == "" {
		k.row = k.freshRow()
	}
	row, err := k.w.store.Upsert(k.row, func(r *store.Row) error {
		r.State, r.Outcome, r.Reason, r.Detail = store.StateReplied, outcome, why, oneLine(detail, 300)
		r.RepliedAt, r.Notice = time.Now(), k.notice
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("commit reply to %q: %w", k.item.ID, err)
	}
	k.row = row
	return k.publishKept()
}

// publishKept publishes the committed text and closes the row.
func (k *walk) publishKept() (walkEnd, error) {
	text, ok, err := k.w.sink.Kept(k.item.ID)
	if err != nil {
		return 0, fmt.Errorf("read kept reply to %q: %w", k.item.ID, err)
	}
	if !ok || strings.TrimSpace(text) == "" {
		// Somebody removed it from the state dir. What happened is still known.
		text = failure{why: k.row.Reason}.text()
	}
	receipt, err := k.w.sink.Publish(k.item.ID, k.item.Tier, text)
	if errors.Is(err, fs.ErrNotExist) {
		// The dir was removed while we ran.
		if err := os.MkdirAll(k.w.opt.Results, 0o755); err != nil {
			return 0, fmt.Errorf("make results dir: %w", err)
		}
		receipt, err = k.w.sink.Publish(k.item.ID, k.item.Tier, text)
	}
	if err != nil {
		return 0, fmt.Errorf("publish reply to %q: %w", k.item.ID, err)
	}
	return k.close(func(r *store.Row) { r.ResultBytes, r.Cut = receipt.Bytes, receipt.Cut })
}

// settle closes a row whose result is there already.
func (k *walk) settle(outcome store.Outcome, why reason.Reason) (walkEnd, error) {
	return k.close(func(r *store.Row) {
		if r.State != store.StateReplied { // else the result is most likely ours
			r.Outcome, r.Reason = outcome, why
		}
	})
}

func (k *walk) close(change func(*store.Row)) (walkEnd, error) {
	row, err := k.w.store.Update(k.item.ID, func(r *store.Row) error {
		change(r)
		r.State, r.SettledAt = store.StateSettled, time.Now()
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("settle %q: %w", k.item.ID, err)
	}
	k.row = row
	k.w.metrics.settled(row)
	k.w.emit(Event{Kind: EventSettled, TaskID: row.TaskID, Tier: row.Tier, Reason: row.Reason, Row: &row})
	k.log.Info("task settled", "outcome", string(row.Outcome), "reason", string(row.Reason),
		"attempts", len(row.Attempts), "bytes", row.ResultBytes)
	return walkSettled, nil
}
