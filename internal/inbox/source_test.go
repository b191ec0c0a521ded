package inbox_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/codex-supervisor/codex-supervisor/internal/inbox"
	"github.com/codex-supervisor/codex-supervisor/internal/reason"
	"github.com/codex-supervisor/codex-supervisor/internal/task"
)

func TestSource_Read(t *testing.T) {
	r := mustRig(t, nil)
	mid := []byte("id: task-a\ntask_layout: mid\ntask: x\naccess_tier: owner\n")
	r.put("task-a.txt", string(mid))
	if got, err := r.Read("task-a"); err != nil || got.Tier != task.Owner || got.Body != "x" {
		t.Errorf("%+v %v", got, err)
	}
	key := mustKey(t, r.key, "ab") // read again without a scan in between
	if got, err := r.Read("task-a"); err != nil || got.Tier != task.Guest {
		t.Errorf("unsigned beside a key: %+v %v", got, err)
	}
	r.put("task-a.txt", string(task.Stamp(mid, key)))
	if got, err := r.Read("task-a"); err != nil || got.Tier != task.Owner || got.Verdict != task.Verified {
		t.Errorf("signed: %+v %v", got, err)
	}
	r.put("task-b.txt", "")
	if got, err := r.Read("task-b"); !isRejection(err, reason.NoTask) || got.ID != "task-b" {
		t.Errorf("empty: %+v %v", got, err)
	}
	if _, err := r.Read("task-none"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing: %v", err)
	}
	for _, id := range []string{"../key", "..", "", "a/b", "task-a.claimed-x"} {
		if _, err := r.Read(id); !isRejection(err, reason.FileNameBad) {
			t.Errorf("%q: %v", id, err)
		}
	}
	for name, err := range map[string]error{
		"task-l": os.Symlink(r.path("task-a.txt"), r.path("task-l.txt")),
		"task-f": syscall.Mkfifo(r.path("task-f.txt"), 0o644),
		"task-d": os.Mkdir(r.path("task-d.txt"), 0o755),
	} {
		if err != nil {
			t.Fatal(err)
		}
		var rejection *task.Rejection
		if _, err := r.Read(name); err == nil || errors.As(err, &rejection) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestSource_Drop(t *testing.T) {
	r := mustRig(t, nil)
	seen := make(map[string]bool)
	for range 50 {
		id := inbox.NewID()
		if seen[id] || !task.ValidID(id) || task.OtherWorkers(id) || !strings.HasPrefix(id, "task-") {
			t.Errorf("id %q", id)
		}
		seen[id] = true
	}
	if err := r.Drop("task-a", []byte(ask)); err != nil {
		t.Fatal(err)
	}
	if err := r.Drop("task-a", []byte("other")); !errors.Is(err, fs.ErrExist) {
		t.Errorf("second drop: %v", err)
	}
	if text, _ := os.ReadFile(r.path("task-a.txt")); string(text) != ask {
		t.Errorf("file = %q", text)
	}
	if err := r.Drop("../x", nil); !isRejection(err, reason.FileNameBad) {
		t.Errorf("bad id: %v", err)
	}
	if entries, _ := os.ReadDir(r.dir); len(entries) != 1 {
		t.Errorf("left behind: %v", entries)
	}
}

func TestNew(t *testing.T) {
	dir := t.TempDir()
	for name, opts := range map[string]inbox.Options{
		"no directory":    {},
		"negative rescan": {Dir: dir, Rescan: -1},
		"negative settle": {Dir: dir, Settle: -1},
		"too much":        {Dir: dir, MaxBytes: task.MaxBytes + 1},
		"negative size":   {Dir: dir, MaxBytes: -1},
		"unknown policy":  {Dir: dir, Policy: "trust"},
	} {
		if _, err := inbox.New(opts); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	fifo := filepath.Join(dir, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, key := range map[string]string{"fifo": fifo, "directory": dir} {
		s, err := inbox.New(inbox.Options{Dir: dir, KeyFile: key})
		if err != nil || s.Policy() != task.PolicyLayout {
			t.Errorf("key is a %s: policy %v %v, want layout", name, s.Policy(), err)
		}
	}
	s, err := inbox.New(inbox.Options{Dir: dir, Policy: task.PolicyStrict})
	if err != nil || s.Policy() != task.PolicyStrict {
		t.Errorf("strict: %v %v", s.Policy(), err)
	}
}

func TestServe_OnceAtATimeAndAgain(t *testing.T) {
	r := mustRig(t, nil)
	r.put("task-a.txt", ask)
	stop := r.serve()
	r.await("found task-a owner")
	r.await("listed 1")
	if err := r.Serve(context.Background(), r.emit); err == nil {
		t.Error("served twice at a time")
	}
	stop()
	r.serve()
	r.await("found task-a owner")
}

// With real notifications and no rescan in sight.
func TestServe_Notifications(t *testing.T) {
	r := mustRig(t, func(o *inbox.Options) { o.Rescan, o.Settle = time.Hour, 20*time.Millisecond })
	r.serve()
	r.await("listed 0")
	r.rename("task-a.txt", ask)
	r.await("found task-a owner")
	if err := r.Drop("task-b", []byte(ask)); err != nil {
		t.Fatal(err)
	}
	r.await("found task-b owner")
	r.put("task-c.txt", "")
	r.await("rejected task-c no_task")
	r.put("task-c.txt", ask)
	r.await("found task-c owner")
	r.remove("task-a.txt")
	r.await("gone task-a")
	// The directory is replaced under its name: the old watch is worthless.
	if err := os.Rename(r.dir, r.dir+"-old"); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(r.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	r.await("listed 0")
	r.rename("task-d.txt", ask)
	r.await("found task-d owner")
	if n := r.log.count("polling instead"); n != 0 {
		t.Errorf("fell back to polling:\n%s", r.log)
	}
}

func TestServe_LostNotifications(t *testing.T) {
	for name, lose := range map[string]func(chan<- fsnotify.Event, chan<- error){
		"overflow":     func(_ chan<- fsnotify.Event, errs chan<- error) { errs <- fsnotify.ErrEventOverflow },
		"events ended": func(events chan<- fsnotify.Event, _ chan<- error) { close(events) },
		"errors ended": func(_ chan<- fsnotify.Event, errs chan<- error) { close(errs) },
		"end in a batch": func(events chan<- fsnotify.Event, _ chan<- error) {
			events <- fsnotify.Event{Name: "other.txt"}
			close(events)
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := mustRig(t, func(o *inbox.Options) { o.Rescan = time.Hour })
			events, errs := make(chan fsnotify.Event, 2), make(chan error, 2)
			r.TestOnlyWatch(func(string) (<-chan fsnotify.Event, <-chan error, error) { return events, errs, nil })
			stop := r.serve()
			r.await("listed 0")
			r.rename("task-a.txt", ask) // nobody says so
			lose(events, errs)
			r.await("found task-a owner")
			stop()
		})
	}
}

func TestServe_NoWatch(t *testing.T) {
	bubble(t, nil, func(r *rig, step func(time.Duration)) {
		var works atomic.Bool
		events := make(chan fsnotify.Event)
		r.TestOnlyWatch(func(string) (<-chan fsnotify.Event, <-chan error, error) {
			if works.Load() {
				return events, nil, nil
			}
			return nil, nil, errors.New("too many open files")
		})
		step(second)
		r.put("task-a.txt", ask)
		step(3 * second) // far below Rescan
		r.expect("polled", "found task-a owner")
		step(time.Hour)
		if n := r.log.count("polling instead"); n != 1 {
			t.Errorf("logged %d times:\n%s", n, r.log)
		}
		works.Store(true)
		step(time.Minute)
		if n := r.log.count("watching the tasks directory again"); n != 1 {
			t.Errorf("logged %d times:\n%s", n, r.log)
		}
		r.put("task-b.txt", ask)
		step(3 * second)
		r.expect("no polling any more")
		events <- fsnotify.Event{Name: r.path("task-b.txt"), Op: fsnotify.Create}
		step(0)
		r.expect("told", "found task-b owner")
		r.put("task-c.txt", ask)
		step(inbox.DefaultRescan + second)
		r.expect("the rescan finds what nobody told", "found task-c owner")
	})
}

// How long a full scan of ten thousand waiting files takes, when all are new
// and when none changed.
func BenchmarkServe_TenThousand(b *testing.B) {
	r := mustRig(b, func(o *inbox.Options) { o.Rescan = time.Millisecond })
	for i := range 10_000 {
		r.put(fmt.Sprintf("task-%d.txt", i), ask)
	}
	b.ResetTimer()
	for b.Loop() {
		ctx, cancel := context.WithCancel(context.Background())
		var began, first time.Time
		began = time.Now()
		err := r.Serve(ctx, func(e inbox.Event) {
			if _, ok := e.(inbox.Listed); !ok {
				return
			}
			if first.IsZero() {
				first = time.Now()
				b.ReportMetric(float64(first.Sub(began).Milliseconds()), "ms/first")
				return
			}
			b.ReportMetric(float64(time.Since(first).Milliseconds()), "ms/again")
			cancel()
		})
		if err != nil {
			b.Fatal(err)
		}
	}
}
