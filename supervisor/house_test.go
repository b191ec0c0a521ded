package supervisor_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/codex-supervisor/codex-supervisor/internal/task"
	"github.com/codex-supervisor/codex-supervisor/store"
	"github.com/codex-supervisor/codex-supervisor/supervisor"
)

// patienceOfTests bounds every wait; nothing that works comes near it.
const patienceOfTests = 30 * time.Second

// house is a service on one temporary work dir, its child being the stub.
type house struct {
	t       testing.TB
	opt     supervisor.Options
	dir     string
	reg     *prometheus.Registry
	sup     *supervisor.Supervisor
	stop    context.CancelFunc
	stopped chan error

	mu     sync.Mutex
	events []supervisor.Event
	woken  chan struct{}
}

// newHouse prepares a house; start starts it. change may alter the options.
func newHouse(t testing.TB, change func(*supervisor.WorkDirOptions)) *house {
	t.Helper()
	dir := t.TempDir()
	h := &house{t: t, dir: dir, woken: make(chan struct{}, 1)}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	w := supervisor.WorkDirOptions{
		Name: "house", Path: filepath.Join(dir, "work"),
		Tasks: filepath.Join(dir, "work", "tasks"), Results: filepath.Join(dir, "work", "results"), State: filepath.Join(dir, "state"),
		KeyFile: filepath.Join(dir, "work", "state", "auth", "task-hmac.key"),
		Codex:   []string{exe}, CodexHomeFrom: filepath.Join(dir, "user-home"),
		TurnTimeout: 20 * time.Second, InterruptGrace: time.Second, StartTimeout: 20 * time.Second, ReplaceDrain: 2 * time.Second,
		StubChild: true,
	}
	for _, d := range []string{w.Path, w.Tasks, w.Results, w.CodexHomeFrom} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	w.Env = []string{playCodex + "=1", "STUB_LOG=" + h.logPath()}
	for _, name := range []string{"GORACE", "GOCOVERDIR"} { // of the test run itself
		if v := os.Getenv(name); v != "" {
			w.Env = append(w.Env, name+"="+v)
		}
	}
	if change != nil {
		change(&w)
	}
	h.opt = supervisor.Options{WorkDirs: []supervisor.WorkDirOptions{w}, DrainTimeout: 5 * time.Second, Version: "test"}
	t.Cleanup(h.close)
	return h
}

func (h *house) logPath() string { return filepath.Join(h.dir, "stub.log") }

func startHouse(t testing.TB, change func(*supervisor.WorkDirOptions)) *house {
	h := newHouse(t, change)
	h.start()
	return h
}

func (h *house) start() {
	h.t.Helper()
	h.reg = prometheus.NewRegistry()
	h.opt.Registerer = h.reg
	h.opt.Logger = slog.New(slog.NewTextHandler(testWriter{h.t}, &slog.HandlerOptions{Level: slog.LevelDebug}))
	h.opt.OnEvent = h.saw
	sup, err := supervisor.New(h.opt)
	if err != nil {
		h.t.Fatalf("new supervisor: %v", err)
	}
	h.sup = sup
	ctx, cancel := context.WithCancel(context.Background())
	h.stop = cancel
	h.stopped = make(chan error, 1)
	go func() { h.stopped <- sup.Serve(ctx) }() // waited for in close
}

// close stops the house and asserts that it stops in bounded time.
func (h *house) close() {
	if h.stop == nil {
		return
	}
	h.stop()
	select {
	case err := <-h.stopped:
		if err != nil {
			h.t.Errorf("serve: %v", err)
		}
	case <-time.After(patienceOfTests):
		h.t.Errorf("the house did not stop")
	}
	h.stop = nil
}

func (h *house) saw(e supervisor.Event) {
	h.mu.Lock()
	h.events = append(h.events, e)
	h.mu.Unlock()
	select {
	case h.woken <- struct{}{}:
	default:
	}
}

// await waits for an event, those that have been included.
func (h *house) await(what string, want func(supervisor.Event) bool) supervisor.Event {
	h.t.Helper()
	deadline := time.After(patienceOfTests)
	seen := 0
	for {
		h.mu.Lock()
		events := h.events[seen:]
		seen = len(h.events)
		h.mu.Unlock()
		for _, e := range events {
			if want(e) {
				return e
			}
		}
		select {
		case <-h.woken:
		case <-deadline:
			h.t.Fatalf("waited in vain for %s; status %+v", what, h.sup.Status())
		}
	}
}

// message is one task file.
type message struct {
	id, channel, text string
	tier              task.Tier
	extra             string // more header lines
}

func (h *house) drop(m message) string {
	h.t.Helper()
	if m.id == "" {
		m.id = fmt.Sprintf("task-%d", time.Now().UnixNano())
	}
	raw := "id: " + m.id + "\n"
	if m.channel != "" {
		raw += "channel_id: " + m.channel + "\n"
	}
	if m.tier != "" {
		raw += "access_tier: " + string(m.tier) + "\n"
	}
	raw += m.extra + "task: " + m.text + "\n"
	h.dropRaw(m.id, raw)
	return m.id
}

func (h *house) dropRaw(id, raw string) {
	h.t.Helper()
	tasks := h.opt.WorkDirs[0].Tasks
	tmp := filepath.Join(tasks, "."+id+".tmp")
	if err := os.WriteFile(tmp, []byte(raw), 0o644); err != nil {
		h.t.Fatal(err)
	}
	if err := os.Rename(tmp, filepath.Join(tasks, id+".txt")); err != nil {
		h.t.Fatal(err)
	}
}

// ask drops a task and waits for its result.
func (h *house) ask(m message) (string, store.Row) {
	h.t.Helper()
	id := h.drop(m)
	row := h.settled(id)
	return h.result(id), row
}

func (h *house) owner(channel, text string) string {
	h.t.Helper()
	got, _ := h.ask(message{channel: channel, tier: task.Owner, text: text})
	return got
}

func (h *house) settled(id string) store.Row {
	h.t.Helper()
	e := h.await("the end of "+id, func(e supervisor.Event) bool { return e.Kind == supervisor.EventSettled && e.TaskID == id })
	return *e.Row
}

func (h *house) result(id string) string {
	h.t.Helper()
	raw, err := os.ReadFile(filepath.Join(h.opt.WorkDirs[0].Results, id+".txt"))
	if err != nil {
		h.t.Fatalf("result of %s: %v", id, err)
	}
	return string(raw)
}

func (h *house) ready() supervisor.ChildStatus {
	h.t.Helper()
	e := h.await("a ready child", func(e supervisor.Event) bool {
		return e.Kind == supervisor.EventChild && e.Child.State == supervisor.ChildReady
	})
	return *e.Child
}

func (h *house) child() supervisor.ChildStatus { return h.sup.Status().WorkDirs[0].Child }

// working waits until a task's turn has been begun and returns the child's pid.
func (h *house) working(id string) int {
	h.t.Helper()
	deadline := time.Now().Add(patienceOfTests)
	for time.Now().Before(deadline) {
		for _, r := range h.sup.Status().WorkDirs[0].Running {
			if r.ID == id && (r.Phase == "working" || r.Phase == "answering") {
				return h.child().PID
			}
		}
		<-time.After(5 * time.Millisecond)
	}
	h.t.Fatalf("%s never got to work: %+v", id, h.sup.Status().WorkDirs[0])
	return 0
}

// oneResult asserts that exactly one result lies in results/ for each id.
func (h *house) oneResult(ids ...string) {
	h.t.Helper()
	entries, err := os.ReadDir(h.opt.WorkDirs[0].Results)
	if err != nil {
		h.t.Fatal(err)
	}
	got := map[string]int{}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".codex-supervisor-canary-") {
			continue // of a probe that runs beside
		}
		if strings.HasPrefix(e.Name(), ".") {
			h.t.Errorf("left behind in results: %s", e.Name())
		}
		got[strings.TrimSuffix(e.Name(), ".txt")]++
	}
	for _, id := range ids {
		if got[id] != 1 {
			h.t.Errorf("%s has %d results, want 1", id, got[id])
		}
	}
}

func (h *house) ledger() []store.Row {
	h.t.Helper()
	db, err := store.OpenReadOnly(supervisor.LedgerPath(h.opt.WorkDirs[0].State), time.Second)
	if err != nil {
		h.t.Fatal(err)
	}
	defer db.Close()
	rows, err := db.Rows(1000)
	if err != nil {
		h.t.Fatal(err)
	}
	return rows
}

type testWriter struct{ t testing.TB }

func (w testWriter) Write(p []byte) (int, error) {
	w.t.Logf("%s", strings.TrimSuffix(string(p), "\n"))
	return len(p), nil
}
