package supervisor_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/codex-supervisor/codex-supervisor/internal/reason"
	"github.com/codex-supervisor/codex-supervisor/internal/task"
	"github.com/codex-supervisor/codex-supervisor/store"
	"github.com/codex-supervisor/codex-supervisor/supervisor"
)

func TestSupervisor_DamagedLedger(t *testing.T) {
	h := startHouse(t, nil)
	h.owner("a", "hello")
	h.close()
	ledger := supervisor.LedgerPath(h.opt.WorkDirs[0].State)
	if err := os.Truncate(ledger, 0); err != nil {
		t.Fatal(err)
	}
	opt := h.opt
	opt.Registerer = prometheus.NewRegistry()
	_, err := supervisor.New(opt)
	var damaged *store.DamagedError
	if !errors.As(err, &damaged) {
		t.Errorf("an emptied ledger: %v, want DamagedError", err)
	}
}

func TestSupervisor_SharedInbox(t *testing.T) {
	h := startHouse(t, nil)
	opt := h.opt
	w := opt.WorkDirs[0]
	w.Path, w.State = filepath.Join(h.dir, "other"), filepath.Join(h.dir, "other-state")
	if err := os.Mkdir(w.Path, 0o755); err != nil {
		t.Fatal(err)
	}
	var busy *supervisor.BusyError
	for _, own := range []string{"", "tasks", "results"} {
		mine := w
		switch own {
		case "tasks":
			mine.Tasks = filepath.Join(w.Path, "tasks")
		case "results":
			mine.Results = filepath.Join(w.Path, "results")
		}
		opt.WorkDirs, opt.Registerer = []supervisor.WorkDirOptions{mine}, prometheus.NewRegistry()
		if _, err := supervisor.New(opt); !errors.As(err, &busy) || busy.PID != os.Getpid() {
			t.Errorf("own %q, the rest shared: %v, want BusyError with our pid", own, err)
		}
	}
}

// What an owner's turn may plant in the work dir leads the service nowhere.
func TestSupervisor_LockIsNoFileOfTheWorkDir(t *testing.T) {
	h := newHouse(t, nil)
	victim := filepath.Join(h.dir, "victim")
	if err := os.WriteFile(victim, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{".codex-supervisor.lock", "supervisor.lock"} {
		if err := os.Symlink(victim, filepath.Join(h.opt.WorkDirs[0].Path, name)); err != nil {
			t.Fatal(err)
		}
	}
	h.start()
	h.owner("a", "hello")
	if raw, err := os.ReadFile(victim); err != nil || string(raw) != "precious" {
		t.Errorf("the victim holds %q, %v", raw, err)
	}
	h.close()
	lock := filepath.Join(h.opt.WorkDirs[0].State, "supervisor.lock")
	if err := errors.Join(os.Remove(lock), os.Symlink(victim, lock)); err != nil {
		t.Fatal(err)
	}
	opt := h.opt
	opt.Registerer = prometheus.NewRegistry()
	if _, err := supervisor.New(opt); err == nil {
		t.Error("a link in place of the lock was followed")
	}
}

func TestWorkDir_DirectoryInPlaceOfAResult(t *testing.T) {
	h := startHouse(t, nil)
	block := filepath.Join(h.opt.WorkDirs[0].Results, "task-blocked.txt")
	if err := os.Mkdir(block, 0o755); err != nil {
		t.Fatal(err)
	}
	h.drop(message{id: "task-blocked", channel: "a", tier: task.Owner, text: "first"})
	eventually(t, "the answer that cannot be written", func() bool { return h.sup.Status().WorkDirs[0].Problem != "" })
	contains(t, h.owner("a", "second"), "second") // the channel is not held up
	if h.sup.Status().WorkDirs[0].Problem == "" {
		t.Error("another task's success hid the problem")
	}
	if err := os.Remove(block); err != nil {
		t.Fatal(err)
	}
	endedAs(t, h.settled("task-blocked"), store.Answered, reason.Answered)
}

func TestWorkDir_RoomsCannotBeMade(t *testing.T) {
	h := startHouse(t, nil)
	h.ready()
	rooms := filepath.Join(h.opt.WorkDirs[0].State, "rooms")
	if err := os.Chmod(rooms, 0o500); err != nil {
		t.Fatal(err)
	}
	id := h.drop(message{id: "task-guest", channel: "a", tier: task.Guest, text: "hello"})
	eventually(t, "the trouble", func() bool { return h.sup.Status().WorkDirs[0].Problem != "" })
	if err := os.Chmod(rooms, 0o700); err != nil {
		t.Fatal(err)
	}
	endedAs(t, h.settled(id), store.Answered, reason.Answered)
}

func TestWorkDir_ResetDuringATurnHolds(t *testing.T) {
	h := startHouse(t, nil)
	h.owner("a", "[[remember ferns]]")
	id := h.drop(message{channel: "a", tier: task.Owner, text: "[[slow 200]] hello"})
	pid := h.working(id)
	if _, err := h.dirOf().ResetThread("a"); err != nil {
		t.Fatal(err)
	}
	kill(t, pid)
	h.settled(id)
	lacks(t, h.owner("a", "[[recall]]"), "ferns")
}

func TestHouse_BoundThreadThatIsFull(t *testing.T) {
	h := startHouse(t, nil)
	h.owner("a", "[[remember ferns]]")
	bound := thread(t, h, "a")
	if err := h.dirOf().BindThread("a", bound); err != nil {
		t.Fatal(err)
	}
	_, row := h.ask(message{channel: "a", tier: task.Owner, text: "[[context-window-always]]"})
	endedAs(t, row, store.Failed, reason.ContextWindow)
	if after := thread(t, h, "a"); after != bound {
		t.Errorf("the bound thread %s became %s", bound, after)
	}
}

func TestMetrics_Undelivered(t *testing.T) {
	h := startHouse(t, nil)
	_, row := h.ask(message{id: "task-lost", channel: "a", tier: task.Owner, text: "hello"})
	h.close()
	results := h.opt.WorkDirs[0].Results
	if err := os.Mkdir(filepath.Join(results, "undelivered"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(results, row.TaskID+".txt"), filepath.Join(results, "undelivered", row.TaskID+"-1700000000.txt")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(results, "undelivered", "task-strange-1700000000.txt"), []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	h.start()
	eventually(t, "the count", func() bool { return h.metric("codex_supervisor_results_undelivered") == 1 })
}

func TestChild_RestartsCountWhileItCannotStart(t *testing.T) {
	h := newHouse(t, nil)
	h.opt.WorkDirs[0].Codex = []string{filepath.Join(h.dir, "none")}
	h.start()
	eventually(t, "two restarts", func() bool { return h.child().Restarts >= 2 })
	if c := h.child(); c.LastRestart != reason.BinaryMissing {
		t.Errorf("last restart %s, want binary_missing", c.LastRestart)
	}
	if h.metric("codex_supervisor_restarts_total") < 2 {
		t.Error("restarts_total does not count them")
	}
}

func TestChild_FoundAnewAtEachStart(t *testing.T) {
	h := newHouse(t, nil)
	program := h.opt.WorkDirs[0].Codex
	there := make(chan struct{})
	h.opt.WorkDirs[0].FindCodex = func() ([]string, error) {
		select {
		case <-there:
			return program, nil
		default:
			return nil, errors.New("not installed yet")
		}
	}
	h.opt.WorkDirs[0].Codex = []string{"codex"}
	h.start()
	h.becomes(supervisor.ChildBackoff, reason.BinaryMissing)
	close(there)
	contains(t, h.owner("a", "hello"), "hello")
}

// An interrupt sent before turn/started is refused and has to be sent again.
func TestHouse_InterruptBeforeTheTurnHasStarted(t *testing.T) {
	h := startHouse(t, func(o *supervisor.WorkDirOptions) {
		o.TurnTimeout, o.InterruptGrace = 30*time.Millisecond, 10*time.Second
		o.Env = append(o.Env, "STUB_START_MS=400")
	})
	_, row := h.ask(message{channel: "a", tier: task.Owner, text: "[[stall]]"})
	endedAs(t, row, store.TimedOut, reason.TurnTimeout)
	if took := row.SettledAt.Sub(row.Attempts[0].Began); took > 8*time.Second {
		t.Errorf("it took %s: the interrupt was not sent again", took)
	}
	if g := h.child().Generation; g != 1 {
		t.Errorf("generation %d, want 1", g)
	}
}
