package supervisor_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/codex-supervisor/codex-supervisor/internal/reason"
	"github.com/codex-supervisor/codex-supervisor/internal/task"
	"github.com/codex-supervisor/codex-supervisor/rpc"
	"github.com/codex-supervisor/codex-supervisor/store"
	"github.com/codex-supervisor/codex-supervisor/supervisor"
)

// metric sums a metric over its labels.
func (h *house) metric(name string) float64 {
	h.t.Helper()
	families, err := h.reg.Gather()
	if err != nil {
		h.t.Fatal(err)
	}
	sum := 0.0
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			sum += m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return sum
}

// rows are the ledger's rows while the house is open.
func (h *house) rows() []store.Row {
	h.t.Helper()
	var rows []store.Row
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range h.events {
		if e.Kind == supervisor.EventSettled {
			rows = append(rows, *e.Row)
		}
	}
	return rows
}

func (h *house) dirOf() *supervisor.WorkDir {
	h.t.Helper()
	d, err := h.sup.Dir("")
	if err != nil {
		h.t.Fatal(err)
	}
	return d
}

func ctxOf(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patienceOfTests)
	t.Cleanup(cancel)
	return ctx
}

func TestSupervisor_SecondInstance(t *testing.T) {
	h := startHouse(t, nil)
	opt := h.opt
	opt.Registerer = prometheus.NewRegistry()
	_, err := supervisor.New(opt)
	var busy *supervisor.BusyError
	if !errors.As(err, &busy) || busy.PID != os.Getpid() {
		t.Errorf("second instance: %v, want BusyError with pid %d", err, os.Getpid())
	}
	opt.WorkDirs = []supervisor.WorkDirOptions{h.opt.WorkDirs[0]}
	opt.WorkDirs[0].State = filepath.Join(h.dir, "other-state")
	opt.Registerer = prometheus.NewRegistry()
	if _, err := supervisor.New(opt); !errors.As(err, &busy) {
		t.Errorf("second instance with another state dir: %v, want BusyError", err)
	}
}

func TestWorkDir_Cancel(t *testing.T) {
	h := startHouse(t, nil)
	running := h.drop(message{id: "task-running", channel: "a", tier: task.Owner, text: "[[slow 400]] hello"})
	eventually(t, "the first words", func() bool {
		r := h.sup.Status().WorkDirs[0].Running
		return len(r) == 1 && r[0].TextLen > 0
	})
	queued := h.drop(message{id: "task-queued", channel: "a", tier: task.Owner, text: "hello"})
	eventually(t, "the queued task", func() bool { return h.sup.Status().WorkDirs[0].Queued == 1 })
	for _, id := range []string{queued, running} {
		if err := h.dirOf().CancelTask(ctxOf(t), id); err != nil {
			t.Fatalf("cancel %s: %v", id, err)
		}
		endedAs(t, h.settled(id), store.Cancelled, reason.Cancelled)
	}
	contains(t, h.result(running), "Up to then it had written")
	var op *supervisor.OperationError
	if err := h.dirOf().CancelTask(ctxOf(t), running); !errors.As(err, &op) || op.Code != supervisor.CodeConflict {
		t.Errorf("cancel of an ended task: %v", err)
	}
	if err := h.dirOf().CancelTask(ctxOf(t), "task-none"); !errors.As(err, &op) || op.Code != supervisor.CodeNotFound {
		t.Errorf("cancel of an unknown task: %v", err)
	}
}

func TestWorkDir_Backlog(t *testing.T) {
	h := newHouse(t, nil)
	old := h.drop(message{id: "task-old", channel: "a", tier: task.Owner, text: "yesterday's question"})
	past := time.Now().Add(-48 * time.Hour)
	if err := os.Chtimes(filepath.Join(h.opt.WorkDirs[0].Tasks, old+".txt"), past, past); err != nil {
		t.Fatal(err)
	}
	fresh := h.drop(message{id: "task-fresh", channel: "a", tier: task.Owner, text: "today's question"})
	h.start()
	h.settled(fresh)
	st, err := h.dirOf().Task(ctxOf(t), old)
	if err != nil || st.Row == nil || st.Row.Reason != reason.BacklogSkipped {
		t.Fatalf("old task: %+v, %v", st, err)
	}
	contains(t, strings.Join(st.Explain, "\n"), "task retry")
	if h.asked("yesterday's question") != 0 {
		t.Error("the old task was run")
	}
	if err := h.dirOf().RetryTask(ctxOf(t), old); err != nil {
		t.Fatal(err)
	}
	endedAs(t, h.settled(old), store.Answered, reason.Answered)
	var op *supervisor.OperationError
	if err := h.dirOf().RetryTask(ctxOf(t), old); !errors.As(err, &op) || op.Code != supervisor.CodeConflict {
		t.Errorf("retry of an answered task: %v", err)
	}
}

func TestWorkDir_PauseAndExplain(t *testing.T) {
	h := startHouse(t, nil)
	h.ready()
	if err := h.dirOf().Pause(ctxOf(t), true); err != nil {
		t.Fatal(err)
	}
	id := h.drop(message{id: "task-waits", channel: "a", tier: task.Owner, text: "hello"})
	eventually(t, "the queue", func() bool { return h.sup.Status().WorkDirs[0].Queued == 1 })
	st, err := h.dirOf().Task(ctxOf(t), id)
	if err != nil || st.Where != "queued" {
		t.Fatalf("%+v, %v", st, err)
	}
	contains(t, strings.Join(st.Explain, "\n"), "paused")
	if v := h.metric("codex_supervisor_queue_depth"); v != 1 {
		t.Errorf("queue_depth %v, want 1", v)
	}
	if err := h.dirOf().Pause(ctxOf(t), false); err != nil {
		t.Fatal(err)
	}
	h.settled(id)
	st, err = h.dirOf().Task(ctxOf(t), id)
	if err != nil || st.Where != "settled" || st.Result == "" {
		t.Errorf("%+v, %v", st, err)
	}
	var op *supervisor.OperationError
	if _, err := h.dirOf().Task(ctxOf(t), "task-none"); !errors.As(err, &op) || op.Code != supervisor.CodeNotFound {
		t.Errorf("unknown task: %v", err)
	}
}

func TestWorkDir_RestartAndModels(t *testing.T) {
	h := startHouse(t, nil)
	h.ready()
	var models []rpc.Model
	var err error
	// The child is ready a moment before its work dir has heard of it.
	eventually(t, "the models", func() bool {
		models, err = h.dirOf().Models(ctxOf(t))
		return err == nil
	})
	if err != nil || len(models) != 1 || models[0].ID != "stub-model" {
		t.Errorf("models %+v, %v", models, err)
	}
	h.dirOf().Restart()
	h.await("generation 2", func(e supervisor.Event) bool {
		return e.Kind == supervisor.EventChild && e.Child.Generation == 2 && e.Child.State == supervisor.ChildReady
	})
	if c := h.child(); c.LastRestart != reason.ChildRestarted || c.Restarts != 1 {
		t.Errorf("%+v", c)
	}
}

func TestWorkDir_ResultsCannotBeWritten(t *testing.T) {
	h := startHouse(t, nil)
	h.ready()
	results := h.opt.WorkDirs[0].Results
	if err := os.Chmod(results, 0o555); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(results, 0o755) })
	id := h.drop(message{id: "task-kept", channel: "a", tier: task.Owner, text: "hello"})
	eventually(t, "the answer that waits", func() bool { return h.sup.Status().WorkDirs[0].Waiting == 1 })
	st, err := h.dirOf().Task(ctxOf(t), id)
	if err != nil {
		t.Fatal(err)
	}
	contains(t, strings.Join(st.Explain, "\n"), "could not be written")
	contains(t, h.sup.Status().WorkDirs[0].Problem, "permission denied")
	if err := os.Chmod(results, 0o755); err != nil {
		t.Fatal(err)
	}
	endedAs(t, h.settled(id), store.Answered, reason.Answered)
	h.oneResult(id)
	eventually(t, "the end of the trouble", func() bool { return h.sup.Status().WorkDirs[0].Problem == "" })
	if n := h.asked("hello"); n != 1 {
		t.Errorf("the turn was run %d times, want once", n)
	}
}

func TestSupervisor_Shutdown(t *testing.T) {
	t.Run("DrainsRunningTurns", func(t *testing.T) {
		h := startHouse(t, nil)
		id := h.drop(message{id: "task-runs", channel: "a", tier: task.Owner, text: "[[slow 40]] hello"})
		h.working(id)
		h.close()
		h.oneResult(id)
		contains(t, h.result(id), "hello")
	})
	t.Run("HurryLeavesItForTheNextStart", func(t *testing.T) {
		h := startHouse(t, nil)
		id := h.drop(message{id: "task-cut", channel: "a", tier: task.Owner, text: "[[slow 2000]] the long one"})
		h.working(id)
		h.sup.Hurry()
		h.close()
		if rows := h.ledger(); len(rows) != 1 || rows[0].State != store.StateOpen {
			t.Fatalf("ledger %+v, want one open row", rows)
		}
		h.start()
		endedAs(t, h.settled(id), store.Answered, reason.Answered)
		if n := h.asked("the long one"); n != 1 {
			t.Errorf("the prompt was sent %d times, want once", n)
		}
	})
}

func TestChild_Start(t *testing.T) {
	t.Run("MissingBinaryHeals", func(t *testing.T) {
		h := newHouse(t, nil)
		real := h.opt.WorkDirs[0].Codex[0]
		link := filepath.Join(h.dir, "codex")
		h.opt.WorkDirs[0].Codex = []string{link}
		h.start()
		h.becomes(supervisor.ChildBackoff, reason.BinaryMissing)
		id := h.drop(message{channel: "a", tier: task.Owner, text: "hello"})
		if err := os.Symlink(real, link); err != nil {
			t.Fatal(err)
		}
		endedAs(t, h.settled(id), store.Answered, reason.Answered)
	})
	t.Run("TooOld", func(t *testing.T) {
		h := startHouse(t, func(o *supervisor.WorkDirOptions) { o.Env = append(o.Env, "STUB_VERSION=0.150.9") })
		h.becomes(supervisor.ChildBackoff, reason.VersionTooOld)
		contains(t, h.child().Detail, "0.151.0")
	})
	t.Run("MuteChildIsACrashLoop", func(t *testing.T) {
		h := startHouse(t, func(o *supervisor.WorkDirOptions) {
			o.StartTimeout = 100 * time.Millisecond
			o.Env = append(o.Env, "STUB_MUTE=1")
		})
		h.becomes(supervisor.ChildBackoff, reason.ChildStartTimeout)
		eventually(t, "the crash loop", func() bool { return h.child().CrashLooping })
		if v := h.metric("codex_supervisor_crash_looping"); v != 1 {
			t.Errorf("crash_looping %v, want 1", v)
		}
		if ok, why := h.sup.Ready(); ok || len(why) != 1 {
			t.Errorf("ready %v %v, want one problem", ok, why)
		}
	})
	t.Run("OverloadAndNoiseAtTheStart", func(t *testing.T) {
		h := startHouse(t, func(o *supervisor.WorkDirOptions) {
			o.Env = append(o.Env, "STUB_OVERLOAD=3", "STUB_STDERR=1000000", "STUB_INIT_MS=50")
		})
		contains(t, h.owner("a", "hello"), "hello")
	})
}

func TestMetrics_ByValue(t *testing.T) {
	h := startHouse(t, short)
	h.owner("a", "hello")
	h.ask(message{channel: "a", tier: task.Guest, text: "hello"})
	h.ask(message{channel: "a", tier: task.Owner, text: "[[stall]]"})
	h.ask(message{channel: "a", tier: task.Owner, text: "[[stall-hard]]"})
	h.dropRaw("task-bad", "id: task-bad\naccess_tier: owner\n")
	h.settled("task-bad")
	h.await("generation 2", func(e supervisor.Event) bool {
		return e.Kind == supervisor.EventChild && e.Child.Generation == 2 && e.Child.State == supervisor.ChildReady
	})
	want := `
# HELP codex_supervisor_child_generation Number of the app-server's present generation.
# TYPE codex_supervisor_child_generation gauge
codex_supervisor_child_generation{workdir="house"} 2
# HELP codex_supervisor_child_up Whether the app-server is up (ready, held or draining).
# TYPE codex_supervisor_child_up gauge
codex_supervisor_child_up{workdir="house"} 1
# HELP codex_supervisor_guest_confinement_ok Whether non-owner turns are proven to be confined (1) or refused (0).
# TYPE codex_supervisor_guest_confinement_ok gauge
codex_supervisor_guest_confinement_ok{workdir="house"} 1
# HELP codex_supervisor_interrupts_total Turns interrupted by the service.
# TYPE codex_supervisor_interrupts_total counter
codex_supervisor_interrupts_total{reason="turn_timeout",workdir="house"} 2
# HELP codex_supervisor_restarts_total Generations of the app-server that were followed by another.
# TYPE codex_supervisor_restarts_total counter
codex_supervisor_restarts_total{reason="unresponsive",workdir="house"} 1
# HELP codex_supervisor_tasks_total Tasks settled.
# TYPE codex_supervisor_tasks_total counter
codex_supervisor_tasks_total{outcome="answered",reason="answered",tier="guest",workdir="house"} 1
codex_supervisor_tasks_total{outcome="answered",reason="answered",tier="owner",workdir="house"} 1
codex_supervisor_tasks_total{outcome="rejected",reason="no_task",tier="guest",workdir="house"} 1
codex_supervisor_tasks_total{outcome="timed_out",reason="turn_timeout",tier="owner",workdir="house"} 2
# HELP codex_supervisor_tokens_total Tokens used by turns, as the app-server reports them.
# TYPE codex_supervisor_tokens_total counter
codex_supervisor_tokens_total{tier="guest",workdir="house"} 15
codex_supervisor_tokens_total{tier="owner",workdir="house"} 30
`
	names := []string{"child_generation", "child_up", "guest_confinement_ok", "interrupts_total", "restarts_total", "tasks_total", "tokens_total"}
	for i := range names {
		names[i] = "codex_supervisor_" + names[i]
	}
	if err := testutil.GatherAndCompare(h.reg, strings.NewReader(want), names...); err != nil {
		t.Error(err)
	}
	problems, err := testutil.GatherAndLint(h.reg)
	if err != nil || len(problems) > 0 {
		t.Errorf("lint: %v %v", problems, err)
	}
	if n := h.metric("codex_supervisor_task_duration_seconds"); n != 5 {
		t.Errorf("task_duration_seconds has %v samples, want 5", n)
	}
	if n := h.metric("codex_supervisor_queue_wait_seconds"); n != 4 {
		t.Errorf("queue_wait_seconds has %v samples, want 4", n)
	}
}
