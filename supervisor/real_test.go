package supervisor_test

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/codex-supervisor/codex-supervisor/internal/reason"
	"github.com/codex-supervisor/codex-supervisor/internal/task"
	"github.com/codex-supervisor/codex-supervisor/store"
	"github.com/codex-supervisor/codex-supervisor/stubserver/model"
	"github.com/codex-supervisor/codex-supervisor/supervisor"
)

// realHouse is a house whose child is the real Codex, its model a scripted one.
func realHouse(t *testing.T, change func(*supervisor.WorkDirOptions)) (*house, *model.Server) {
	t.Helper()
	binary := os.Getenv("CODEX_BINARY")
	if binary == "" {
		if os.Getenv("CODEX_E2E") == "require" {
			t.Fatal("CODEX_E2E=require, but CODEX_BINARY names no codex")
		}
		t.Skip("CODEX_BINARY is not set: the real Codex is not tested (`make test` installs it)")
	}
	m, err := model.New(model.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Errorf("close model: %v", err)
		}
	})
	h := newHouse(t, func(o *supervisor.WorkDirOptions) {
		o.Codex, o.StubChild, o.Env = []string{binary}, false, nil
		o.StartTimeout = 60 * time.Second
		if change != nil {
			change(o)
		}
	})
	home := h.opt.WorkDirs[0].CodexHomeFrom
	if err := os.WriteFile(filepath.Join(home, "config.toml"), []byte(m.ConfigTOML()), 0o600); err != nil {
		t.Fatal(err)
	}
	return h, m
}

// rollouts lists the stored threads of the house's private CODEX_HOME.
func rollouts(t *testing.T, h *house) []string {
	t.Helper()
	var found []string
	err := filepath.WalkDir(filepath.Join(h.opt.WorkDirs[0].State, "codex-home", "sessions"), func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			found = append(found, path)
		}
		return err
	})
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return found
}

func TestReal_Memory(t *testing.T) {
	h, m := realHouse(t, nil)
	h.start()
	h.owner("garden", "[[remember ferns]]")
	h.owner("cellar", "[[remember wine]]")
	contains(t, h.owner("garden", "[[recall]]"), "ferns")
	lacks(t, h.owner("cellar", "[[recall]]"), "ferns")
	before := rollouts(t, h)

	got, row := h.ask(message{channel: "garden", tier: task.Guest, text: "[[recall]] secret question"})
	endedAs(t, row, store.Answered, reason.Answered)
	lacks(t, got, "ferns")
	for _, r := range m.Requests() {
		if r.Has("secret question") && r.Has("ferns") {
			t.Errorf("the guest's request holds the owner's words")
		}
	}
	if after := rollouts(t, h); len(after) != len(before) || len(before) != 2 {
		t.Errorf("rollouts before the guest %v, after %v; want two both times", before, after)
	}
	if !row.Attempts[0].Ephemeral {
		t.Errorf("the guest ran on a durable thread")
	}
}

func TestReal_KeepsItsThread(t *testing.T) {
	h, _ := realHouse(t, nil)
	t.Run("WhenTheChildIsKilled", func(t *testing.T) {
		h.start()
		h.owner("garden", "[[remember ferns]]")
		before := thread(t, h, "garden")
		kill(t, h.child().PID)
		contains(t, h.owner("garden", "[[recall]]"), "ferns")
		if after := thread(t, h, "garden"); after != before {
			t.Errorf("thread was %s, is %s", before, after)
		}
		h.close()
	})
	t.Run("WhenTheServiceIsKilled", func(t *testing.T) {
		s := startService(t, h)
		s.answer(h.drop(message{id: "task-one", channel: "garden", tier: task.Owner, text: "[[remember moss]]"}))
		family := s.family()
		_ = s.signal(syscall.SIGKILL)
		allGone(t, family)
		s.run()
		got := s.answer(h.drop(message{id: "task-two", channel: "garden", tier: task.Owner, text: "[[recall]]"}))
		contains(t, got, "ferns")
		contains(t, got, "moss")
		family = s.family()
		if len(family) < 2 {
			t.Fatalf("only %v run below the service", family)
		}
		if err := s.signal(syscall.SIGTERM); err != nil {
			t.Errorf("SIGTERM: %v", err)
		}
		for _, id := range family {
			if id.Alive() {
				t.Errorf("%s lives on after SIGTERM", id)
			}
		}
	})
}

func TestReal_Overrun(t *testing.T) {
	h, _ := realHouse(t, func(o *supervisor.WorkDirOptions) { o.TurnTimeout, o.InterruptGrace = 2*time.Second, 5*time.Second })
	h.start()
	got, row := h.ask(message{channel: "garden", tier: task.Owner, text: "[[stall]]"})
	endedAs(t, row, store.TimedOut, reason.TurnTimeout)
	contains(t, got, "This took longer than the 2 seconds allowed")
	if g := h.child().Generation; g != 1 {
		t.Errorf("generation %d: an interrupt that worked must not cost the child", g)
	}
	contains(t, h.owner("garden", "[[reply still here]]"), "still here")
}

// A child killed after a command has run and while the model is asked again: the
// command is not asked for twice, and one reply comes.
func TestReal_KilledInMidTurn(t *testing.T) {
	h, m := realHouse(t, nil)
	h.start()
	h.owner("garden", "[[remember ferns]]")
	id := h.drop(message{channel: "garden", tier: task.Owner, text: "[[sh echo did-the-work]] [[stall]] the whole story"})
	ctx, cancel := context.WithTimeout(context.Background(), patienceOfTests)
	defer cancel()
	if _, err := m.Wait(ctx, func(r model.Request) bool {
		return r.Has("the whole story") && strings.Contains(string(r.Raw), "function_call_output")
	}); err != nil {
		t.Fatalf("the model was not asked after the command: %v", err)
	}
	kill(t, h.child().PID)
	row := h.settled(id)
	endedAs(t, row, store.Answered, reason.Answered)
	if len(row.Attempts) != 2 || row.Attempts[1].Kind != store.Continuation {
		t.Errorf("attempts %+v, want the first and one continuation", row.Attempts)
	}
	h.oneResult(id)
	asked := 0
	for _, r := range m.Requests() {
		if strings.Contains(r.Newest(), "the whole story") {
			asked++
		}
		if n := strings.Count(string(r.Raw), "the whole story"); n > 1 {
			t.Errorf("a request holds the prompt %d times", n)
		}
	}
	// Once before the command and once with its output, never again after the kill.
	if asked != 2 {
		t.Errorf("the model was asked %d times with the prompt as the newest message, want 2", asked)
	}
}

func TestReal_EarlyKill(t *testing.T) {
	h, m := realHouse(t, nil)
	h.start()
	h.ready()
	id := h.drop(message{channel: "new", tier: task.Owner, text: "an early question"})
	h.await("the attempt", func(e supervisor.Event) bool { return e.Kind == supervisor.EventAttempt && e.TaskID == id })
	kill(t, h.child().PID)
	row := h.settled(id)
	endedAs(t, row, store.Answered, reason.Answered)
	h.oneResult(id)
	last := m.Requests()[len(m.Requests())-1]
	if n := strings.Count(string(last.Raw), "an early question"); n != 1 {
		t.Errorf("the last request holds the prompt %d times, want once", n)
	}
}
