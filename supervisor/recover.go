package supervisor

import (
	"github.com/codex-supervisor/codex-supervisor/internal/reason"
	"github.com/codex-supervisor/codex-supervisor/internal/task"
	"github.com/codex-supervisor/codex-supervisor/store"
	"github.com/codex-supervisor/codex-supervisor/threads"
)

// move is what to do with a task whose row is open.
type move int

const (
	// moveSettle: a result exists; close the row and publish nothing.
	moveSettle move = iota
	// movePublishKept: our row says replied; publish that very text.
	movePublishKept
	// moveFail: publish the plain text of a reason; run nothing.
	moveFail
	// moveReply: the turn had completed; publish what it answered.
	moveReply
	// moveRun: the prompt never reached the model; send it.
	moveRun
	// moveContinue: the turn was cut off; one continuation turn.
	moveContinue
	// moveAsk: nothing can be said before the thread was asked.
	moveAsk
)

// decision is a move with what it needs.
type decision struct {
	move   move
	why    reason.Reason     // for moveFail
	kind   store.AttemptKind // for moveRun and moveContinue
	detail string
}

// maxDeaths is how many deaths of the child, each with this task alone on it,
// a task survives before it is taken to be the cause.
const maxDeaths = 2

// maxGuestAttempts is how often a non-owner task is started at all.
const maxGuestAttempts = 2

// decideKnown settles what can be told from the ledger and the results alone.
// It answers moveAsk when the thread has to be asked.
//
// The order matters: a result beats everything, a committed
// reply beats the thread, a committed intent to stop beats what the thread says.
func decideKnown(row store.Row, resultExists bool) decision {
	if resultExists {
		return decision{move: moveSettle}
	}
	if row.State == store.StateReplied {
		return decision{move: movePublishKept}
	}
	if len(row.Attempts) == 0 {
		return decision{move: moveRun, kind: store.First}
	}
	last := row.Attempts[len(row.Attempts)-1]
	if last.Stopping != "" {
		return decision{move: moveFail, why: last.Stopping}
	}
	if last.End == reason.UsageLimit {
		// Ended by us in the middle of its walk, to wait for the limit's reset.
		if row.Tier == task.Owner {
			return decision{move: moveContinue, kind: store.Resumed}
		}
		return decision{move: moveRun, kind: store.Again}
	}
	if row.Tier != task.Owner {
		// Read-only and ephemeral: nothing was changed and nothing is left to ask.
		if cutAttempts(row) >= maxGuestAttempts || row.Deaths >= maxDeaths {
			return decision{move: moveFail, why: reason.ChildDied}
		}
		return decision{move: moveRun, kind: store.Again}
	}
	return decision{move: moveAsk}
}

// decideFound settles the rest from what the thread says about the newest
// attempt. bootChanged means that the machine booted since: rollouts are never
// fsynced, so a missing message then proves nothing.
func decideFound(row store.Row, found threads.Found, bootChanged bool) decision {
	d := decideByThread(row, found, bootChanged)
	if row.Deaths >= maxDeaths && (d.move == moveRun || d.move == moveContinue) {
		return decision{move: moveFail, why: reason.ChildDied}
	}
	return d
}

func decideByThread(row store.Row, found threads.Found, bootChanged bool) decision {
	last := row.Attempts[len(row.Attempts)-1]
	switch found.State {
	case threads.NeverStored:
		if bootChanged || last.TurnSeen {
			return continueOnce(row)
		}
		return decision{move: moveRun, kind: again(last)}
	case threads.ThreadMissing:
		if last.NewThread && !last.TurnSeen && !bootChanged {
			// This attempt created the thread and it was never stored, so the
			// prompt never reached the model (280 kills measured, no exception).
			return decision{move: moveRun, kind: again(last)}
		}
		return decision{move: moveFail, why: reason.MayHaveRun}
	case threads.ThreadLocked:
		return decision{move: moveFail, why: reason.MayHaveRun}
	case threads.Completed, threads.Failed:
		return decision{move: moveReply}
	case threads.Interrupted, threads.InProgress:
		return continueOnce(row)
	default:
		return decision{move: moveFail, why: reason.MayHaveRun}
	}
}

// continueOnce allows one continuation turn that reached the model.
func continueOnce(row store.Row) decision {
	last := row.Attempts[len(row.Attempts)-1]
	if last.Kind == store.Continuation {
		return decision{move: moveFail, why: reason.CutTwice}
	}
	return decision{move: moveContinue, kind: store.Continuation}
}

// again repeats an attempt that never reached the model under the name that
// says what its prompt was.
func again(last store.Attempt) store.AttemptKind {
	switch last.Kind {
	case store.Continuation, store.EmptyRetry, store.AfreshRetry, store.Resumed:
		return last.Kind
	case store.First, store.Again:
		return store.Again
	default:
		return store.Again
	}
}

// cutAttempts counts a non-owner task's attempts that used up a try. The retry
// of an empty reply is part of the try it belongs to, and a turn that the usage
// limit refused never began.
func cutAttempts(row store.Row) int {
	n := 0
	for _, a := range row.Attempts {
		if a.Kind != store.EmptyRetry && a.End != reason.UsageLimit {
			n++
		}
	}
	return n
}

func (m move) String() string {
	switch m {
	case moveSettle:
		return "settle"
	case movePublishKept:
		return "publish_kept"
	case moveFail:
		return "fail"
	case moveReply:
		return "publish_reply"
	case moveRun:
		return "run"
	case moveContinue:
		return "continue"
	case moveAsk:
		return "ask"
	default:
		return "unknown"
	}
}
