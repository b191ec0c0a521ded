package supervisor

import (
	"testing"

	"github.com/codex-supervisor/codex-supervisor/internal/reason"
	"github.com/codex-supervisor/codex-supervisor/internal/task"
	"github.com/codex-supervisor/codex-supervisor/store"
	"github.com/codex-supervisor/codex-supervisor/threads"
)

func openRow(tier task.Tier, attempts ...store.Attempt) store.Row {
	return store.Row{TaskID: "task-x", Tier: tier, State: store.StateOpen, Attempts: attempts}
}

func TestDecideKnown(t *testing.T) {
	first := store.Attempt{Kind: store.First, ThreadID: "th"}
	replied := openRow(task.Owner, first)
	replied.State = store.StateReplied
	dead := openRow(task.Guest, first)
	dead.Deaths = maxDeaths
	for _, c := range []struct {
		name   string
		row    store.Row
		result bool
		want   decision
	}{
		{"ResultBeatsEverything", replied, true, decision{move: moveSettle}},
		{"RepliedPublishesThatText", replied, false, decision{move: movePublishKept}},
		{"StoppingIsNeverContinued", openRow(task.Owner, store.Attempt{Kind: store.First, Stopping: reason.TurnTimeout}), false, decision{move: moveFail, why: reason.TurnTimeout}},
		{"OwnerIsAskedAbout", openRow(task.Owner, first), false, decision{move: moveAsk}},
		{"GuestRunsOnceMore", openRow(task.Guest, first), false, decision{move: moveRun, kind: store.Again}},
		{"GuestGivesUpAfterTwo", openRow(task.Guest, first, store.Attempt{Kind: store.Again}), false, decision{move: moveFail, why: reason.ChildDied}},
		{"EmptyRetryIsNoTryOfItsOwn", openRow(task.Guest, first, store.Attempt{Kind: store.EmptyRetry}), false, decision{move: moveRun, kind: store.Again}},
		{"GuestThatKillsChildrenIsGivenUp", dead, false, decision{move: moveFail, why: reason.ChildDied}},
		{"UsageLimitResumesTheOwner", openRow(task.Owner, store.Attempt{Kind: store.First, End: reason.UsageLimit}), false, decision{move: moveContinue, kind: store.Resumed}},
		{"UsageLimitIsNoTryOfAGuest", openRow(task.Guest, store.Attempt{End: reason.UsageLimit}, store.Attempt{End: reason.UsageLimit}), false, decision{move: moveRun, kind: store.Again}},
		{"RowWithoutAttemptRuns", openRow(task.Owner), false, decision{move: moveRun, kind: store.First}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := decideKnown(c.row, c.result); got != c.want {
				t.Errorf("got %s %q %q, want %s %q %q", got.move, got.why, got.kind, c.want.move, c.want.why, c.want.kind)
			}
		})
	}
}

func TestDecideFound(t *testing.T) {
	first := store.Attempt{Kind: store.First, ThreadID: "th"}
	seen := first
	seen.TurnSeen = true
	fresh := store.Attempt{Kind: store.First, ThreadID: "th", NewThread: true}
	cont := store.Attempt{Kind: store.Continuation, ThreadID: "th"}
	run := decision{move: moveRun, kind: store.Again}
	goOn := decision{move: moveContinue, kind: store.Continuation}
	for _, c := range []struct {
		name   string
		last   store.Attempt
		state  threads.FoundState
		boot   bool
		deaths int
		want   decision
	}{
		{"NotStoredNeverReachedTheModel", first, threads.NeverStored, false, 0, run},
		{"NotStoredAfterABootMayHaveRun", first, threads.NeverStored, true, 0, goOn},
		{"NotStoredThoughSeenMayHaveRun", seen, threads.NeverStored, false, 0, goOn},
		{"NewThreadNeverStored", fresh, threads.ThreadMissing, false, 0, run},
		{"NewThreadMissingAfterABoot", fresh, threads.ThreadMissing, true, 0, decision{move: moveFail, why: reason.MayHaveRun}},
		{"OldThreadMissing", first, threads.ThreadMissing, false, 0, decision{move: moveFail, why: reason.MayHaveRun}},
		{"Locked", first, threads.ThreadLocked, false, 0, decision{move: moveFail, why: reason.MayHaveRun}},
		{"CompletedIsPublished", first, threads.Completed, false, 0, decision{move: moveReply}},
		{"CompletedIsPublishedWhoeverDied", first, threads.Completed, false, 5, decision{move: moveReply}},
		{"FailedIsPublished", first, threads.Failed, false, 0, decision{move: moveReply}},
		{"CutIsContinued", first, threads.Interrupted, false, 0, goOn},
		{"InProgressAndDeadIsContinued", first, threads.InProgress, false, 0, goOn},
		{"SecondCutGivesUp", cont, threads.Interrupted, false, 0, decision{move: moveFail, why: reason.CutTwice}},
		{"ContinuationThatNeverBeganIsSentAgain", cont, threads.NeverStored, false, 0, decision{move: moveRun, kind: store.Continuation}},
		{"ContinuationLostByABootGivesUp", cont, threads.NeverStored, true, 0, decision{move: moveFail, why: reason.CutTwice}},
		{"PoisonIsNotRunAgain", first, threads.NeverStored, false, maxDeaths, decision{move: moveFail, why: reason.ChildDied}},
		{"PoisonIsNotContinued", first, threads.Interrupted, false, maxDeaths, decision{move: moveFail, why: reason.ChildDied}},
	} {
		t.Run(c.name, func(t *testing.T) {
			row := openRow(task.Owner, c.last)
			row.Deaths = c.deaths
			if got := decideFound(row, threads.Found{State: c.state}, c.boot); got != c.want {
				t.Errorf("got %s %q %q, want %s %q %q", got.move, got.why, got.kind, c.want.move, c.want.why, c.want.kind)
			}
		})
	}
}
