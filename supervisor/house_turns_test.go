package supervisor_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/codex-supervisor/codex-supervisor/internal/reason"
	"github.com/codex-supervisor/codex-supervisor/internal/task"
	"github.com/codex-supervisor/codex-supervisor/store"
	"github.com/codex-supervisor/codex-supervisor/supervisor"
)

func TestHouse_Turns(t *testing.T) {
	h := startHouse(t, func(o *supervisor.WorkDirOptions) {
		o.QuietAfter = 200 * time.Millisecond
	})
	for _, c := range []struct {
		name, text string
		tier       task.Tier
		outcome    store.Outcome
		why        reason.Reason
		want       string
		attempts   int
	}{
		{"CommentaryOnlyIsNoAnswer", "[[commentary-only]]", task.Owner, store.Failed, reason.EmptyReply, "[no reply]", 2},
		{"EmptyOnceIsAskedAgain", "[[empty-once]] hi", task.Owner, store.Answered, reason.Answered, "finished what was left", 2},
		{"LostCompletionIsRead", "[[lost]] hello", task.Owner, store.Answered, reason.Answered, "hello", 1},
		{"LostCompletionOfAGuest", "[[lost]] hello", task.Guest, store.Answered, reason.Answered, "hello", 1},
		{"SaidTwiceAnsweredOnce", "[[twice]] hello", task.Owner, store.Answered, reason.Answered, "hello", 1},
		{"Junk", "[[junk]] hello", task.Owner, store.Answered, reason.Answered, "hello", 1},
		{"TooLarge", "[[huge 35000000]]", task.Owner, store.Failed, reason.ReplyTooLarge, "too large to be read", 1},
		{"QuietIsNotDead", "[[slow 20]] hello", task.Owner, store.Answered, reason.Answered, "hello", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, row := h.ask(message{channel: c.name, tier: c.tier, text: c.text})
			endedAs(t, row, c.outcome, c.why)
			contains(t, got, c.want)
			if len(row.Attempts) != c.attempts {
				t.Errorf("%d attempts, want %d: %+v", len(row.Attempts), c.attempts, row.Attempts)
			}
		})
	}
	if g := h.child().Generation; g != 1 {
		t.Errorf("generation %d: none of these may cost the child", g)
	}
	if v := h.metric("codex_supervisor_rpc_bad_lines_total"); v < 3 {
		t.Errorf("%v bad lines counted, want at least 3", v)
	}
	if v := h.metric("codex_supervisor_rpc_unknown_notifications_total"); v == 0 {
		t.Error("unknown notifications were not counted")
	}
}

func TestHouse_LateCompletionIsDone(t *testing.T) {
	h := startHouse(t, func(o *supervisor.WorkDirOptions) {
		o.TurnTimeout, o.InterruptGrace = 500*time.Millisecond, 5*time.Second
	})
	got, row := h.ask(message{channel: "a", tier: task.Owner, text: "[[late 300]]"})
	endedAs(t, row, store.Answered, reason.Answered)
	contains(t, got, "Late, but done.")
	if g := h.child().Generation; g != 1 {
		t.Errorf("generation %d, want no restart", g)
	}
}

func TestHouse_DeafToInterrupts(t *testing.T) {
	for _, word := range []string{"stall-mute", "stall-refuse"} {
		t.Run(word, func(t *testing.T) {
			h := startHouse(t, short)
			_, row := h.ask(message{channel: "a", tier: task.Owner, text: "[[" + word + "]]"})
			endedAs(t, row, store.TimedOut, reason.TurnTimeout)
			contains(t, h.owner("a", "hello"), "hello")
			if g := h.child().Generation; g != 2 {
				t.Errorf("generation %d, want 2", g)
			}
		})
	}
}

func TestHouse_DeathAroundATurn(t *testing.T) {
	for _, c := range []struct {
		word     string
		attempts int
		kind     store.AttemptKind
	}{
		{"die-before-reply", 2, store.Again},
		{"die-after", 1, store.First},
		{"die", 2, store.Continuation},
	} {
		t.Run(c.word, func(t *testing.T) {
			h := startHouse(t, nil)
			id := h.drop(message{channel: "a", tier: task.Owner, text: "[[" + c.word + "]] hello"})
			row := h.settled(id)
			endedAs(t, row, store.Answered, reason.Answered)
			if n := len(row.Attempts); n != c.attempts || row.Attempts[n-1].Kind != c.kind {
				t.Errorf("attempts %+v, want %d ending in %s", row.Attempts, c.attempts, c.kind)
			}
			if row.Deaths != 1 {
				t.Errorf("%d deaths, want 1", row.Deaths)
			}
			h.oneResult(id)
			contains(t, h.owner("a", "[[reply fine]]"), "fine")
		})
	}
}

// A child that dies with several tasks on it blames none, and takes them up one
// at a time.
func TestHouse_DeathWithSeveral(t *testing.T) {
	h := startHouse(t, nil)
	var ids []string
	for _, c := range []string{"a", "b", "c"} {
		ids = append(ids, h.drop(message{id: "task-" + c, channel: c, tier: task.Owner, text: "[[slow 100]] hello"}))
	}
	var pid int
	for _, id := range ids {
		pid = h.working(id)
	}
	kill(t, pid)
	for _, id := range ids {
		row := h.settled(id)
		endedAs(t, row, store.Answered, reason.Answered)
		if row.Deaths != 0 {
			t.Errorf("%s is blamed for %d deaths", id, row.Deaths)
		}
	}
	h.oneResult(ids...)
	second := map[string][2]time.Time{}
	for _, r := range h.rows() {
		if len(r.Attempts) == 2 {
			second[r.TaskID] = [2]time.Time{r.Attempts[1].Began, r.Attempts[1].Ended}
		}
	}
	for a, x := range second {
		for b, y := range second {
			if a != b && x[0].Before(y[1]) && y[0].Before(x[1]) {
				t.Errorf("%s and %s were taken up at the same time", a, b)
			}
		}
	}
	if len(second) != 3 {
		t.Errorf("%d of 3 tasks had a second attempt", len(second))
	}
}

func TestHouse_Approvals(t *testing.T) {
	h := startHouse(t, nil)
	for method, want := range map[string]string{
		"item/commandExecution/requestApproval": `"decline"`,
		"item/fileChange/requestApproval":       `"decline"`,
		"item/permissions/requestApproval":      `"permissions":{}`,
		"item/tool/requestUserInput":            `"answers":{}`,
		"mcpServer/elicitation/request":         `"action":"decline"`,
		"item/tool/call":                        `"success":false`,
		"execCommandApproval":                   `denied`,
		"applyPatchApproval":                    `denied`,
		"account/chatgptAuthTokens/refresh":     `code`,
		"attestation/generate":                  `code`,
		"something/new":                         `-32601`,
	} {
		t.Run(method, func(t *testing.T) {
			got, row := h.ask(message{channel: method, tier: task.Owner, text: "[[approve " + method + "]]"})
			endedAs(t, row, store.Answered, reason.Answered)
			contains(t, got, want)
			if len(row.Declined) != 1 || row.Declined[0].Method != method {
				t.Errorf("recorded %+v", row.Declined)
			}
		})
	}
}

func TestHouse_FileVanishesInMidTurn(t *testing.T) {
	h := startHouse(t, nil)
	id := h.drop(message{channel: "a", tier: task.Owner, text: "[[slow 40]] hello"})
	h.working(id)
	if err := os.Remove(filepath.Join(h.opt.WorkDirs[0].Tasks, id+".txt")); err != nil {
		t.Fatal(err)
	}
	endedAs(t, h.settled(id), store.Answered, reason.Answered)
	h.oneResult(id)
}
