package supervisor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/codex-supervisor/codex-supervisor/internal/durable"
	"github.com/codex-supervisor/codex-supervisor/internal/inbox"
	"github.com/codex-supervisor/codex-supervisor/internal/outbox"
	"github.com/codex-supervisor/codex-supervisor/internal/proc"
	"github.com/codex-supervisor/codex-supervisor/internal/reason"
	"github.com/codex-supervisor/codex-supervisor/internal/task"
	"github.com/codex-supervisor/codex-supervisor/sandbox"
	"github.com/codex-supervisor/codex-supervisor/store"
	"github.com/codex-supervisor/codex-supervisor/threads"
)

// openWorkDir takes the work dir's lock and opens everything it needs. Nothing
// is started yet. The caller runs Serve, which closes it all again.
func openWorkDir(opt WorkDirOptions, metrics *Metrics, log *slog.Logger, onEvent func(Event)) (w *WorkDir, err error) {
	opt.fill()
	log = log.With("workdir", opt.Name)
	if err := makeDirs(opt); err != nil {
		return nil, err
	}
	w = &WorkDir{
		opt: opt, log: log, onEvent: onEvent, metrics: metrics.workdir(opt.Name), messages: newMailbox[message](),
		queue: newQueue(opt.limits()), running: map[string]*running{}, waiting: map[string]*waiting{},
		suspects: map[string]bool{}, troubles: map[string]string{}, tallies: map[uint64]*tally{},
	}
	if w.lock, err = lockDirs(opt); err != nil {
		return nil, err
	}
	opened := w
	defer func() {
		if err != nil { // w is nil then: the returns below set it
			if opened.store != nil {
				_ = opened.store.Close()
			}
			opened.lock.release()
		}
	}()
	if w.store, err = store.Open(filepath.Join(opt.State, ledgerFile), store.Options{}); err != nil {
		return nil, fmt.Errorf("open ledger: %w", err)
	}
	w.sink, err = outbox.New(outbox.Options{
		Results: opt.Results, Replies: filepath.Join(opt.State, "replies"), MaxBytes: opt.MaxResultBytes, Logger: log,
	})
	if err != nil {
		return nil, fmt.Errorf("open results: %w", err)
	}
	w.source, err = inbox.New(inbox.Options{
		Dir: opt.Tasks, KeyFile: opt.KeyFile, Policy: opt.Envelope, MaxBytes: maxTaskFile, Logger: log,
	})
	if err != nil {
		return nil, fmt.Errorf("open inbox: %w", err)
	}
	if w.rooms, err = sandbox.OpenRooms(sandbox.RoomsDir(opt.State), sandbox.Limits{}); err != nil {
		return nil, fmt.Errorf("open rooms: %w", err)
	}
	w.threads = threads.New(threads.Options{Store: w.store, Logger: log, LockWait: opt.LockWait, CodexHome: w.codexHome})
	w.spawner = proc.NewSpawner()
	w.child = newChild(childOptions{
		replaceDrain: opt.ReplaceDrain, start: w.launch, healed: w.healed, stale: w.staleLogin,
		nextNumber: w.store.NextGeneration, record: w.recordEnd,
		notify:  func(e childEvent) { w.post(msgChild{e}) },
		watch:   func(s ChildStatus) { w.emit(Event{Kind: EventChild, Reason: s.Reason, Child: &s}) },
		metrics: w.metrics, log: log,
	})
	for channel, thread := range opt.Bind {
		if err := w.threads.Bind(task.ChannelKey(channel), channel, thread); err != nil {
			return nil, fmt.Errorf("bind channel %q: %w", channel, err)
		}
	}
	w.publish()
	return w, nil
}

// ledgerFile is the name of the ledger in the state dir.
const ledgerFile = "ledger.db"

// LedgerPath is where a work dir's ledger lies, for reading while no service runs.
func LedgerPath(stateDir string) string { return filepath.Join(stateDir, ledgerFile) }

func makeDirs(opt WorkDirOptions) error {
	if info, err := os.Stat(opt.Path); err != nil {
		return fmt.Errorf("work dir %q: %w", opt.Path, err)
	} else if !info.IsDir() {
		return fmt.Errorf("work dir %q is not a directory", opt.Path)
	}
	for _, d := range []struct {
		path string
		mode os.FileMode
	}{{opt.Tasks, 0o755}, {opt.Results, 0o755}, {opt.State, 0o700}} {
		if err := os.MkdirAll(d.path, d.mode); err != nil {
			return fmt.Errorf("create %q: %w", d.path, err)
		}
	}
	if err := os.Chmod(opt.State, 0o700); err != nil {
		return fmt.Errorf("close state dir to others: %w", err)
	}
	return nil
}

// boot repairs what a crash left, before anything new is started.
func (w *WorkDir) boot() error {
	live, err := w.store.LiveGenerations()
	if err != nil {
		return fmt.Errorf("read generations: %w", err)
	}
	for _, g := range live {
		// A guard sweeps by itself when our pipe closes; this is for the case
		// that it was killed too. Pid and start time must both match.
		killed, err := proc.SweepStale(g.Child, g.Guard)
		if err != nil {
			// What cannot be ended by anybody must not keep everybody waiting.
			w.log.Error("processes of an earlier run could not be ended", "generation", g.N, "error", err)
		}
		if killed > 0 {
			w.log.Warn("ended processes of an earlier run", "generation", g.N, "processes", killed)
			w.metrics.m.orphans.WithLabelValues(w.opt.Name).Add(float64(killed))
		}
		g.Ended, g.End = time.Now(), reason.ChildKilled
		if err := w.store.SaveGeneration(g); err != nil {
			return fmt.Errorf("close generation %d: %w", g.N, err)
		}
	}
	if n, err := w.sink.SweepTemps(); err != nil {
		w.log.Warn("temporary files not removed", "error", err)
	} else if n > 0 {
		w.log.Info("removed temporary files of an earlier run", "files", n)
	}
	if n, err := w.rooms.Sweep(); err != nil {
		w.log.Warn("rooms not removed", "error", err)
	} else if n > 0 {
		w.log.Info("removed guest rooms of an earlier run", "rooms", n)
	}
	if _, err := sandbox.SweepCanaries(w.opt.Path, w.opt.Results, w.codexHome()); err != nil {
		w.log.Warn("canaries not removed", "error", err)
	}
	rows, err := w.store.OpenRows()
	if err != nil {
		return fmt.Errorf("read open rows: %w", err)
	}
	for _, r := range rows {
		it := itemOf(r)
		offline := r.State == store.StateReplied
		w.wait(&waiting{item: it, reserved: !offline, offline: offline, end: &knownEnd{}})
	}
	if len(rows) > 0 {
		w.log.Info("tasks to settle from an earlier run", "tasks", len(rows))
	}
	return nil
}

func itemOf(r store.Row) inbox.Item {
	key := r.ChannelKey
	return inbox.Item{ID: r.TaskID, Tier: r.Tier, ChannelID: r.ChannelName, ChannelKey: key, Verdict: r.Verdict, ModTime: r.Queued}
}

// arrive takes what the inbox found. It runs on the inbox's goroutine, where
// looking into the ledger and the result dirs holds up nobody else.
func (w *WorkDir) arrive(e inbox.Event) {
	switch e := e.(type) {
	case inbox.Found:
		w.metrics.verdict(e.Verdict)
		if w.isNew(e.Item) && !w.skipBacklog(e.Item) {
			w.post(msgArrived{e.Item})
		}
	case inbox.Rejected:
		if !e.IDSound {
			w.log.Warn("file is no task and was left alone", "file", e.ID, "reason", string(e.Reason), "detail", e.Detail)
			return
		}
		w.metrics.verdict(e.Verdict)
		if w.isNew(e.Item) {
			w.log.Warn("task rejected", "task", e.ID, "reason", string(e.Reason), "detail", e.Detail)
			w.post(msgKnownEnd{item: e.Item, end: knownEnd{outcome: store.Rejected, failure: failure{why: e.Reason}, detail: e.Detail}})
		}
	case inbox.Gone:
		w.post(msgGone{e.ID})
	case inbox.Listed:
		if err := w.store.MarkStarted(); err != nil {
			w.log.Warn("first start not recorded", "error", err)
		}
	}
}

// isNew says whether nothing is known of a task: no row, no result anywhere.
// A row that is open is being dealt with already.
func (w *WorkDir) isNew(it inbox.Item) bool {
	if _, ok, err := w.store.Row(it.ID); err != nil {
		w.log.Error("ledger not readable", "task", it.ID, "error", err)
		return true // asked again right before it runs
	} else if ok {
		return false
	}
	where, done, err := w.sink.Done(it.ID)
	if err != nil {
		w.log.Error("results not readable", "task", it.ID, "error", err)
		return true // asked again right before it runs
	}
	if done {
		w.log.Debug("task has a result already", "task", it.ID, "where", where)
	}
	return !done
}

// skipBacklog records old files found on the very first start as skipped: on a
// used inbox nobody waits for last month's answers any more.
func (w *WorkDir) skipBacklog(it inbox.Item) bool {
	first, err := w.store.FirstStart()
	if err != nil || !first || time.Since(it.ModTime) <= w.opt.MaxBacklogAge {
		return false
	}
	now := time.Now()
	row := store.Row{
		TaskID: it.ID, ChannelKey: it.ChannelKey, ChannelName: it.ChannelID, Tier: it.Tier, Verdict: it.Verdict,
		Queued: it.ModTime, Seen: now,
	}
	row, err = w.store.Upsert(row, func(r *store.Row) error {
		r.State, r.Outcome, r.Reason, r.SettledAt = store.StateSettled, store.Skipped, reason.BacklogSkipped, now
		return nil
	})
	if err != nil {
		w.log.Error("backlog not recorded", "task", it.ID, "error", err)
		return true // rather not run than run what nobody waits for
	}
	w.metrics.settled(row)
	w.log.Info("old task skipped on the first start", "task", it.ID, "age", time.Since(it.ModTime).Round(time.Minute))
	return true
}

// codexHome is the CODEX_HOME that the children use.
func (w *WorkDir) codexHome() string {
	switch w.opt.CodexHome {
	case sandbox.HomePrivate:
		return filepath.Join(w.opt.State, "codex-home")
	case sandbox.HomeInherit:
		return w.opt.CodexHomeFrom
	default:
		return w.opt.CodexHome
	}
}

// healed says whether what holds a generation may have been mended: one of the
// files that decide it is no longer what it was when the generation started.
func (w *WorkDir) healed(g *generation) bool { return g.sources != w.sources() }

// staleLogin says whether the login is another than the generation began with.
func (w *WorkDir) staleLogin(g *generation) bool { return g.sources[0] != w.sources()[0] }

// sources tells the login and the configuration apart from what they were. It
// does not compare times with the clock: a file's are coarser.
func (w *WorkDir) sources() [2]durable.Stamp {
	from := w.opt.CodexHomeFrom
	if w.opt.CodexHome != sandbox.HomePrivate {
		from = w.codexHome()
	}
	var stamps [2]durable.Stamp
	for i, name := range []string{"auth.json", "config.toml"} {
		if info, err := os.Stat(filepath.Join(from, name)); err == nil {
			stamps[i] = durable.StampOf(info)
		}
	}
	return stamps
}

func (w *WorkDir) recordEnd(g *generation, end childEnd) {
	row := g.record()
	row.Ended, row.End, row.ExitCode, row.Signal = time.Now(), end.why, g.exit.Code, g.exit.Signal
	row.Stderr = g.stderr.Lines()
	if err := w.store.SaveGeneration(row); err != nil {
		w.log.Error("end of generation not recorded", "generation", g.number, "error", err)
	}
}

// launch starts one generation and brings it to the point where turns may run.
func (w *WorkDir) launch(ctx context.Context, number uint64) (*generation, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, w.opt.StartTimeout, errors.New("start_timeout passed"))
	defer cancel()
	codex := w.opt.Codex
	if w.opt.FindCodex != nil {
		var err error
		if codex, err = w.opt.FindCodex(); err != nil {
			return nil, &startError{why: reason.BinaryMissing, err: err}
		}
	}
	sources := w.sources()
	home, err := sandbox.PrepareHome(sandbox.HomeOptions{Mode: w.opt.CodexHome, From: w.opt.CodexHomeFrom, State: w.opt.State})
	if err != nil {
		return nil, &startError{why: reason.ConfigBroken, err: err}
	}
	w.importBound(home)
	policy, err := w.newPolicy(home, codex[0])
	if err != nil {
		return nil, &startError{why: reason.ConfigBroken, err: err}
	}
	g := &generation{
		number: number, started: time.Now(), sources: sources, router: newRouter(), sandbox: policy.NewChild(), stderr: proc.NewRing(50, 2000),
		metrics: w.metrics, log: w.log.With("generation", number), child: w.child, ended: make(chan struct{}),
	}
	argv := append(append(append([]string{}, codex...), "app-server"), g.sandbox.Args()...)
	env := append(sandbox.Environment(os.Environ(), w.opt.EnvPass, home.Dir), g.sandbox.Environ()...)
	env = append(env, w.opt.Env...)
	g.env = env
	g.process, err = w.spawner.Start(proc.Spec{Argv: argv, Dir: w.opt.Path, Env: env, NoFile: 65536})
	if err != nil {
		return nil, startProblem(err)
	}
	g.pid = g.process.Child().PID
	if err := w.store.SaveGeneration(g.record()); err != nil {
		w.log.Warn("generation not recorded", "error", err)
	}
	g.connect(w)
	if err := g.handshake(ctx); err != nil {
		end := startFailure(err)
		g.stop(&end)
		w.recordEnd(g, end)
		if lines := g.lastStderr(); lines != "" {
			err = fmt.Errorf("%w; it said: %s", err, lines)
		}
		var s *startError
		errors.As(err, &s)
		return nil, &startError{why: s.why, err: err}
	}
	if err := w.store.SaveGeneration(g.record()); err != nil {
		w.log.Warn("generation not recorded", "error", err)
	}
	w.log.Info("child started", "generation", number, "pid", g.pid, "version", g.version)
	w.probe(g)
	return g, nil
}

// importBound copies the rollouts of bound threads from the user's home into a
// private one: the thread of somebody's terminal can be bound to a channel. What
// cannot be found is told by the task that needs it.
func (w *WorkDir) importBound(home sandbox.Home) {
	channels, err := w.store.Channels()
	if err != nil || !home.Private {
		return
	}
	for _, c := range channels {
		if c.Owner == nil || !c.Owner.Bound {
			continue
		}
		if err := sandbox.ImportRollout(home, home.From, c.Owner.ID); err != nil && !errors.Is(err, fs.ErrNotExist) {
			w.log.Warn("bound thread not imported", "thread", c.Owner.ID, "error", err)
		}
	}
}

func startProblem(err error) error {
	var s *proc.StartError
	if errors.As(err, &s) {
		return &startError{why: reason.BinaryMissing, err: err}
	}
	return &startError{why: reason.ChildExited, err: err}
}

// newPolicy is made for each generation: the owner's AGENTS.md is read anew.
func (w *WorkDir) newPolicy(home sandbox.Home, codex string) (*sandbox.Policy, error) {
	read := map[task.Tier][]string{}
	models := map[task.Tier]string{}
	for t, o := range w.opt.Tiers {
		read[t], models[t] = o.Read, o.Model
	}
	return sandbox.New(sandbox.Options{
		Mode: w.opt.Sandbox, Work: w.opt.Path, Cwd: w.opt.Cwd, Tasks: w.opt.Tasks, Results: w.opt.Results, State: w.opt.State,
		CodexHome: home.Dir, CodexBinary: codex, Deny: append([]string{w.opt.KeyFile}, w.opt.Deny...), Read: read,
		Private: append([]string{w.opt.CodexHomeFrom}, w.opt.Private...),
		Model:   w.opt.Model, TierModel: models, ShellEnv: w.opt.ShellEnv,
		DeveloperInstructions: home.Instructions, UID: os.Geteuid(), UnsafeRootGuests: w.opt.UnsafeRootGuests, StubChild: w.opt.StubChild,
	})
}
