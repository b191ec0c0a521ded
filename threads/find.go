package threads

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/codex-supervisor/codex-supervisor/rpc"
)

// FoundState is what became of an attempt, as its thread tells.
type FoundState string

// The states.
const (
	// NeverStored: the thread has no user message of the attempt. The model
	// never saw it (codex 0.171.0: 280 kills, no exception), unless the machine
	// itself went down: rollouts are never fsynced.
	NeverStored FoundState = "never_stored"
	Completed   FoundState = "completed"
	Failed      FoundState = "failed"
	Interrupted FoundState = "interrupted"
	InProgress  FoundState = "in_progress"
	// ThreadMissing: Codex does not know the thread, or cannot read it: no turn
	// of it was ever stored, or it was removed. Which of the two depends on
	// whether the attempt made the thread, and only its caller knows that.
	ThreadMissing FoundState = "thread_missing"
	// ThreadLocked: another process holds it and it cannot be read.
	ThreadLocked FoundState = "thread_locked"
)

// Found is the answer to the recovery question.
type Found struct {
	State  FoundState
	Reply  string // of a completed turn; "" when it gave none
	Err    *rpc.TurnError
	TurnID string
}

// Paging of the question. The attempt is the newest turn, or a few of somebody
// who shares the thread stand above it.
const (
	findFirst = 5
	findMore  = 50
	findTurns = 1000
)

// Find asks a thread what became of the turn whose user message carries
// clientID. It goes by that id alone: a status or a number of turns proves
// nothing. The thread need not be loaded, and may be open elsewhere. An answer
// that was not had is an error, never NeverStored.
func (t *Threads) Find(ctx context.Context, client Client, threadID, clientID string) (Found, error) {
	if clientID == "" {
		return Found{}, fmt.Errorf("find a turn of thread %s by an empty id", threadID)
	}
	ask := rpc.ThreadTurnsListParams{ThreadID: threadID, Limit: findFirst, ItemsView: "summary"}
	for seen := 0; seen < findTurns; {
		list, err := client.ThreadTurnsList(ctx, ask)
		switch {
		case err == nil:
		case rpc.FaultOf(err) == rpc.FaultReplyTooLarge && ask.Limit > 1:
			ask.Limit = 1 // whoever wrote novels, one by one they may pass
			continue
		default:
			return notRead(err)
		}
		for i, turn := range list.Data {
			if carries(turn, clientID) {
				ask.Limit = i + 1
				return foundTurn(ctx, client, ask, turn)
			}
		}
		if list.NextCursor == "" {
			return Found{State: NeverStored}, nil
		}
		ask.Cursor = list.NextCursor
		if ask.Limit > 1 {
			ask.Limit = findMore
		}
		seen += max(1, len(list.Data))
	}
	return Found{}, fmt.Errorf("find turn %s of thread %s: not among its last %d turns", clientID, threadID, findTurns)
}

// notRead is for a thread whose turns cannot be listed.
func notRead(err error) (Found, error) {
	//exhaustive:ignore whatever else there is says nothing about the turn
	switch rpc.FaultOf(err) {
	case rpc.FaultNoRollout, rpc.FaultThreadNotLoaded, rpc.FaultThreadNotFound, rpc.FaultArchived, rpc.FaultInvalidThread:
		return Found{State: ThreadMissing}, nil
	case rpc.FaultNoTurns:
		return Found{State: NeverStored}, nil // loaded, and without a turn
	case rpc.FaultActiveWriter:
		return Found{State: ThreadLocked}, nil
	default:
		if e, ok := errors.AsType[*rpc.Error](err); ok && strings.Contains(e.Message, fileRemoved) {
			return Found{State: ThreadMissing}, nil
		}
		return Found{}, err
	}
}

// fileRemoved is what thread/turns/list says of a thread that Codex has in its
// database, but whose file is gone (codex 0.171.0, measured; thread/resume says
// "no rollout found").
const fileRemoved = "missing source rollout"

func carries(turn rpc.Turn, clientID string) bool {
	for _, it := range turn.Items {
		if it.Type == rpc.ItemUserMessage && it.ClientID == clientID {
			return true
		}
	}
	return false
}

func foundTurn(ctx context.Context, client Client, ask rpc.ThreadTurnsListParams, turn rpc.Turn) (Found, error) {
	f := Found{TurnID: turn.ID, Err: turn.Error}
	switch turn.Status {
	case rpc.TurnCompleted:
		f.State = Completed
		reply, err := replyTo(ctx, client, ask, turn)
		if err != nil {
			return Found{}, err
		}
		f.Reply = reply
	case rpc.TurnFailed:
		f.State = Failed
	case rpc.TurnInProgress:
		f.State = InProgress
	default:
		f.State = Interrupted
	}
	return f, nil
}

// replyTo picks the answer of a completed turn. The summary has its last message
// only; where that one is not marked as the final answer, an earlier one may be,
// and all items are asked for.
func replyTo(ctx context.Context, client Client, ask rpc.ThreadTurnsListParams, turn rpc.Turn) (string, error) {
	reply, final := rpc.Answer(turn.Items)
	if final {
		return reply, nil
	}
	ask.ItemsView = "full"
	list, err := client.ThreadTurnsList(ctx, ask)
	if rpc.FaultOf(err) == rpc.FaultConnection || ctx.Err() != nil {
		return "", err
	}
	for _, whole := range list.Data { // none after any other error: the summary has to do
		if whole.ID != turn.ID {
			continue
		}
		if better, _ := rpc.Answer(whole.Items); better != "" {
			reply = better
		}
	}
	return reply, nil
}
