package supervisor_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/codex-supervisor/codex-supervisor/internal/proc"
	"github.com/codex-supervisor/codex-supervisor/internal/task"
	"github.com/codex-supervisor/codex-supervisor/supervisor"
)

// TestService_RandomKills kills the service, its child, or both at moments drawn
// from a seed, under load, and counts what may not be: tasks without exactly one
// result, owners' prompts that reached the model twice, guests' more than twice,
// open rows, rooms, temporary files, processes.
func TestService_RandomKills(t *testing.T) {
	const tasks, kills = 48, 24
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	h := newHouse(t, func(o *supervisor.WorkDirOptions) { o.MaxTurns = 4 })
	s := startService(t, h)

	var ids []string
	next := 0
	drop := func() {
		if next == tasks {
			return
		}
		tier := task.Owner
		if next%3 == 2 {
			tier = task.Guest
		}
		id := fmt.Sprintf("task-k%02d", next)
		text := fmt.Sprintf("[[slow %d]] question number %02d.", 1+random.IntN(6), next)
		h.drop(message{id: id, channel: fmt.Sprint("room", next%7), tier: tier, text: text})
		ids = append(ids, id)
		next++
	}
	for range kills {
		for range 2 {
			drop()
		}
		<-time.After(time.Duration(random.IntN(120)) * time.Millisecond) // a random moment is the point
		switch victim := random.IntN(3); victim {
		case 0:
			_ = s.signal(syscall.SIGKILL)
			s.run()
		default:
			for _, id := range s.family() {
				if isStub(id) {
					_ = syscall.Kill(id.PID, syscall.SIGKILL)
				}
			}
			if victim == 2 {
				_ = s.signal(syscall.SIGKILL)
				s.run()
			}
		}
	}
	for _, id := range ids {
		s.answer(id)
	}
	family := s.family()
	if err := s.signal(syscall.SIGTERM); err != nil {
		t.Errorf("SIGTERM: %v", err)
	}
	allGone(t, family)

	h.oneResult(ids...)
	log := h.logged()
	for i, id := range ids {
		limit := 1
		if i%3 == 2 {
			limit = 2
		}
		if n := strings.Count(log, fmt.Sprintf("question number %02d.", i)); n > limit {
			t.Errorf("the prompt of %s reached the model %d times", id, n)
		}
	}
	for _, r := range h.ledger() {
		if r.State != "settled" {
			t.Errorf("%s is left %s", r.TaskID, r.State)
		}
	}
	rooms, err := os.ReadDir(filepath.Join(h.opt.WorkDirs[0].State, "rooms"))
	if err != nil || len(rooms) != 0 {
		t.Errorf("rooms left: %v %v", rooms, err)
	}
}

// isStub tells the app-server from the guard above it.
func isStub(id proc.Identity) bool {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", id.PID))
	return err == nil && strings.Contains(string(raw), "\x00app-server\x00") && !strings.HasPrefix(string(raw), "codex-supervisor-guard")
}
