package supervisor_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/codex-supervisor/codex-supervisor/internal/reason"
	"github.com/codex-supervisor/codex-supervisor/internal/task"
	"github.com/codex-supervisor/codex-supervisor/store"
	"github.com/codex-supervisor/codex-supervisor/supervisor"
)

func (h *house) becomes(s supervisor.ChildState, why reason.Reason) {
	h.t.Helper()
	h.await("a child that is "+string(s)+" "+string(why), func(e supervisor.Event) bool {
		return e.Kind == supervisor.EventChild && e.Child.State == s && e.Child.Reason == why
	})
}

func TestHouse_UsageLimit(t *testing.T) {
	t.Run("FarAwayIsToldAtOnce", func(t *testing.T) {
		h := startHouse(t, nil)
		got, row := h.ask(message{channel: "a", tier: task.Owner, text: "[[usage-limit 7200]]"})
		endedAs(t, row, store.Failed, reason.UsageLimit)
		contains(t, got, "It resets at ")
		h.becomes(supervisor.ChildHeld, reason.UsageLimit)
		if left := time.Until(h.child().HeldUntil); left < 110*time.Minute || left > 2*time.Hour {
			t.Errorf("held for %s, want two hours", left)
		}
		_, row = h.ask(message{channel: "b", tier: task.Owner, text: "hello"})
		endedAs(t, row, store.Failed, reason.UsageLimit)
		if len(row.Attempts) != 0 {
			t.Errorf("a turn was started while the limit holds: %+v", row.Attempts)
		}
	})
	t.Run("UnknownIsToldAtOnce", func(t *testing.T) {
		h := startHouse(t, nil)
		got, row := h.ask(message{channel: "a", tier: task.Owner, text: "[[usage-limit]]"})
		endedAs(t, row, store.Failed, reason.UsageLimit)
		contains(t, got, "Please ask again later")
	})
	t.Run("SoonIsWaitedFor", func(t *testing.T) {
		h := startHouse(t, nil)
		owner := h.drop(message{id: "task-owner", channel: "a", tier: task.Owner, text: "[[usage-limit-once 3]] the owner's question"})
		h.becomes(supervisor.ChildHeld, reason.UsageLimit)
		other := h.drop(message{id: "task-other", channel: "b", tier: task.Guest, text: "hello"})
		row := h.settled(owner)
		endedAs(t, row, store.Answered, reason.Answered)
		if n := len(row.Attempts); n != 2 || row.Attempts[0].End != reason.UsageLimit || row.Attempts[1].Kind != store.Resumed {
			t.Errorf("attempts %+v, want one stopped by the limit and one resumed", row.Attempts)
		}
		if n := h.asked("the owner's question"); n != 1 {
			t.Errorf("the prompt was sent %d times, want once", n)
		}
		endedAs(t, h.settled(other), store.Answered, reason.Answered)
	})
}

func TestHouse_LoginMissing(t *testing.T) {
	h := startHouse(t, func(o *supervisor.WorkDirOptions) { o.Env = append(o.Env, "STUB_NO_LOGIN=1") })
	h.becomes(supervisor.ChildHeld, reason.LoginMissing)
	got, row := h.ask(message{channel: "a", tier: task.Owner, text: "hello"})
	endedAs(t, row, store.Failed, reason.LoginMissing)
	contains(t, got, "codex login")
	h.userFile("auth.json", "{}")
	h.becomes(supervisor.ChildReady, "")
	contains(t, h.owner("a", "hello"), "hello")
}

func TestHouse_LoginRefused(t *testing.T) {
	h := startHouse(t, nil)
	_, row := h.ask(message{channel: "a", tier: task.Owner, text: "[[unauthorized]]"})
	endedAs(t, row, store.Failed, reason.LoginMissing)
	h.becomes(supervisor.ChildHeld, reason.LoginMissing)
}

func (h *house) userFile(name, text string) {
	h.t.Helper()
	if err := os.WriteFile(filepath.Join(h.opt.WorkDirs[0].CodexHomeFrom, name), []byte(text), 0o600); err != nil {
		h.t.Fatal(err)
	}
}

func TestHouse_BrokenConfig(t *testing.T) {
	h := newHouse(t, nil)
	h.userFile("config.toml", "model = broken\n")
	h.start()
	h.becomes(supervisor.ChildHeld, reason.ConfigBroken)
	id := h.drop(message{channel: "a", tier: task.Owner, text: "hello"})
	h.userFile("config.toml", "model = \"m\"\n")
	endedAs(t, h.settled(id), store.Answered, reason.Answered)
}

func TestHouse_ContextWindow(t *testing.T) {
	t.Run("CompactedOnce", func(t *testing.T) {
		h := startHouse(t, nil)
		h.owner("a", "[[remember ferns]]")
		before := thread(t, h, "a")
		got, row := h.ask(message{channel: "a", tier: task.Owner, text: "[[context-window]] hello"})
		endedAs(t, row, store.Answered, reason.Answered)
		lacks(t, got, "afresh")
		if n := len(row.Attempts); n != 2 || row.Attempts[1].Kind != store.AfreshRetry {
			t.Errorf("attempts %+v, want the first and one retry", row.Attempts)
		}
		if after := thread(t, h, "a"); after != before {
			t.Errorf("thread was %s, is %s", before, after)
		}
	})
	t.Run("ThenAFreshThreadThatSaysSo", func(t *testing.T) {
		h := startHouse(t, nil)
		h.owner("a", "[[remember ferns]]")
		before := thread(t, h, "a")
		got, row := h.ask(message{channel: "a", tier: task.Owner, text: "[[context-window-always]] hello"})
		endedAs(t, row, store.Answered, reason.Answered)
		if !strings.HasPrefix(got, "(The earlier conversation of this room had become too long") {
			t.Errorf("the reply does not say that it starts afresh: %q", got)
		}
		if after := thread(t, h, "a"); after == before {
			t.Errorf("still on thread %s", after)
		}
	})
}

func TestHouse_ThreadTrouble(t *testing.T) {
	t.Run("BoundThreadMissingIsNeverAfresh", func(t *testing.T) {
		h := startHouse(t, func(o *supervisor.WorkDirOptions) {
			o.Bind = map[string]string{"a": "01990000-0000-7000-8000-000000000000"}
		})
		_, row := h.ask(message{channel: "a", tier: task.Owner, text: "hello"})
		endedAs(t, row, store.Failed, reason.ThreadMissing)
		contains(t, h.owner("b", "hello"), "hello")
	})
	t.Run("RemovedThreadStartsAfreshAndSaysSo", func(t *testing.T) {
		h := newHouse(t, nil)
		h.start()
		h.owner("a", "[[remember ferns]]")
		h.close()
		if err := os.RemoveAll(filepath.Join(h.opt.WorkDirs[0].State, "codex-home", "sessions")); err != nil {
			t.Fatal(err)
		}
		h.start()
		got := h.owner("a", "[[recall]]")
		if !strings.HasPrefix(got, "(The earlier conversation of this room could not be found") {
			t.Errorf("the reply does not say that it starts afresh: %q", got)
		}
		lacks(t, got, "ferns")
	})
	t.Run("ResetForgets", func(t *testing.T) {
		h := startHouse(t, nil)
		h.owner("a", "[[remember ferns]]")
		dir, err := h.sup.Dir("house")
		if err != nil {
			t.Fatal(err)
		}
		old, err := dir.ResetThread("a")
		if err != nil || old == "" {
			t.Fatalf("reset: %q, %v", old, err)
		}
		lacks(t, h.owner("a", "[[recall]]"), "ferns")
		if err := dir.BindThread("b", old); err != nil {
			t.Fatal(err)
		}
		contains(t, h.owner("b", "[[recall]]"), "ferns")
		var op *supervisor.OperationError
		if err := dir.BindThread("c", "01990000-0000-7000-8000-000000000000"); !errors.As(err, &op) || op.Code != supervisor.CodeNotFound {
			t.Errorf("binding a thread that does not exist: %v", err)
		}
		if err := dir.BindThread("c", "../../x"); !errors.As(err, &op) || op.Code != supervisor.CodeInvalid {
			t.Errorf("binding what is no thread id: %v", err)
		}
		if _, err := dir.ResetThread("nowhere"); err == nil {
			t.Error("reset of an unknown channel succeeded")
		}
	})
}

func TestHouse_NewLoginIsTakenUpWhenIdle(t *testing.T) {
	h := startHouse(t, nil)
	id := h.drop(message{channel: "a", tier: task.Owner, text: "[[slow 150]] hello"})
	h.working(id)
	h.userFile("auth.json", "{}")
	if row := h.settled(id); len(row.Attempts) != 1 {
		t.Errorf("the running turn was cut: %+v", row.Attempts)
	}
	h.await("the child with the new login", func(e supervisor.Event) bool {
		return e.Kind == supervisor.EventChild && e.Child.Generation == 2 && e.Child.State == supervisor.ChildReady
	})
	if c := h.child(); c.LastRestart != reason.ChildRecycled {
		t.Errorf("restarted as %s, want recycled", c.LastRestart)
	}
}
