package control_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/codex-supervisor/codex-supervisor/internal/control"
	"github.com/codex-supervisor/codex-supervisor/supervisor"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake is a house with the work dirs it is given; it notes what was asked.
type fake struct {
	dirs     []*fakeDir
	problems []string
	degraded bool
}

func (f *fake) Status() supervisor.Status {
	st := supervisor.Status{Version: "v9", PID: 42, Started: time.Unix(1000, 0)}
	for _, d := range f.dirs {
		st.WorkDirs = append(st.WorkDirs, supervisor.WorkDirStatus{Name: d.name, Path: d.path, Queued: 3, Child: supervisor.ChildStatus{State: supervisor.ChildReady}})
	}
	return st
}

func (f *fake) Ready() (bool, []string) { return len(f.problems) == 0 || f.degraded, f.problems }

func (f *fake) Dir(name string) (control.WorkDir, error) {
	if name == "" && len(f.dirs) == 1 {
		return f.dirs[0], nil
	}
	for _, d := range f.dirs {
		if name != "" && (d.name == name || d.path == name) {
			return d, nil
		}
	}
	if name == "" {
		return nil, &supervisor.OperationError{Code: supervisor.CodeAmbiguous, Message: "more than one", Hint: "name one"}
	}
	return nil, &supervisor.OperationError{Code: supervisor.CodeNotFound, Message: "no work dir " + name, Hint: "look"}
}

type fakeDir struct {
	name, path string
	mu         sync.Mutex
	calls      []string
	dropped    []byte
	fail       error
}

func (d *fakeDir) note(words ...string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.calls = append(d.calls, strings.Join(words, " "))
	return d.fail
}

func (d *fakeDir) asked() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return strings.Join(d.calls, "; ")
}

func (d *fakeDir) Name() string { return d.name }

func (d *fakeDir) Threads() ([]supervisor.ThreadStatus, error) {
	return []supervisor.ThreadStatus{{Channel: "garden", Key: "23eeb69c", ThreadID: "t-1", Turns: 7}}, d.fail
}

func (d *fakeDir) BindThread(channel, thread string) error { return d.note("bind", channel, thread) }

func (d *fakeDir) ResetThread(channel string) (string, error) {
	return "t-old", d.note("reset", channel)
}

func (d *fakeDir) Task(_ context.Context, id string) (supervisor.TaskStatus, error) {
	return supervisor.TaskStatus{ID: id, WorkDir: d.name, Where: "settled", Result: "sub/" + id + ".txt"}, d.note("task", id)
}

func (d *fakeDir) DropTask(raw func(string) []byte) (string, error) {
	d.mu.Lock()
	d.dropped = raw("task-1")
	d.mu.Unlock()
	return "task-1", d.note("drop")
}

func (d *fakeDir) CancelTask(_ context.Context, id string) error { return d.note("cancel", id) }

func (d *fakeDir) RetryTask(_ context.Context, id string) error { return d.note("retry", id) }

func (d *fakeDir) Models(context.Context) ([]control.Model, error) {
	return []control.Model{{ID: "m", Model: "gpt", Default: true, Efforts: []string{"low", "high"}}}, d.note("models")
}

func (d *fakeDir) Pause(_ context.Context, paused bool) error {
	if paused {
		return d.note("pause")
	}
	return d.note("resume")
}

func (d *fakeDir) Restart() { _ = d.note("restart") }

// shortDir is a directory whose name leaves room for a socket's.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "cs")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// house is a served fake.
type house struct {
	*control.Server
	socket string
	log    *strings.Builder
	close  func()
}

func serve(t *testing.T, backend control.Backend, change func(*control.Options)) house {
	t.Helper()
	registry := prometheus.NewRegistry()
	up := prometheus.NewGauge(prometheus.GaugeOpts{Name: "test_up", Help: "Is up."})
	up.Set(3)
	registry.MustRegister(up)
	log := &strings.Builder{}
	opt := control.Options{
		Backend: backend, Socket: filepath.Join(shortDir(t), "own", "c.sock"), Listen: "127.0.0.1:0", Gatherer: registry,
		Logger: slog.New(slog.NewTextHandler(log, nil)),
	}
	if change != nil {
		change(&opt)
	}
	s, err := control.Open(opt)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx) }()
	stop := sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	t.Cleanup(stop)
	return house{Server: s, socket: opt.Socket, log: log, close: stop}
}

func dial(t *testing.T, h house) *control.Client {
	t.Helper()
	c, err := control.Dial(t.Context(), []string{filepath.Join(filepath.Dir(h.socket), "none.sock"), h.socket})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func get(t *testing.T, url, host string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if host != "" {
		req.Host = host
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	reply, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer reply.Body.Close()
	text, err := io.ReadAll(reply.Body)
	if err != nil {
		t.Fatal(err)
	}
	return reply.StatusCode, string(text)
}
