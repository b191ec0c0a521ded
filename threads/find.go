package threads

import (
	"context"
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
	// of it was ever stored, or it was removed.
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

// Paging of the question. An attempt is the newest turn, or a few turns of other
// clients stand above it.
const (
	findPage  = 5
	findPages = 20
)

// Find asks a thread what became of the turn whose user message carries
// clientID. It goes by that id alone: a status or a number of turns proves
// nothing. The thread need not be loaded. Errors of the connection come through.
func (t *Threads) Find(ctx context.Context, client Client, threadID, clientID string) (Found, error) {
	cursor := ""
	for range findPages {
		list, err := client.ThreadTurnsList(ctx, rpc.ThreadTurnsListParams{ThreadID: threadID, Cursor: cursor, Limit: findPage, ItemsView: "summary"})
		if err != nil {
			return notRead(err)
		}
		for _, turn := range list.Data {
			if carries(turn, clientID) {
				return foundTurn(turn), nil
			}
		}
		if list.NextCursor == "" || len(list.Data) == 0 {
			break
		}
		cursor = list.NextCursor
	}
	return Found{State: NeverStored}, nil
}

func notRead(err error) (Found, error) {
	switch rpc.FaultOf(err) {
	case rpc.FaultNoRollout, rpc.FaultThreadNotLoaded, rpc.FaultThreadNotFound, rpc.FaultArchived, rpc.FaultInvalidThread:
		return Found{State: ThreadMissing}, nil
	case rpc.FaultNoTurns:
		return Found{State: NeverStored}, nil // loaded, and without a turn
	case rpc.FaultActiveWriter:
		return Found{State: ThreadLocked}, nil
	default:
		return Found{}, err
	}
}

func carries(turn rpc.Turn, clientID string) bool {
	for _, it := range turn.Items {
		if it.Type == rpc.ItemUserMessage && it.ClientID == clientID {
			return true
		}
	}
	return false
}

func foundTurn(turn rpc.Turn) Found {
	f := Found{TurnID: turn.ID, Err: turn.Error}
	switch turn.Status {
	case rpc.TurnCompleted:
		f.State, f.Reply = Completed, replyOf(turn.Items)
	case rpc.TurnFailed:
		f.State = Failed
	case rpc.TurnInProgress:
		f.State = InProgress
	default:
		f.State = Interrupted
	}
	return f
}

// replyOf picks the answer among stored items: the last message marked final,
// else the last that is not commentary.
func replyOf(items []rpc.Item) string {
	other := ""
	for i := len(items) - 1; i >= 0; i-- {
		it := items[i]
		if it.Type != rpc.ItemAgentMessage || strings.TrimSpace(it.Text) == "" {
			continue
		}
		switch it.Phase {
		case "final_answer":
			return it.Text
		case "commentary":
		default:
			if other == "" {
				other = it.Text
			}
		}
	}
	return other
}
