package inbox_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fsnotify/fsnotify"
	"go.uber.org/goleak"

	"github.com/codex-supervisor/codex-supervisor/internal/inbox"
	"github.com/codex-supervisor/codex-supervisor/internal/reason"
	"github.com/codex-supervisor/codex-supervisor/internal/task"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const ask = "access_tier: owner\nchannel_id: !r\ntask: hello\n"

// rig is a Source on a temporary directory, and what it told.
type rig struct {
	*inbox.Source
	tb   testing.TB
	dir  string
	key  string
	log  *syncBuffer
	mu   sync.Mutex
	news chan struct{} // closed and replaced when something is told
	told []string
	all  []inbox.Event
}

type syncBuffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(p)
}

func (b *syncBuffer) count(s string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Count(b.String(), s)
}

func mustRig(tb testing.TB, change func(*inbox.Options)) *rig {
	tb.Helper()
	root := tb.TempDir()
	r := &rig{tb: tb, dir: filepath.Join(root, "tasks"), key: filepath.Join(root, "key"), log: new(syncBuffer)}
	if err := os.Mkdir(r.dir, 0o755); err != nil {
		tb.Fatal(err)
	}
	opts := inbox.Options{Dir: r.dir, KeyFile: r.key, Logger: slog.New(slog.NewTextHandler(r.log, nil))}
	if change != nil {
		change(&opts)
	}
	source, err := inbox.New(opts)
	if err != nil {
		tb.Fatal(err)
	}
	r.Source = source
	return r
}

// noWatch makes every watch fail, as at the inotify limit.
func (r *rig) noWatch() {
	r.TestOnlyWatch(func(string) (<-chan fsnotify.Event, <-chan error, error) {
		return nil, nil, errors.New("too many open files")
	})
}

// failOpens lets no task file be opened until heal is called.
func (r *rig) failOpens(errno syscall.Errno) (heal func()) {
	var healed atomic.Bool
	r.TestOnlyOpen(func(path string) (*os.File, error) {
		if !healed.Load() {
			return nil, &fs.PathError{Op: "open", Path: path, Err: errno}
		}
		return os.Open(path)
	})
	return func() { healed.Store(true) }
}

func describe(e inbox.Event) string {
	switch e := e.(type) {
	case inbox.Found:
		return fmt.Sprintf("found %s %s", e.ID, e.Tier)
	case inbox.Rejected:
		return fmt.Sprintf("rejected %s %s", e.ID, e.Reason)
	case inbox.Gone:
		return "gone " + e.ID
	case inbox.Listed:
		return fmt.Sprintf("listed %d", e.Count)
	default:
		return fmt.Sprintf("%T", e)
	}
}

func (r *rig) emit(e inbox.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, e)
	r.told = append(r.told, describe(e))
	if r.news != nil {
		close(r.news)
		r.news = nil
	}
}

// events returns all that was told so far.
func (r *rig) events() []inbox.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.all)
}

// last returns the last event that is no listing.
func (r *rig) last() inbox.Event {
	r.tb.Helper()
	for _, event := range slices.Backward(r.events()) {
		if _, ok := event.(inbox.Listed); !ok {
			return event
		}
	}
	r.tb.Fatal("nothing was told")
	return nil
}

// take returns what was told since the last call, without the listings.
func (r *rig) take() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	told := slices.DeleteFunc(r.told, func(s string) bool { return strings.HasPrefix(s, "listed ") })
	r.told = nil
	return told
}

func (r *rig) expect(when string, want ...string) {
	r.tb.Helper()
	if got := r.take(); !slices.Equal(got, want) {
		r.tb.Errorf("%s: told %q, want %q", when, got, want)
	}
}

// await waits until an event was told.
func (r *rig) await(want string) {
	r.tb.Helper()
	deadline := time.After(20 * time.Second)
	for {
		r.mu.Lock()
		if i := slices.Index(r.told, want); i >= 0 {
			r.told = slices.Delete(r.told, 0, i+1)
			r.mu.Unlock()
			return
		}
		told := slices.Clone(r.told)
		if r.news == nil {
			r.news = make(chan struct{})
		}
		news := r.news
		r.mu.Unlock()
		select {
		case <-news:
		case <-deadline:
			r.tb.Fatalf("never told %q, but %q", want, told)
		}
	}
}

// serve runs Serve until the test or stop ends it.
func (r *rig) serve() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Serve(ctx, r.emit) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			if err := <-done; err != nil {
				r.tb.Errorf("serve: %v", err)
			}
		})
	}
	r.tb.Cleanup(stop)
	return stop
}

func (r *rig) path(name string) string { return filepath.Join(r.dir, name) }

// put writes a file in place, as careless writers do.
func (r *rig) put(name, text string) {
	r.tb.Helper()
	if err := os.WriteFile(r.path(name), []byte(text), 0o644); err != nil {
		r.tb.Fatal(err)
	}
}

// rename puts a file in place whole, as gateways do.
func (r *rig) rename(name, text string) {
	r.tb.Helper()
	r.put(name+".tmp", text)
	if err := os.Rename(r.path(name+".tmp"), r.path(name)); err != nil {
		r.tb.Fatal(err)
	}
}

func (r *rig) remove(name string) {
	r.tb.Helper()
	if err := os.Remove(r.path(name)); err != nil {
		r.tb.Fatal(err)
	}
}

// age sets a file's modification time.
func (r *rig) age(name string, at time.Time) {
	r.tb.Helper()
	if err := os.Chtimes(r.path(name), at, at); err != nil {
		r.tb.Fatal(err)
	}
}

// bubble runs a polling Source under a fake clock. step lets time pass and
// waits until all that follows from it has happened; the first one starts
// the Source.
func bubble(t *testing.T, change func(*inbox.Options), test func(r *rig, step func(time.Duration))) {
	t.Helper()
	r := mustRig(t, change)
	r.noWatch()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		var start sync.Once
		test(r, func(d time.Duration) {
			start.Do(func() { go func() { done <- r.Serve(ctx, r.emit) }() })
			time.Sleep(d) // the bubble's clock: no time passes outside
			synctest.Wait()
		})
		cancel()
		if err := <-done; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
}

func mustKey(tb testing.TB, path string, fill string) task.Key {
	tb.Helper()
	if err := os.WriteFile(path, []byte(strings.Repeat(fill, 32)), 0o600); err != nil {
		tb.Fatal(err)
	}
	key, err := task.ParseKey([]byte(strings.Repeat(fill, 32)))
	if err != nil {
		tb.Fatal(err)
	}
	return key
}

func isRejection(err error, why reason.Reason) bool {
	var r *task.Rejection
	return errors.As(err, &r) && r.Reason == why
}
