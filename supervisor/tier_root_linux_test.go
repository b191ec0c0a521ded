package supervisor_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/codex-supervisor/codex-supervisor/internal/reason"
	"github.com/codex-supervisor/codex-supervisor/internal/task"
	"github.com/codex-supervisor/codex-supervisor/store"
	"github.com/codex-supervisor/codex-supervisor/supervisor"
)

// A service that runs as uid 0 refuses non-owner work. The suite runs as nobody,
// so the service is root in a user namespace of its own: what it sees is uid 0.
func TestTier_RootTakesNoGuests(t *testing.T) {
	for _, c := range []struct {
		name   string
		unsafe bool
		why    reason.Reason
	}{
		{"refused", false, reason.GuestsAsRoot},
		{"unsafe still needs the proof", true, reason.GuestsUnconfined},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHouse(t, func(o *supervisor.WorkDirOptions) { o.StubChild, o.UnsafeRootGuests = false, c.unsafe })
			s := &service{house: h}
			raw, err := json.Marshal(h.opt.WorkDirs[0])
			if err != nil {
				t.Fatal(err)
			}
			exe, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			s.cmd = exec.Command(exe)
			s.cmd.Env = append(os.Environ(), serveHouse+"="+string(raw))
			s.cmd.Stderr = testWriter{t}
			s.cmd.SysProcAttr = &syscall.SysProcAttr{
				Cloneflags:  syscall.CLONE_NEWUSER,
				UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
				GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
			}
			if err := s.cmd.Start(); err != nil {
				t.Skipf("no user namespace here: %v", err)
			}
			s.exit = make(chan error, 1)
			go func(cmd *exec.Cmd) { s.exit <- cmd.Wait() }(s.cmd) // waited for in signal

			for _, tier := range others {
				s.answer(h.drop(message{id: "task-" + string(tier), channel: "a", tier: tier, text: "never-to-be-seen"}))
			}
			contains(t, s.answer(h.drop(message{id: "task-owner", channel: "a", tier: task.Owner, text: "hello"})), "hello")
			if err := s.signal(syscall.SIGTERM); err != nil {
				t.Errorf("SIGTERM: %v", err)
			}
			if n := h.asked("never-to-be-seen"); n != 0 {
				t.Errorf("a model saw %d messages of guests", n)
			}
			for _, row := range h.ledger() {
				if row.Tier != task.Owner {
					endedAs(t, row, store.Refused, c.why)
				}
			}
		})
	}
}
