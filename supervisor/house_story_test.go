package supervisor_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/codex-supervisor/codex-supervisor/internal/proc"
	"github.com/codex-supervisor/codex-supervisor/internal/reason"
	"github.com/codex-supervisor/codex-supervisor/internal/task"
	"github.com/codex-supervisor/codex-supervisor/store"
	"github.com/codex-supervisor/codex-supervisor/supervisor"
)

func contains(t *testing.T, text, want string) {
	t.Helper()
	if !strings.Contains(text, want) {
		t.Errorf("%q does not contain %q", text, want)
	}
}

func lacks(t *testing.T, text, unwanted string) {
	t.Helper()
	if strings.Contains(text, unwanted) {
		t.Errorf("%q contains %q", text, unwanted)
	}
}

func endedAs(t *testing.T, r store.Row, outcome store.Outcome, why reason.Reason) {
	t.Helper()
	if r.Outcome != outcome || r.Reason != why {
		t.Errorf("%s ended as %s (%s, %q), want %s (%s)", r.TaskID, r.Outcome, r.Reason, r.Detail, outcome, why)
	}
}

func TestHouse_Memory(t *testing.T) {
	h := startHouse(t, nil)
	h.owner("garden", "[[remember ferns]]")
	h.owner("cellar", "[[remember wine]]")
	t.Run("OwnerIsRemembered", func(t *testing.T) {
		contains(t, h.owner("garden", "[[recall]]"), "ferns")
	})
	t.Run("RoomsDoNotShare", func(t *testing.T) {
		got := h.owner("cellar", "[[recall]]")
		contains(t, got, "wine")
		lacks(t, got, "ferns")
	})
	for _, tier := range []task.Tier{task.Team, task.Guest, task.Ambient, ""} {
		t.Run("NonOwnerKnowsNothing/"+string(tier), func(t *testing.T) {
			got, row := h.ask(message{channel: "garden", tier: tier, text: "[[recall]]"})
			lacks(t, got, "ferns")
			if len(row.Attempts) != 1 || !row.Attempts[0].Ephemeral {
				t.Errorf("attempts %+v, want one on an ephemeral thread", row.Attempts)
			}
		})
	}
	t.Run("RestartKeepsTheThread", func(t *testing.T) {
		before := thread(t, h, "garden")
		h.close()
		h.start()
		contains(t, h.owner("garden", "[[recall]]"), "ferns")
		if after := thread(t, h, "garden"); after != before {
			t.Errorf("thread was %s, is %s", before, after)
		}
	})
	rooms, err := os.ReadDir(filepath.Join(h.opt.WorkDirs[0].State, "rooms"))
	if err != nil || len(rooms) != 0 {
		t.Errorf("rooms left: %v, %v", rooms, err)
	}
}

func thread(t *testing.T, h *house, channel string) string {
	t.Helper()
	dir, err := h.sup.Dir("")
	if err != nil {
		t.Fatal(err)
	}
	list, err := dir.Threads()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range list {
		if s.Channel == channel {
			return s.ThreadID
		}
	}
	t.Fatalf("no thread for %s in %+v", channel, list)
	return ""
}

func short(o *supervisor.WorkDirOptions) {
	o.TurnTimeout, o.InterruptGrace = time.Second, 500*time.Millisecond
	o.Tiers = map[task.Tier]supervisor.TierOptions{task.Guest: {TurnTimeout: time.Second}}
}

func TestHouse_Overrun(t *testing.T) {
	t.Run("StalledTurnIsInterrupted", func(t *testing.T) {
		h := startHouse(t, short)
		got, row := h.ask(message{channel: "a", tier: task.Owner, text: "[[stall]]"})
		endedAs(t, row, store.TimedOut, reason.TurnTimeout)
		contains(t, got, "This took longer than the 1 second allowed")
		if g := h.child().Generation; g != 1 {
			t.Errorf("generation %d: an interrupt that worked must not cost the child", g)
		}
		if row.Attempts[0].Stopping != reason.TurnTimeout {
			t.Errorf("intent to stop not recorded: %+v", row.Attempts[0])
		}
	})
	t.Run("DeafTurnCostsTheChild", func(t *testing.T) {
		h := startHouse(t, short)
		h.owner("a", "[[remember ferns]]")
		before := thread(t, h, "a")
		_, row := h.ask(message{channel: "a", tier: task.Owner, text: "[[stall-hard]]"})
		endedAs(t, row, store.TimedOut, reason.TurnTimeout)
		contains(t, h.owner("a", "[[recall]]"), "ferns")
		if after := thread(t, h, "a"); after != before {
			t.Errorf("thread was %s, is %s", before, after)
		}
		c := h.child()
		if c.Generation != 2 || c.LastRestart != reason.ChildUnresponsive {
			t.Errorf("generation %d after %q, want 2 after unresponsive", c.Generation, c.LastRestart)
		}
	})
	t.Run("DeafGuestDoesNotCutAnOwner", func(t *testing.T) {
		h := startHouse(t, func(o *supervisor.WorkDirOptions) {
			short(o)
			o.TurnTimeout = 20 * time.Second
			o.MaxTurns = 4
		})
		owner := h.drop(message{channel: "a", tier: task.Owner, text: "[[slow 60]]"})
		h.working(owner)
		_, row := h.ask(message{channel: "b", tier: task.Guest, text: "[[stall-hard]]"})
		endedAs(t, row, store.TimedOut, reason.TurnTimeout)
		if r := h.settled(owner); r.Outcome != store.Answered || len(r.Attempts) != 1 {
			t.Errorf("owner's turn was cut: %s, %d attempts", r.Outcome, len(r.Attempts))
		}
		h.await("the replacement once no owner runs", func(e supervisor.Event) bool {
			return e.Kind == supervisor.EventChild && e.Child.Generation == 2 && e.Child.State == supervisor.ChildReady
		})
	})
}

func TestHouse_KilledChild(t *testing.T) {
	t.Run("CutOwnerTurnIsContinuedOnce", func(t *testing.T) {
		h := startHouse(t, nil)
		h.owner("a", "[[remember ferns]]")
		id := h.drop(message{channel: "a", tier: task.Owner, text: "[[slow 200]] a long story"})
		kill(t, h.working(id))
		row := h.settled(id)
		endedAs(t, row, store.Answered, reason.Answered)
		if n := len(row.Attempts); n != 2 || row.Attempts[1].Kind != store.Continuation {
			t.Errorf("attempts %+v, want the first and one continuation", row.Attempts)
		}
		h.oneResult(id)
		if n := h.asked("a long story"); n != 1 {
			t.Errorf("the prompt was sent %d times, want once", n)
		}
		contains(t, h.owner("a", "[[recall]]"), "ferns")
	})
	t.Run("SecondCutIsAPlainFailure", func(t *testing.T) {
		h := startHouse(t, nil)
		id := h.drop(message{channel: "a", tier: task.Owner, text: "[[die-twice]]"})
		row := h.settled(id)
		endedAs(t, row, store.Failed, reason.CutTwice)
		if row.Deaths != 2 {
			t.Errorf("the deaths did not count against the task that ran alone")
		}
		contains(t, h.owner("b", "hello"), "hello")
	})
	t.Run("GuestRunsOnceMore", func(t *testing.T) {
		h := startHouse(t, nil)
		id := h.drop(message{channel: "a", tier: task.Guest, text: "[[slow 200]] tell me"})
		kill(t, h.working(id))
		row := h.settled(id)
		endedAs(t, row, store.Answered, reason.Answered)
		if n := len(row.Attempts); n != 2 || row.Attempts[1].Kind != store.Again || row.Attempts[0].ThreadID == row.Attempts[1].ThreadID {
			t.Errorf("attempts %+v, want two on two threads", row.Attempts)
		}
	})
	t.Run("NothingOfTheChildIsLeft", func(t *testing.T) {
		h := startHouse(t, nil)
		h.owner("a", "[[spawn]]")
		pid := h.child().PID
		left, err := proc.Descendants(pid)
		if err != nil || len(left) == 0 {
			t.Fatalf("the stub left nothing to sweep: %v, %v", left, err)
		}
		kill(t, pid)
		h.await("the next generation", func(e supervisor.Event) bool {
			return e.Kind == supervisor.EventChild && e.Child.Generation == 2 && e.Child.State == supervisor.ChildStarting
		})
		for _, p := range left {
			if p.Alive() {
				t.Errorf("pid %d lives on", p.PID)
			}
		}
	})
}

func kill(t *testing.T, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatalf("kill %d: %v", pid, err)
	}
}

// logged is what the stub wrote down.
func (h *house) logged() string {
	raw, err := os.ReadFile(h.logPath())
	if err != nil {
		return ""
	}
	return string(raw)
}

// asked counts the turns whose prompt contained the words.
func (h *house) asked(words string) int {
	n := 0
	for line := range strings.Lines(h.logged()) {
		if strings.Contains(line, words) {
			n++
		}
	}
	return n
}

func TestHouse_Answers(t *testing.T) {
	h := startHouse(t, short)
	for _, c := range []struct {
		name, text string
		outcome    store.Outcome
		why        reason.Reason
		want       string
	}{
		{"Commentary", "[[commentary]] hello", store.Answered, reason.Answered, "hello"},
		{"EmptyTwice", "[[empty]]", store.Failed, reason.EmptyReply, "[no reply]"},
		{"ModelError", "[[model-error]]", store.Failed, reason.ModelError, "The model could not answer"},
		{"SubAgent", "[[sub-agent]] hello", store.Answered, reason.Answered, "hello"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, row := h.ask(message{channel: c.name, tier: task.Owner, text: c.text})
			endedAs(t, row, c.outcome, c.why)
			contains(t, got, c.want)
		})
	}
}

func TestHouse_BadFiles(t *testing.T) {
	h := startHouse(t, func(o *supervisor.WorkDirOptions) { o.Bind = nil })
	for _, c := range []struct {
		name, raw string
		why       reason.Reason
	}{
		{"task-nobody", "id: task-nobody\naccess_tier: owner\n", reason.NoTask},
		{"task-empty", "id: task-empty\naccess_tier: owner\ntask: \n", reason.EmptyTask},
		{"task-other", "id: task-another\naccess_tier: owner\ntask: hi\n", reason.IDMismatch},
		{"task-latin", "id: task-latin\naccess_tier: owner\ntask: caf\xe9\n", reason.FileNotUTF8},
		{"task-huge", "id: task-huge\naccess_tier: owner\ntask: " + strings.Repeat("x", 10<<20) + "\n", reason.FileTooLarge},
		{"task-long", "id: task-long\naccess_tier: owner\ntask: " + strings.Repeat("x", 1_100_000) + "\n", reason.PromptTooLong},
		{"task-forged", "id: task-forged\nenvelope_hmac: v1:" + strings.Repeat("0", 64) + "\naccess_tier: owner\ntask: hi\n", reason.EnvelopeInvalid},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.why == reason.EnvelopeInvalid {
				key := h.opt.WorkDirs[0].KeyFile
				if err := os.MkdirAll(filepath.Dir(key), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(key, []byte(strings.Repeat("ab", 32)), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			h.dropRaw(c.name, c.raw)
			row := h.settled(c.name)
			if row.Reason != c.why {
				t.Errorf("reason %s (%s), want %s", row.Reason, row.Detail, c.why)
			}
			if text := h.result(c.name); strings.TrimSpace(text) == "" || strings.Contains(text, "_") {
				t.Errorf("result %q is not plain words", text)
			}
		})
	}
	t.Run("ChannelWithDots", func(t *testing.T) {
		contains(t, h.owner("..", "hello"), "hello")
	})
	t.Run("UnknownTierIsGuest", func(t *testing.T) {
		_, row := h.ask(message{channel: "a", tier: "admin", text: "hello"})
		if row.Tier != task.Guest {
			t.Errorf("tier %s, want guest", row.Tier)
		}
	})
}
