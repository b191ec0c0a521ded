package supervisor_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/codex-supervisor/codex-supervisor/internal/proc"
)

// service is a house that runs in a process of its own, so that it can be killed.
type service struct {
	*house
	cmd  *exec.Cmd
	exit chan error
}

func startService(t testing.TB, h *house) *service {
	t.Helper()
	s := &service{house: h}
	s.run()
	t.Cleanup(func() {
		if s.cmd != nil {
			s.signal(syscall.SIGKILL)
		}
	})
	return s
}

func (s *service) run() {
	s.t.Helper()
	raw, err := json.Marshal(s.opt.WorkDirs[0])
	if err != nil {
		s.t.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		s.t.Fatal(err)
	}
	s.cmd = exec.Command(exe)
	s.cmd.Env = append(os.Environ(), serveHouse+"="+string(raw))
	s.cmd.Stderr = testWriter{s.t}
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.exit = make(chan error, 1)
	go func(c *exec.Cmd) { s.exit <- c.Wait() }(s.cmd) // waited for in signal
}

// signal sends a signal that ends the service, and waits for its end.
func (s *service) signal(sig syscall.Signal) error {
	s.t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.t.Errorf("signal the service: %v", err)
	}
	select {
	case err := <-s.exit:
		s.cmd = nil
		return err
	case <-time.After(patienceOfTests):
		s.t.Fatalf("the service did not end after %s", sig)
		return nil
	}
}

// answer waits for a task's result file.
func (s *service) answer(id string) string {
	s.t.Helper()
	path := filepath.Join(s.opt.WorkDirs[0].Results, id+".txt")
	var text string
	eventually(s.t, "the result of "+id, func() bool {
		raw, err := os.ReadFile(path)
		text = string(raw)
		return err == nil
	})
	return text
}

// eventually waits for a condition that nothing tells about.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(patienceOfTests)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", what)
		}
		<-time.After(10 * time.Millisecond)
	}
}

// family lists the living descendants of the service.
func (s *service) family() []proc.Identity {
	s.t.Helper()
	ids, err := proc.Descendants(s.cmd.Process.Pid)
	if err != nil {
		s.t.Fatal(err)
	}
	return ids
}

// allGone asserts that processes are gone, now or within a moment.
func allGone(t testing.TB, ids []proc.Identity) {
	t.Helper()
	eventually(t, "the end of what the service had started", func() bool {
		for _, id := range ids {
			if id.Alive() {
				return false
			}
		}
		return true
	})
}

func TestService_Killed(t *testing.T) {
	t.Run("OpenTurnIsSettledOnce", func(t *testing.T) {
		h := newHouse(t, nil)
		s := startService(t, h)
		first := h.drop(message{id: "task-first", channel: "a", tier: "owner", text: "[[remember ferns]]"})
		s.answer(first)
		id := h.drop(message{id: "task-cut", channel: "a", tier: "owner", text: "[[slow 400]] the whole story"})
		eventually(t, "the turn", func() bool { return h.asked("the whole story") == 1 })
		family := s.family()
		_ = s.signal(syscall.SIGKILL)
		allGone(t, family)
		s.run()
		s.answer(id)
		s.oneResult(first, id)
		if n := h.asked("the whole story"); n != 1 {
			t.Errorf("the prompt was sent %d times, want once", n)
		}
		next := h.drop(message{id: "task-next", channel: "a", tier: "owner", text: "[[recall]]"})
		contains(t, s.answer(next), "ferns")
		if err := s.signal(syscall.SIGTERM); err != nil {
			t.Errorf("SIGTERM: %v", err)
		}
		for _, r := range h.ledger() {
			if r.State != "settled" {
				t.Errorf("%s is left %s", r.TaskID, r.State)
			}
		}
	})
	t.Run("TermLeavesNothing", func(t *testing.T) {
		h := newHouse(t, nil)
		s := startService(t, h)
		s.answer(h.drop(message{id: "task-spawn", channel: "a", tier: "owner", text: "[[spawn]]"}))
		family := s.family()
		if len(family) < 3 { // guard, child, and what it spawned
			t.Fatalf("only %v run below the service", family)
		}
		if err := s.signal(syscall.SIGTERM); err != nil {
			t.Errorf("SIGTERM: %v", err)
		}
		for _, id := range family {
			if id.Alive() {
				t.Errorf("%s lives on", id)
			}
		}
	})
	t.Run("DeadTaskFileIsNotRunAgain", func(t *testing.T) {
		h := newHouse(t, nil)
		s := startService(t, h)
		id := h.drop(message{id: "task-once", channel: "a", tier: "owner", text: "only once"})
		s.answer(id)
		// The gateway takes the result; the task file stays.
		if err := os.Remove(filepath.Join(h.opt.WorkDirs[0].Results, id+".txt")); err != nil {
			t.Fatal(err)
		}
		_ = s.signal(syscall.SIGKILL)
		s.run()
		s.answer(h.drop(message{id: "task-after", channel: "a", tier: "owner", text: "another"}))
		if n := strings.Count(h.logged(), "only once"); n != 1 {
			t.Errorf("it was run %d times", n)
		}
	})
}
