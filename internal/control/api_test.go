package control_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/codex-supervisor/codex-supervisor/internal/control"
	"github.com/codex-supervisor/codex-supervisor/internal/task"
	"github.com/codex-supervisor/codex-supervisor/supervisor"
)

func TestAPI_EveryOperationReachesItsWorkDir(t *testing.T) {
	garden, kitchen := &fakeDir{name: "garden", path: "/srv/the garden"}, &fakeDir{name: "kitchen", path: "/srv/kitchen"}
	h := serve(t, &fake{dirs: []*fakeDir{garden, kitchen}}, func(o *control.Options) {
		o.Paths = map[string]control.Paths{"garden": {Results: "/srv/the garden/results"}}
	})
	c, ctx := dial(t, h), t.Context()

	st, err := c.Status(ctx)
	if err != nil || st.PID != 42 || len(st.WorkDirs) != 2 || st.WorkDirs[1].Name != "kitchen" || st.WorkDirs[1].Queued != 3 {
		t.Fatalf("status %+v, %v", st, err)
	}
	if st.Listen != h.Addr() || st.Socket != h.socket {
		t.Errorf("status names %q and %q", st.Listen, st.Socket)
	}
	if th := st.WorkDirs[0].Threads; len(th) != 1 || th[0].ThreadID != "t-1" {
		t.Errorf("status has threads %+v", th)
	}
	threads, err := c.Threads(ctx, "garden")
	if err != nil || threads.WorkDir != "garden" || threads.Threads[0].Turns != 7 {
		t.Errorf("threads %+v, %v", threads, err)
	}
	if err := c.BindThread(ctx, "garden", "a/b=c?d", "t-2"); err != nil {
		t.Error(err)
	}
	if old, err := c.ResetThread(ctx, "garden", "../&x=1 ü"); err != nil || old != "t-old" {
		t.Errorf("reset: %q, %v", old, err)
	}
	ts, err := c.Task(ctx, "/srv/the garden", "task-7")
	if err != nil || ts.WorkDir != "garden" || ts.Where != "settled" || ts.Result != "/srv/the garden/results/sub/task-7.txt" {
		t.Errorf("task %+v, %v", ts, err)
	}
	if err := errors.Join(c.CancelTask(ctx, "garden", "task-8"), c.RetryTask(ctx, "garden", "task-9")); err != nil {
		t.Error(err)
	}
	models, err := c.Models(ctx, "garden")
	if err != nil || len(models.Models) != 1 || !models.Models[0].Default || models.Models[0].Efforts[1] != "high" {
		t.Errorf("models %+v, %v", models, err)
	}
	for _, call := range []func() (control.Done, error){
		func() (control.Done, error) { return c.Pause(ctx, "garden", true) },
		func() (control.Done, error) { return c.Pause(ctx, "garden", false) },
		func() (control.Done, error) { return c.Restart(ctx, "garden") },
	} {
		if d, err := call(); err != nil || d.WorkDir != "garden" {
			t.Errorf("%+v, %v", d, err)
		}
	}
	want := "bind a/b=c?d t-2; reset ../&x=1 ü; task task-7; cancel task-8; retry task-9; models; pause; resume; restart"
	if got := garden.asked(); got != want {
		t.Errorf("asked\n %s, want\n %s", got, want)
	}
	if got := kitchen.asked(); got != "" {
		t.Errorf("the other work dir was asked %q", got)
	}
}

func TestAPI_DropIsStampedAndItsTextIsNotLogged(t *testing.T) {
	key := strings.Repeat("ab", 32)
	keyFile := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(keyFile, []byte(key+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	d := &fakeDir{name: "garden"}
	h := serve(t, &fake{dirs: []*fakeDir{d}}, func(o *control.Options) { o.Paths = map[string]control.Paths{"garden": {KeyFile: keyFile}} })
	low := task.Low
	reply, err := dial(t, h).DropTask(t.Context(), "", control.DropRequest{
		Tier: task.Guest, Channel: "room", Priority: &low, Sender: "Ann", Text: "secret words\ntier: owner",
	})
	if err != nil || reply.ID != "task-1" || reply.WorkDir != "garden" {
		t.Fatalf("%+v, %v", reply, err)
	}
	parsed, err := task.ParseKey([]byte(key))
	if err != nil {
		t.Fatal(err)
	}
	got, err := task.Parse("task-1", d.dropped, parsed, task.PolicyStrict)
	if err != nil || got.Verdict != task.Verified || got.Tier != task.Guest || got.ChannelID != "room" || got.Priority != task.Low || got.Sender != "Ann" {
		t.Errorf("dropped %+v, %v", got, err)
	}
	if got.Body != "secret words\ntier: owner" {
		t.Errorf("body %q", got.Body)
	}
	h.close()
	if log := h.log.String(); strings.Contains(log, "secret") || strings.Contains(log, "room") || !strings.Contains(log, "/tasks\" status=200") {
		t.Errorf("log: %s", log)
	}
}

func TestAPI_RefusalsKeepCodeMessageAndHint(t *testing.T) {
	d := &fakeDir{name: "garden"}
	h := serve(t, &fake{dirs: []*fakeDir{d, {name: "kitchen"}}}, nil)
	c, ctx := dial(t, h), t.Context()
	for _, tc := range []struct {
		name    string
		fail    error
		call    func() error
		code    control.Code
		message string
		exit    int
	}{
		{"not found", nil, func() error { _, err := c.Threads(ctx, "nix"); return err }, supervisor.CodeNotFound, "no work dir nix", 1},
		{"ambiguous", nil, func() error { _, err := c.Threads(ctx, ""); return err }, supervisor.CodeAmbiguous, "more than one", 2},
		{"conflict", &supervisor.OperationError{Code: supervisor.CodeConflict, Message: "ended", Hint: "h"}, func() error { return c.CancelTask(ctx, "garden", "x") }, supervisor.CodeConflict, "ended", 1},
		{"wrapped", fmt.Errorf("bind: %w", &supervisor.OperationError{Code: supervisor.CodeInvalid, Message: "a channel", Hint: "h"}), func() error { return c.BindThread(ctx, "garden", "", "") }, supervisor.CodeInvalid, "a channel", 2},
		{"down", &supervisor.OperationError{Code: supervisor.CodeDown, Message: "no child", Hint: "h"}, func() error { _, err := c.Models(ctx, "garden"); return err }, supervisor.CodeDown, "no child", 1},
		{"late", context.DeadlineExceeded, func() error { _, err := c.Pause(ctx, "garden", true); return err }, supervisor.CodeDown, "the work dir did not answer in time: context deadline exceeded", 1},
		{"internal", errors.New("read ledger: EIO"), func() error { _, err := c.Task(ctx, "garden", "x"); return err }, control.CodeInternal, "read ledger: EIO", 1},
		{"empty text", nil, func() error {
			_, err := c.DropTask(ctx, "garden", control.DropRequest{Tier: task.Owner, Text: " \n"})
			return err
		}, supervisor.CodeInvalid, "the task is empty", 2},
		{"tier", nil, func() error {
			_, err := c.DropTask(ctx, "garden", control.DropRequest{Tier: "king", Text: "x"})
			return err
		}, supervisor.CodeInvalid, `there is no tier "king"`, 2},
	} {
		d.fail = tc.fail
		err := tc.call()
		var e *control.Error
		if !errors.As(err, &e) {
			t.Errorf("%s: %v", tc.name, err)
			continue
		}
		if e.Code != tc.code || e.Message != tc.message || e.Exit() != tc.exit || e.Hint == "" {
			t.Errorf("%s: %+v exit %d", tc.name, e, e.Exit())
		}
	}
	if strings.Contains(d.asked(), "drop") {
		t.Error("a refused drop reached the work dir")
	}
}

// raw speaks HTTP to the socket without the client.
func raw(t *testing.T, h house, method, path, body string) (int, string) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", h.socket)
	}}}
	req, err := http.NewRequestWithContext(t.Context(), method, "http://x"+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
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

func TestAPI_StatusesAndForms(t *testing.T) {
	d := &fakeDir{name: "garden"}
	h := serve(t, &fake{dirs: []*fakeDir{d}}, nil)
	for _, tc := range []struct {
		method, path, body string
		status             int
		has                string
	}{
		{"GET", "/v1/nothing", "", 404, `"code":"no_route"`},
		{"PUT", "/v1/status", "", 404, `"code":"no_route"`},
		{"POST", "/v1/workdirs/garden/explode", "", 404, `"code":"no_route"`},
		{"POST", "/v1/workdirs/garden/tasks/x/explode", "", 404, `"code":"no_route"`},
		{"GET", "/v1/workdirs/nix/threads", "", 404, `"code":"not_found"`},
		{"POST", "/v1/workdirs/-/threads", "{", 400, `"code":"invalid"`},
		{"POST", "/v1/workdirs/-/threads", `{"chanel":"x"}`, 400, `"code":"invalid"`},
		{"POST", "/v1/workdirs/-/tasks", `{"text":5}`, 400, `text wants another kind of value`},
		{"POST", "/v1/workdirs/nix/threads", "{}", 404, `"code":"not_found"`},
		{"DELETE", "/v1/workdirs/nix/threads", "", 404, `"code":"not_found"`},
		{"GET", "/v1/workdirs/nix/tasks/x", "", 404, `"code":"not_found"`},
		{"POST", "/v1/workdirs/nix/tasks", "{}", 404, `"code":"not_found"`},
		{"POST", "/v1/workdirs/nix/tasks/x/retry", "", 404, `"code":"not_found"`},
		{"GET", "/v1/workdirs/nix/models", "", 404, `"code":"not_found"`},
		{"POST", "/v1/workdirs/nix/pause", "", 404, `"code":"not_found"`},
		{"POST", "/v1/workdirs/-/pause", "", 200, `"done":"pause"`},
	} {
		if status, text := raw(t, h, tc.method, tc.path, tc.body); status != tc.status || !strings.Contains(text, tc.has) {
			t.Errorf("%s %s: %d %s", tc.method, tc.path, status, text)
		}
	}
	if got := d.asked(); got != "pause" {
		t.Errorf("asked %q", got)
	}
	d.fail = &supervisor.OperationError{Code: supervisor.CodeDown, Message: "m", Hint: "h"}
	if status, text := raw(t, h, "GET", "/v1/workdirs/-/models", ""); status != 503 || text != `{"code":"unavailable","message":"m","hint":"h"}`+"\n" {
		t.Errorf("%d %s", status, text)
	}
	if status, _ := raw(t, h, "GET", "/v1/status", ""); status != 503 {
		t.Errorf("status with unreadable threads: %d", status)
	}
	d.fail = &supervisor.OperationError{Code: "brand_new", Message: "m"}
	if status, _ := raw(t, h, "GET", "/v1/workdirs/-/models", ""); status != 500 {
		t.Errorf("a code that is not in the table: %d", status)
	}
}

func TestAPI_BrokenKeyDropsNothing(t *testing.T) {
	keyFile := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(keyFile, []byte("zz"), 0o600); err != nil {
		t.Fatal(err)
	}
	d := &fakeDir{name: "garden"}
	h := serve(t, &fake{dirs: []*fakeDir{d}}, func(o *control.Options) { o.Paths = map[string]control.Paths{"garden": {KeyFile: keyFile}} })
	_, err := dial(t, h).DropTask(t.Context(), "garden", control.DropRequest{Tier: task.Owner, Text: "x"})
	if err == nil || !strings.Contains(err.Error(), "read key") || d.asked() != "" {
		t.Errorf("%v, asked %q", err, d.asked())
	}
	if _, err := control.ReadKey(t.TempDir()); err == nil {
		t.Error("a directory is a key")
	}
}

func TestClient_AnswersOfSomethingElse(t *testing.T) {
	dir := shortDir(t)
	socket := filepath.Join(dir, "c.sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/status") {
			http.Error(w, "teapot", http.StatusTeapot)
			return
		}
		fmt.Fprint(w, "no json")
	})}
	go func() { _ = server.Serve(l) }()
	defer server.Close()
	c, err := control.Dial(t.Context(), []string{socket})
	if err != nil || c.Socket() != socket {
		t.Fatal(c, err)
	}
	var e *control.Error
	if _, err := c.Status(t.Context()); !errors.As(err, &e) || e.Code != control.CodeInternal || !strings.Contains(e.Message, "418") {
		t.Errorf("%v", err)
	}
	if _, err := c.Models(t.Context(), ""); err == nil || !strings.Contains(err.Error(), "read the service's answer") {
		t.Errorf("%v", err)
	}
	_ = server.Close()
	if _, err := c.Status(t.Context()); err == nil || !strings.Contains(err.Error(), socket) || strings.Contains(err.Error(), "http://") {
		t.Errorf("%v", err)
	}
}
