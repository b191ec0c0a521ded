package threads_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/codex-supervisor/codex-supervisor/rpc"
	"github.com/codex-supervisor/codex-supervisor/store"
	"github.com/codex-supervisor/codex-supervisor/stubserver/model"
	"github.com/codex-supervisor/codex-supervisor/threads"
)

// codexHome is a CODEX_HOME whose model answers on loopback.
func codexHome(t *testing.T) string {
	t.Helper()
	if os.Getenv("CODEX_BINARY") == "" {
		t.Skip("CODEX_BINARY is not set: the real codex was not exercised")
	}
	srv, err := model.New(model.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = srv.Close() })
	home := t.TempDir()
	if err := os.WriteFile(filepath.Join(home, "config.toml"), []byte(srv.ConfigTOML()), 0o600); err != nil {
		t.Fatal(err)
	}
	return home
}

// codex is one app-server process.
type codex struct {
	*rpc.Client
	t       *testing.T
	pid     int
	notes   chan rpc.Notification
	session *threads.Session
	end     func(kill bool)
}

// startCodex starts the app-server as a generation of the house.
func startCodex(t *testing.T, h *house, home string, generation uint64) *codex {
	t.Helper()
	in, ourIn, err := os.Pipe()
	h.check(err)
	ourOut, out, err := os.Pipe()
	h.check(err)
	cmd := exec.Command(os.Getenv("CODEX_BINARY"), "app-server", "-c", "features.plugins=false", "-c", "features.apps=false",
		"-c", "features.shell_snapshot=false", "-c", "allow_login_shell=false", "-c", "thread_unload_delay_secs=1")
	cmd.Env = []string{"HOME=" + home, "CODEX_HOME=" + home, "PATH=" + os.Getenv("PATH")}
	cmd.Stdin, cmd.Stdout = in, out
	h.check(cmd.Start())
	_, _ = in.Close(), out.Close()
	c := &codex{t: t, pid: cmd.Process.Pid, notes: make(chan rpc.Notification, 10_000)}
	c.Client = rpc.New(rpc.Options{In: ourIn, Out: ourOut, OnNotification: func(n rpc.Notification) {
		if n.Method == rpc.NoteThreadClosed {
			c.session.Closed(n.ThreadID)
		}
		c.notes <- n
	}})
	c.session = h.NewSession(c, generation)
	served := make(chan error, 1)
	go func() { served <- c.Serve(context.Background()) }() // waited for in end
	var once sync.Once
	c.end = func(kill bool) {
		once.Do(func() {
			if kill {
				_ = cmd.Process.Kill()
			}
			_ = ourIn.Close()
			late := time.AfterFunc(10*time.Second, func() { _ = cmd.Process.Kill() })
			defer late.Stop()
			_ = cmd.Wait()
			<-served
		})
	}
	t.Cleanup(func() { c.end(true) })
	_, err = c.Initialize(t.Context(), rpc.InitializeParams{ClientInfo: rpc.ClientInfo{Name: "threads-test", Version: "0"}})
	h.check(err)
	return c
}

// until waits for a notification about a thread.
func (c *codex) until(method, threadID string) {
	c.t.Helper()
	for deadline := time.After(30 * time.Second); ; {
		select {
		case n := <-c.notes:
			if n.Method == method && n.ThreadID == threadID {
				return
			}
		case <-deadline:
			c.t.Fatalf("no %s of thread %s", method, threadID)
		}
	}
}

// begin starts a turn and waits until it runs.
func (c *codex) begin(threadID, clientID, text string) {
	c.t.Helper()
	_, err := c.TurnStart(c.t.Context(), rpc.TurnStartParams{
		ThreadID: threadID, ClientUserMessageID: clientID, Input: []rpc.UserInput{{Type: rpc.InputText, Text: text}},
	})
	if err != nil {
		c.t.Fatal(err)
	}
	c.until(rpc.NoteTurnStarted, threadID)
}

// turn runs a turn to its end.
func (c *codex) turn(threadID, clientID, text string) {
	c.t.Helper()
	c.begin(threadID, clientID, text)
	c.until(rpc.NoteTurnCompleted, threadID)
}

// readOnly is a request of the real thing, with a check of what came of it.
func readOnly(home string, durable bool) threads.Request {
	return threads.Request{
		Key: "key", Name: "room", Durable: durable,
		Start: rpc.ThreadStartParams{Cwd: home, ApprovalPolicy: "never", Sandbox: "read-only"},
		Resume: func(string) rpc.ThreadResumeParams {
			return rpc.ThreadResumeParams{Cwd: home, ApprovalPolicy: "never", Sandbox: "read-only"}
		},
		Check: func(r rpc.ThreadReply) error {
			if r.Sandbox.Type != "readOnly" || r.Thread.Ephemeral == durable || len(r.Thread.Turns) != 0 {
				return errMismatch
			}
			return nil
		},
	}
}

func (h *house) openOn(c *codex, r threads.Request) threads.Opened {
	h.tb.Helper()
	o, err := h.Open(h.tb.Context(), c.session, r)
	if err != nil {
		h.tb.Fatal(err)
	}
	return o
}

func (h *house) findOn(c *codex, threadID, clientID string) threads.Found {
	h.tb.Helper()
	f, err := h.Find(h.tb.Context(), c, threadID, clientID)
	if err != nil {
		h.tb.Fatal(err)
	}
	return f
}

// TestCodex_OwnerThread: a room's thread through a holder that is alive, one
// that was killed in the middle of a turn, and the loss of its file.
func TestCodex_OwnerThread(t *testing.T) {
	home := codexHome(t)
	h := newHouse(t)
	h.Threads = threads.New(threads.Options{Store: h.db, LockWait: 300 * time.Millisecond, CodexHome: func() string { return home }})
	first := startCodex(t, h, home, 1)
	request := readOnly(home, true)

	opened := h.openOn(first, request)
	id := opened.ID
	if f := h.findOn(first, id, "task-1/1"); f.State != threads.NeverStored {
		t.Errorf("a loaded thread without a turn: %+v", f)
	}
	first.turn(id, "task-1/1", "[[remember plum]]")
	h.check(h.Acknowledge(first.session, "key", "room", opened))
	first.turn(id, "task-2/1", "[[commentary]] [[reply the answer]]")
	for i := range 6 {
		first.turn(id, "other/"+string(rune('a'+i)), "hello")
	}

	// Another process, while the first one lives.
	second := startCodex(t, h, home, 2)
	if f := h.findOn(second, id, "task-2/1"); f.State != threads.Completed || f.Reply != "the answer" || f.TurnID == "" {
		t.Errorf("found from another process, a page down: %+v", f)
	}
	if f := h.findOn(second, id, "task-2/2"); f.State != threads.NeverStored {
		t.Errorf("an attempt that never was: %+v", f)
	}
	_, err := h.Open(t.Context(), second.session, request)
	lock, ok := errors.AsType[*threads.LockedError](err)
	if !ok || lock.ThreadID != id || (runtime.GOOS == "linux" && lock.HolderPID != first.pid) {
		t.Errorf("held by %d: %v", first.pid, err)
	}

	// The first is killed in the middle of a turn: the lock is free at once.
	first.begin(id, "task-3/1", "[[stall]]")
	first.until(rpc.NoteItemCompleted, id) // the user message
	first.end(true)
	if o := h.openOn(second, request); o != (threads.Opened{ID: id}) {
		t.Errorf("after the kill: %+v", o)
	}
	if f := h.findOn(second, id, "task-3/1"); f.State != threads.Interrupted || f.Reply != "" {
		t.Errorf("the cut turn: %+v", f)
	}
	second.turn(id, "task-4/1", "[[recall]]")
	if f := h.findOn(second, id, "task-4/1"); f.State != threads.Completed || !strings.Contains(f.Reply, "plum") {
		t.Errorf("the thread forgot: %+v", f)
	}

	// A dead connection never leads to a new thread.
	second.end(true)
	_, err = h.Open(t.Context(), h.NewSession(second, 3), request)
	if _, ok := errors.AsType[*rpc.ConnectionError](err); !ok || h.owner().ID != id {
		t.Errorf("on a dead connection: %v", err)
	}
	h.saved(store.Thread{ID: id, Turns: 9})
	loseRollout(t, home, id, true)
	lost := startCodex(t, h, home, 4)
	if f := h.findOn(lost, id, "task-1/1"); f.State != threads.ThreadMissing {
		t.Errorf("an emptied thread: %+v", f)
	}
	if _, err := h.Open(t.Context(), lost.session, request); rpc.FaultOf(err) != rpc.FaultThreadNotLoaded {
		t.Errorf("a damaged thread with more than a turn: %v", err)
	}
	lost.end(false)
	loseRollout(t, home, id, false)
	lost = startCodex(t, h, home, 5)
	if f := h.findOn(lost, id, "task-1/1"); f.State != threads.ThreadMissing {
		t.Errorf("a removed thread: %+v", f)
	}
	h.check(h.Bind("key", "room", id))
	if _, err := h.Open(t.Context(), lost.session, request); !isMissing(err, id) {
		t.Errorf("a bound thread that is gone: %v", err)
	}
	h.saved(store.Thread{ID: id, Turns: 9})
	if o := h.openOn(lost, request); !o.New || !o.Afresh || o.ID == id {
		t.Errorf("a thread that is gone: %+v", o)
	}
}

func isMissing(err error, id string) bool {
	missing, ok := errors.AsType[*threads.MissingError](err)
	return ok && missing.ThreadID == id
}

// loseRollout empties or removes a thread's file.
func loseRollout(t *testing.T, home, id string, keepEmpty bool) {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(home, "sessions", "*", "*", "*", "*"+id+".jsonl"))
	if err != nil || len(found) != 1 {
		t.Fatalf("rollouts: %v, %v", found, err)
	}
	if keepEmpty {
		err = os.Truncate(found[0], 0)
	} else {
		err = os.Remove(found[0])
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestCodex_FirstTurnNeverStored: a thread whose process died before its first
// turn is missing, and was saved for nothing.
func TestCodex_FirstTurnNeverStored(t *testing.T) {
	home := codexHome(t)
	h := newHouse(t)
	first := startCodex(t, h, home, 1)
	opened := h.openOn(first, readOnly(home, true))
	h.check(h.Acknowledge(first.session, "key", "room", opened))
	first.end(true)
	second := startCodex(t, h, home, 2)
	if f := h.findOn(second, opened.ID, "task-1/1"); f.State != threads.ThreadMissing {
		t.Errorf("found %+v", f)
	}
	if o := h.openOn(second, readOnly(home, true)); !o.Afresh || !o.New || o.ID == opened.ID {
		t.Errorf("opened %+v", o)
	}
	if _, err := h.Open(t.Context(), second.session, readOnlyBound(h, home, "bogus")); !isMissing(err, "bogus") {
		t.Errorf("bound to no id at all: %v", err)
	}
}

func readOnlyBound(h *house, home, thread string) threads.Request {
	h.tb.Helper()
	h.check(h.Bind("key", "room", thread))
	return readOnly(home, true)
}

// TestCodex_LetGo: idle threads are unloaded, one with a running turn is not,
// and what was unloaded is resumed when it is wanted.
func TestCodex_LetGo(t *testing.T) {
	home := codexHome(t)
	h := newHouse(t)
	c := startCodex(t, h, home, 1)
	guest := h.openOn(c, readOnly(home, false))
	if !guest.Ephemeral || !guest.New {
		t.Errorf("opened %+v", guest)
	}
	r := readOnly(home, true)
	var ids []string
	for _, key := range []string{"busy", "idle"} {
		r.Key = key
		o := h.openOn(c, r)
		c.turn(o.ID, "task/1", "hello")
		h.check(h.Acknowledge(c.session, key, "", o))
		ids = append(ids, o.ID)
	}
	c.begin(ids[0], "task/2", "[[stall]]")
	c.session.OpenedEarlier(time.Hour)
	h.check(c.session.UnsubscribeIdle(t.Context(), 0))
	c.until(rpc.NoteThreadClosed, ids[1])
	if n := c.session.Loaded(); n != 1 {
		t.Errorf("%d loaded", n)
	}
	loaded, err := c.ThreadLoadedList(t.Context(), rpc.ThreadLoadedListParams{})
	h.check(err)
	if got := strings.Join(loaded.Data, " "); !strings.Contains(got, ids[0]) || strings.Contains(got, ids[1]) {
		t.Errorf("Codex has loaded %s; busy %s, idle %s", got, ids[0], ids[1])
	}
	if _, err := c.TurnInterrupt(t.Context(), rpc.TurnInterruptParams{ThreadID: ids[0]}); err != nil {
		t.Error(err)
	}
	c.until(rpc.NoteTurnCompleted, ids[0]) // it is still heard of
	if o := h.openOn(c, r); o != (threads.Opened{ID: ids[1]}) {
		t.Errorf("opened %+v", o)
	}
	c.turn(ids[1], "task/3", "hello")
	if f := h.findOn(c, ids[1], "task/3"); f.State != threads.Completed {
		t.Errorf("found %+v", f)
	}
}
