package threads_test

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/codex-supervisor/codex-supervisor/internal/task"
	"github.com/codex-supervisor/codex-supervisor/rpc"
	"github.com/codex-supervisor/codex-supervisor/store"
	"github.com/codex-supervisor/codex-supervisor/threads"
)

// TestOpen_OwnerKeepsItsThread is the walk of an owner's channel through two
// generations.
func TestOpen_OwnerKeepsItsThread(t *testing.T) {
	h := newHouse(t)
	first := h.mustOpen(owners())
	if first != (threads.Opened{ID: "t1", New: true}) {
		t.Errorf("first: %+v", first)
	}
	if h.owner() != (store.Thread{}) {
		t.Error("a thread without a turn is on record, and could never be resumed")
	}
	h.acknowledge(first)
	if o := h.owner(); o.ID != "t1" || o.Turns != 1 || o.Generation != 7 || o.Bound || o.Created.IsZero() || o.LastUsed.Before(o.Created) {
		t.Errorf("on record: %+v", o)
	}
	if again := h.mustOpen(owners()); again != (threads.Opened{ID: "t1"}) {
		t.Errorf("second task: %+v", again)
	}
	if calls := h.client.take(); !slices.Equal(calls, []string{"start policy"}) {
		t.Errorf("a loaded thread was loaded again: %q", calls)
	}
	h.acknowledge(threads.Opened{ID: "t1"})

	h.nextGeneration()
	if resumed := h.mustOpen(owners()); resumed != (threads.Opened{ID: "t1"}) {
		t.Errorf("next generation: %+v", resumed)
	}
	h.session.Closed("t1") // Codex unloaded it
	h.mustOpen(owners())
	if calls := h.client.take(); !slices.Equal(calls, []string{"resume t1 policy true", "resume t1 policy true"}) {
		t.Errorf("calls %q", calls)
	}
	created := h.owner().Created
	h.acknowledge(threads.Opened{ID: "t1"})
	if o := h.owner(); o.Turns != 3 || o.Generation != 8 || !o.Created.Equal(created) {
		t.Errorf("on record after three turns: %+v", o)
	}
}

// TestOpen_WhatLeadsToAFreshThread: only what Codex says of the thread itself.
func TestOpen_WhatLeadsToAFreshThread(t *testing.T) {
	for _, tc := range []struct {
		name          string
		err           error
		turns         int
		afresh, bound string // why; "" = the error comes through
	}{
		{"NoRollout", errNoRollout, 9, "no stored history", "no stored history"},
		{"Archived", errArchived, 9, "archived", "archived"},
		{"UnreadableInFirstTurn", errUnreadable, 1, "never stored", "never stored"},
		{"Unreadable", errUnreadable, 2, "", ""},
		{"NotAnID", errInvalid, 1, "", "no thread's id"},
		{"NewError", errOther, 1, "", ""},
		{"DeadPipe", errPipe, 1, "", ""},
		{"Timeout", context.DeadlineExceeded, 1, "", ""},
		{"Overload", &rpc.Error{Code: rpc.CodeOverload}, 1, "", ""},
		{"Config", &rpc.Error{Code: rpc.CodeInvalidRequest, Message: "failed to load configuration: x"}, 1, "", ""},
		{"NotFound", &rpc.Error{Code: rpc.CodeInvalidRequest, Message: "thread not found: t1"}, 1, "", ""},
	} {
		for _, bound := range []bool{false, true} {
			name := tc.name
			if bound {
				name += "Bound"
			}
			t.Run(name, func(t *testing.T) {
				h := newHouse(t)
				h.saved(store.Thread{ID: "old", Turns: tc.turns, Bound: bound})
				h.client.ResumeFn = func(rpc.ThreadResumeParams) (rpc.ThreadReply, error) { return rpc.ThreadReply{}, tc.err }
				opened, err := h.open(owners())
				var missing *threads.MissingError
				switch {
				case bound && tc.bound != "":
					if !errors.As(err, &missing) || missing.ThreadID != "old" || !strings.Contains(err.Error(), tc.bound) {
						t.Errorf("error %v", err)
					}
				case !bound && tc.afresh != "":
					if err != nil || opened.ID != "t1" || !opened.New || !opened.Afresh || !strings.Contains(opened.AfreshWhy, tc.afresh) {
						t.Errorf("opened %+v, %v", opened, err)
					}
					if h.owner().ID != "old" {
						t.Error("the record changed before the new thread had a turn")
					}
					h.acknowledge(opened)
					if o := h.owner(); o.ID != "t1" || o.Turns != 1 {
						t.Errorf("on record: %+v", o)
					}
					return
				default:
					if !errors.Is(err, tc.err) || errors.As(err, &missing) {
						t.Errorf("error %v, want %v", err, tc.err)
					}
				}
				if calls := h.client.take(); !slices.Equal(calls, []string{"resume old policy true"}) {
					t.Errorf("calls %q", calls)
				}
				if o := h.owner(); o.ID != "old" || o.Turns != tc.turns {
					t.Errorf("on record: %+v", o)
				}
			})
		}
	}
}

func TestOpen_Fresh(t *testing.T) {
	h := newHouse(t)
	r := owners()
	r.Fresh = true
	if o := h.mustOpen(r); o.Afresh || o.ID != "t1" {
		t.Errorf("fresh without an earlier thread: %+v", o)
	}
	h.acknowledge(threads.Opened{ID: "t1", New: true})
	h.client.take()

	h.client.StartFn = func(rpc.ThreadStartParams) (rpc.ThreadReply, error) { return rpc.ThreadReply{}, errPipe }
	if _, err := h.open(r); !errors.Is(err, errPipe) || h.owner().ID != "t1" {
		t.Errorf("failed: %v, on record %+v", err, h.owner())
	}
	h.client.StartFn = nil
	h.client.take()
	o := h.mustOpen(r)
	if o.ID != "t2" || !o.New || !o.Afresh || o.AfreshWhy == "" {
		t.Errorf("opened %+v", o)
	}
	if calls := h.client.take(); !slices.Equal(calls, []string{"start policy", "unsubscribe t1"}) {
		t.Errorf("calls %q", calls)
	}
	h.acknowledge(o)
	if got := h.owner(); got.ID != "t2" || got.Turns != 1 {
		t.Errorf("on record: %+v", got)
	}

	h.check(h.Bind("key", "room", "bound"))
	if _, err := h.open(r); err == nil || !strings.Contains(err.Error(), "bound is bound") || h.owner().ID != "bound" {
		t.Errorf("a bound thread was retired: %v", err)
	}
	if calls := h.client.take(); len(calls) != 0 {
		t.Errorf("calls %q", calls)
	}
}

func TestOpen_Ephemeral(t *testing.T) {
	h := newHouse(t)
	h.saved(store.Thread{ID: "old", Turns: 3})
	for _, want := range []string{"t1", "t2"} {
		if o := h.mustOpen(guests()); o != (threads.Opened{ID: want, Ephemeral: true, New: true}) {
			t.Errorf("opened %+v", o)
		}
	}
	if calls := h.client.take(); !slices.Equal(calls, []string{"start ephemeral policy", "start ephemeral policy"}) {
		t.Errorf("calls %q", calls)
	}
	h.acknowledge(threads.Opened{ID: "t2", Ephemeral: true, New: true})
	c, _, err := h.db.Channel("key")
	h.check(err)
	if c.Owner.ID != "old" || c.Owner.Turns != 3 || len(c.Ephemeral) != 2 {
		t.Fatalf("on record: %+v", c)
	}
	e := c.Ephemeral[1]
	if e.ThreadID != "t2" || e.TaskID != "task-9" || e.Tier != task.Guest || e.Generation != 7 || e.Started.IsZero() || !e.Ended.IsZero() {
		t.Errorf("listed: %+v", e)
	}
	if h.session.Loaded() != 0 {
		t.Error("an ephemeral thread counts as the channel's")
	}
	h.nextGeneration()
	if c, _, _ := h.db.Channel("key"); c.Ephemeral[0].Ended.IsZero() || c.Ephemeral[1].Ended.IsZero() {
		t.Errorf("threads outlive their process: %+v", c.Ephemeral)
	}

	h.check(h.db.Close())
	h.client.take()
	if _, err := h.open(guests()); err == nil {
		t.Error("opened a thread that cannot be listed")
	}
	if calls := h.client.take(); !slices.Equal(calls, []string{"start ephemeral policy", "unsubscribe t3"}) {
		t.Errorf("calls %q", calls)
	}
	if _, err := h.open(owners()); err == nil {
		t.Error("opened a thread without a look at the record")
	}
	h.NewSession(h.client, 9) // says so in the log, and goes on
}

// TestOpen_Check: a thread under another policy is let go, whatever way it came.
func TestOpen_Check(t *testing.T) {
	for name, tc := range map[string]struct {
		request threads.Request
		saved   bool
		calls   []string
	}{
		"Start":     {owners(), false, []string{"start policy", "unsubscribe t1"}},
		"Resume":    {owners(), true, []string{"resume old policy true", "unsubscribe old"}},
		"Ephemeral": {guests(), false, []string{"start ephemeral policy", "unsubscribe t1"}},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t)
			if tc.saved {
				h.saved(store.Thread{ID: "old", Turns: 1})
			}
			ctx, cancel := context.WithCancel(t.Context())
			checked := ""
			tc.request.Check = func(r rpc.ThreadReply) error {
				checked = r.Thread.ID
				cancel() // the task is given up at this moment
				return errMismatch
			}
			h.client.UnsubscribeFn = func(ctx context.Context, _ string) error {
				if ctx.Err() != nil {
					t.Error("the thread is not let go of once the task is given up")
				}
				return errOther // only logged
			}
			if _, err := h.Open(ctx, h.session, tc.request); !errors.Is(err, errMismatch) || errors.Is(err, errOther) {
				t.Errorf("error %v", err)
			}
			if calls := h.client.take(); !slices.Equal(calls, tc.calls) || !strings.HasSuffix(calls[1], checked) {
				t.Errorf("calls %q, checked %s", calls, checked)
			}
			if c, _, _ := h.db.Channel("key"); len(c.Ephemeral) != 0 || h.session.Loaded() != 0 {
				t.Errorf("kept: %+v, %d loaded", c, h.session.Loaded())
			}
			// The next task is checked again.
			checked = ""
			_, _ = h.open(tc.request)
			if checked == "" {
				t.Error("not checked again")
			}
		})
	}
	h := newHouse(t)
	r := owners()
	r.Check = nil
	if _, err := h.open(r); err == nil || len(h.client.take()) != 0 {
		t.Errorf("opened without a check: %v", err)
	}
}

func TestOpen_OddAnswers(t *testing.T) {
	h := newHouse(t)
	h.client.StartFn = func(rpc.ThreadStartParams) (rpc.ThreadReply, error) { return reply(""), nil }
	if _, err := h.open(owners()); err == nil {
		t.Error("a thread without an id")
	}
	if _, err := h.open(guests()); err == nil {
		t.Error("an ephemeral thread without an id")
	}
	h.saved(store.Thread{ID: "old", Turns: 1})
	h.client.take()
	h.client.ResumeFn = func(rpc.ThreadResumeParams) (rpc.ThreadReply, error) { return reply("other"), nil }
	if _, err := h.open(owners()); err == nil || h.session.Loaded() != 0 {
		t.Errorf("the answer for another thread: %v", err)
	}
	if calls := h.client.take(); !slices.Equal(calls, []string{"resume old policy true", "unsubscribe other"}) {
		t.Errorf("calls %q", calls)
	}
}

// locked is a house whose channel's thread is held elsewhere until the n-th try.
func locked(t *testing.T, tries int, wait time.Duration) (h *house, at *[]time.Duration) {
	h = newHouse(t)
	h.Threads = threads.New(threads.Options{Store: h.db, LockWait: wait, CodexHome: func() string { return filepath.Join(t.TempDir(), "none") }})
	h.saved(store.Thread{ID: "old", Turns: 1})
	start := time.Now()
	at = &[]time.Duration{}
	h.client.ResumeFn = func(p rpc.ThreadResumeParams) (rpc.ThreadReply, error) {
		*at = append(*at, time.Since(start))
		if len(*at) == tries {
			return reply(p.ThreadID), nil
		}
		return rpc.ThreadReply{}, errLocked
	}
	return h, at
}

func TestOpen_LockIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, at := locked(t, 4, 0)
		if o := h.mustOpen(owners()); o != (threads.Opened{ID: "old"}) {
			t.Errorf("opened %+v", o)
		}
		ms := time.Millisecond
		if want := []time.Duration{0, 100 * ms, 300 * ms, 700 * ms}; !slices.Equal(*at, want) {
			t.Errorf("tried at %v, want %v", *at, want)
		}
	})
}

func TestOpen_LockOutlastsTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, at := locked(t, -1, 0)
		_, err := h.open(owners())
		var lock *threads.LockedError
		if !errors.As(err, &lock) || lock.ThreadID != "old" || lock.HolderPID != 0 || strings.Contains(err.Error(), "pid") {
			t.Errorf("error %v", err)
		}
		last := (*at)[len(*at)-1]
		if last != threads.DefaultLockWait || len(*at) != 12 {
			t.Errorf("tried at %v", *at)
		}
		if gap := (*at)[9] - (*at)[8]; gap != 5*time.Second {
			t.Errorf("pauses grow to %v", gap)
		}
		for _, call := range h.client.take() {
			if !strings.HasPrefix(call, "resume") {
				t.Errorf("call %q while the thread is held elsewhere", call)
			}
		}
	})
}

func TestOpen_GivenUpWhileLocked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, at := locked(t, -1, time.Hour)
		stop := errors.New("the service stops")
		ctx, cancel := context.WithTimeoutCause(t.Context(), 20*time.Second, stop)
		defer cancel()
		begun := time.Now()
		if _, err := h.Open(ctx, h.session, owners()); !errors.Is(err, stop) || time.Since(begun) != 20*time.Second {
			t.Errorf("error %v after %v", err, time.Since(begun))
		}
		if len(*at) < 5 {
			t.Errorf("tried at %v", *at)
		}
	})
}

func TestLockedError(t *testing.T) {
	if got := (&threads.LockedError{ThreadID: "t", HolderPID: 5}).Error(); got != "thread t is open in another process (pid 5)" {
		t.Error(got)
	}
}
