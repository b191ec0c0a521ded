package threads_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/codex-supervisor/codex-supervisor/internal/task"
	"github.com/codex-supervisor/codex-supervisor/rpc"
	"github.com/codex-supervisor/codex-supervisor/store"
	"github.com/codex-supervisor/codex-supervisor/threads"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// client is a fake app-server. Without a function it starts threads named t1,
// t2, ... and resumes whatever it is asked for.
type client struct {
	StartFn       func(rpc.ThreadStartParams) (rpc.ThreadReply, error)
	ResumeFn      func(rpc.ThreadResumeParams) (rpc.ThreadReply, error)
	ReadFn        func(threadID string) (rpc.ThreadReadReply, error)
	UnsubscribeFn func(ctx context.Context, threadID string) error
	TurnsFn       func(rpc.ThreadTurnsListParams) (rpc.ThreadTurnsListReply, error)

	mu      sync.Mutex
	started int
	calls   []string
}

func (c *client) called(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls = append(c.calls, fmt.Sprintf(format, args...))
}

// take returns the calls since it was last asked.
func (c *client) take() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	calls := c.calls
	c.calls = nil
	return calls
}

func reply(id string) rpc.ThreadReply { return rpc.ThreadReply{Thread: rpc.Thread{ID: id}} }

func (c *client) ThreadStart(_ context.Context, p rpc.ThreadStartParams) (rpc.ThreadReply, error) {
	if p.Ephemeral {
		c.called("start ephemeral %s", p.Model)
	} else {
		c.called("start %s", p.Model)
	}
	if c.StartFn != nil {
		return c.StartFn(p)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.started++
	return reply(fmt.Sprint("t", c.started)), nil
}

func (c *client) ThreadResume(_ context.Context, p rpc.ThreadResumeParams) (rpc.ThreadReply, error) {
	c.called("resume %s %s %t", p.ThreadID, p.Model, p.ExcludeTurns)
	if c.ResumeFn != nil {
		return c.ResumeFn(p)
	}
	return reply(p.ThreadID), nil
}

func (c *client) ThreadRead(_ context.Context, p rpc.ThreadReadParams) (rpc.ThreadReadReply, error) {
	c.called("read %s", p.ThreadID)
	if c.ReadFn != nil {
		return c.ReadFn(p.ThreadID)
	}
	return rpc.ThreadReadReply{Thread: rpc.Thread{ID: p.ThreadID, Status: rpc.ThreadStatus{Type: rpc.ThreadIdle}}}, nil
}

func (c *client) ThreadUnsubscribe(ctx context.Context, p rpc.ThreadUnsubscribeParams) (rpc.ThreadUnsubscribeReply, error) {
	c.called("unsubscribe %s", p.ThreadID)
	if c.UnsubscribeFn != nil {
		return rpc.ThreadUnsubscribeReply{}, c.UnsubscribeFn(ctx, p.ThreadID)
	}
	return rpc.ThreadUnsubscribeReply{Status: "unsubscribed"}, nil
}

func (c *client) ThreadTurnsList(_ context.Context, p rpc.ThreadTurnsListParams) (rpc.ThreadTurnsListReply, error) {
	c.called("turns %s %d %s", p.Cursor, p.Limit, p.ItemsView)
	return c.TurnsFn(p)
}

// What the app-server says (codex 0.171.0, measured).
var (
	errNoRollout  = &rpc.Error{Method: "thread/resume", Code: rpc.CodeInvalidRequest, Message: "no rollout found for thread id t1"}
	errArchived   = &rpc.Error{Method: "thread/resume", Code: rpc.CodeInvalidRequest, Message: "session t1 is archived. Run `codex unarchive t1` to unarchive it first."}
	errUnreadable = &rpc.Error{Method: "thread/resume", Code: rpc.CodeInternal, Message: "failed to read thread: thread-store internal error: failed to read session metadata"}
	errNotLoaded  = &rpc.Error{Method: "thread/turns/list", Code: rpc.CodeInvalidRequest, Message: "thread not loaded: t1"}
	errRemoved    = &rpc.Error{Method: "thread/turns/list", Code: rpc.CodeInvalidRequest, Message: "invalid paginated history lineage for t1: missing source rollout"}
	errInvalid    = &rpc.Error{Method: "thread/resume", Code: rpc.CodeInvalidRequest, Message: "invalid session id"}
	errLocked     = &rpc.Error{Method: "thread/resume", Code: rpc.CodeInvalidRequest, Message: "thread t1 already has an active writer"}
	errNoTurns    = &rpc.Error{Method: "thread/turns/list", Code: rpc.CodeMethodNotFound, Message: "list_turns is not supported yet"}
	errOther      = &rpc.Error{Method: "thread/resume", Code: rpc.CodeInternal, Message: "something new"}
	errPipe       = &rpc.ConnectionError{Reason: rpc.EndOutputClosed}
)

// house is a Threads on a store of its own, with one session.
type house struct {
	*threads.Threads
	tb      testing.TB
	db      *store.DB
	client  *client
	session *threads.Session
}

func newHouse(tb testing.TB) *house {
	tb.Helper()
	db, err := store.Open(filepath.Join(tb.TempDir(), "ledger.db"), store.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = db.Close() })
	h := &house{Threads: threads.New(threads.Options{Store: db}), tb: tb, db: db, client: &client{}}
	h.session = h.NewSession(h.client, 7)
	return h
}

// nextGeneration begins a session in which nothing is loaded.
func (h *house) nextGeneration() { h.session = h.NewSession(h.client, 8) }

func owners() threads.Request {
	return threads.Request{
		Key: "key", Name: "room", Durable: true,
		Start:  rpc.ThreadStartParams{Model: "policy", Ephemeral: true},
		Resume: func(string) rpc.ThreadResumeParams { return rpc.ThreadResumeParams{Model: "policy"} },
		Check:  func(rpc.ThreadReply) error { return nil },
	}
}

func guests() threads.Request {
	return threads.Request{
		Key: "key", Name: "room", TaskID: "task-9", Tier: task.Guest,
		Start: rpc.ThreadStartParams{Model: "policy"},
		Check: func(rpc.ThreadReply) error { return nil },
	}
}

func (h *house) open(r threads.Request) (threads.Opened, error) {
	return h.Open(h.tb.Context(), h.session, r)
}

func (h *house) mustOpen(r threads.Request) threads.Opened {
	h.tb.Helper()
	o, err := h.open(r)
	if err != nil {
		h.tb.Fatal(err)
	}
	return o
}

func (h *house) acknowledge(o threads.Opened) {
	h.tb.Helper()
	h.check(h.Acknowledge(h.session, "key", "room", o))
}

func (h *house) check(err error) {
	h.tb.Helper()
	if err != nil {
		h.tb.Fatal(err)
	}
}

// owner is the channel's durable thread on record; the zero Thread when none is.
func (h *house) owner() store.Thread {
	h.tb.Helper()
	c, _, err := h.db.Channel("key")
	h.check(err)
	if c.Owner == nil {
		return store.Thread{}
	}
	return *c.Owner
}

// saved puts a thread on record as an earlier run would have.
func (h *house) saved(t store.Thread) {
	h.tb.Helper()
	h.check(h.db.SaveOwner("key", "room", t))
}

var errMismatch = errors.New("the policy is another")
