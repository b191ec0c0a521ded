package supervisor

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/codex-supervisor/codex-supervisor/internal/proc"
	"github.com/codex-supervisor/codex-supervisor/internal/reason"
	"github.com/codex-supervisor/codex-supervisor/internal/task"
	"github.com/codex-supervisor/codex-supervisor/store"
)

const (
	sampleEvery = 15 * time.Second
	pruneEvery  = time.Hour
)

// sample measures what costs too much to measure with each event.
func (w *WorkDir) sample(ctx context.Context) {
	ticker := time.NewTicker(sampleEvery)
	defer ticker.Stop()
	var pruned time.Time
	for {
		if now := time.Now(); now.Sub(pruned) >= pruneEvery {
			pruned = now
			w.prune(now)
			w.measureHome()
		}
		w.measureChild()
		w.measureUndelivered()
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

func (w *WorkDir) measureChild() {
	if pid := w.child.Status().PID; pid != 0 {
		if n, err := proc.ResidentBytes(pid); err == nil {
			w.metrics.m.resident.WithLabelValues(w.opt.Name).Set(float64(n))
		}
	}
	if channels, err := w.store.Channels(); err == nil {
		durable := 0
		for _, c := range channels {
			if c.Owner != nil {
				durable++
			}
		}
		w.metrics.m.threads.WithLabelValues(w.opt.Name).Set(float64(durable))
	}
}

// quarantined is the name of a result that a gateway gave up on:
// ID-EPOCH.txt or ID.WORD.EPOCH.txt.
var quarantined = regexp.MustCompile(`^(task-.+?)(?:-\d+|\.[a-z-]+\.\d+)\.txt$`)

// measureUndelivered counts results of ours that no room has seen. Nobody but us
// tells the operator.
func (w *WorkDir) measureUndelivered() {
	entries, err := os.ReadDir(filepath.Join(w.opt.Results, "undelivered"))
	if err != nil && !os.IsNotExist(err) {
		return
	}
	ours := 0
	for _, e := range entries {
		m := quarantined.FindStringSubmatch(e.Name())
		if m == nil {
			continue
		}
		if _, ok, err := w.store.Row(m[1]); err == nil && ok {
			ours++
		}
	}
	w.metrics.m.undelivered.WithLabelValues(w.opt.Name).Set(float64(ours))
}

func (w *WorkDir) measureHome() {
	var bytes int64
	_ = filepath.WalkDir(w.codexHome(), func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil //nolint:nilerr // a file that went away is not counted
		}
		if info, err := d.Info(); err == nil {
			bytes += info.Size()
		}
		return nil
	})
	w.metrics.m.homeBytes.WithLabelValues(w.opt.Name).Set(float64(bytes))
}

// prune forgets settled tasks whose file has been gone for done_retention. As
// long as the file lies in tasks/ its row is what keeps it from running again.
func (w *WorkDir) prune(now time.Time) {
	var dropped []string
	_, err := w.store.Prune(func(r store.Row) bool {
		if r.State != store.StateSettled || now.Sub(r.SettledAt) < w.opt.DoneRetention {
			return false
		}
		if _, err := os.Lstat(filepath.Join(w.opt.Tasks, r.TaskID+".txt")); !os.IsNotExist(err) {
			return false
		}
		dropped = append(dropped, r.TaskID)
		return true
	})
	if err != nil {
		w.log.Warn("ledger not pruned", "error", err)
		return
	}
	for _, id := range dropped {
		if err := w.sink.Forget(id); err != nil {
			w.log.Warn("kept reply not removed", "task", id, "error", err)
		}
	}
	if len(dropped) > 0 {
		w.log.Info("forgot old tasks", "tasks", len(dropped))
	}
}

// probe proves the guests' confinement on a fresh generation, beside the
// owners' turns: they do not wait for it.
func (w *WorkDir) probe(g *generation) {
	set := func(c confinement) {
		g.confined.Store(&c)
		w.metrics.m.confined.WithLabelValues(w.opt.Name).Set(boolGauge(c.why == ""))
		w.post(msgProven{g})
	}
	switch g.sandbox.Refusal() {
	case "":
		set(confinement{}) // nothing to prove
		return
	case reason.GuestsAsRoot:
		set(confinement{why: reason.GuestsAsRoot, detail: "the service runs as root; give it a user of its own"})
		return
	default:
	}
	w.probes.Go(func() { // ends with the generation
		said := ""
		for {
			ctx, cancel := context.WithTimeout(context.Background(), w.opt.StartTimeout)
			err := g.sandbox.Probe(ctx, g.exec)
			cancel()
			if err == nil {
				set(confinement{})
				return
			}
			select {
			case <-g.lost():
				return // says nothing about the next generation
			default:
			}
			set(confinement{why: reason.GuestsUnconfined, detail: oneLine(err.Error(), 200)})
			if err.Error() != said {
				said = err.Error()
				w.log.Error("guest confinement not proven; guests are refused", "error", err, "again_in", probeAgain)
			}
			select {
			case <-g.lost():
				return
			case <-time.After(probeAgain):
			}
		}
	})
}

// probeAgain is when a probe that did not hold is tried once more: what was in
// its way may have been a moment's load.
const probeAgain = time.Minute

// publish makes the snapshot that Status returns.
func (w *WorkDir) publish() {
	s := WorkDirStatus{
		Name: w.opt.Name, Path: w.opt.Path, State: w.opt.State, Sandbox: string(w.opt.Sandbox), Paused: w.paused, Problem: w.problem(),
		Queued: w.queue.length(), Waiting: len(w.waiting), Child: w.child.Status(), Queue: []QueuedTask{},
	}
	s.Envelope = w.source.Policy()
	for _, it := range w.queue.some(QueueShown) {
		s.Queue = append(s.Queue, QueuedTask{ID: it.ID, Tier: it.Tier, Channel: it.ChannelKey, Priority: it.Priority.String(), Since: it.ModTime})
	}
	slices.SortFunc(s.Queue, func(a, b QueuedTask) int {
		if c := a.Since.Compare(b.Since); c != 0 {
			return c
		}
		return strings.Compare(a.ID, b.ID)
	})
	perTier := map[task.Tier]int{}
	for _, r := range w.running {
		s.live = append(s.live, &r.shown)
		perTier[r.item.Tier]++
	}
	for _, t := range task.AllTiers() {
		w.metrics.m.queueDepth.WithLabelValues(w.opt.Name, string(t)).Set(float64(w.queue.depth(t)))
		w.metrics.m.turnsRunning.WithLabelValues(w.opt.Name, string(t)).Set(float64(perTier[t]))
	}
	s.Guests = GuestStatus{Reason: reason.GuestsUnconfined, Detail: "no child is running", Lost: w.queue.lost}
	if w.gen != nil {
		c := w.gen.guests()
		s.Guests.Confined, s.Guests.Reason, s.Guests.Detail = c.why == "", c.why, c.detail
	}
	w.snapshot.Store(&s)
}
