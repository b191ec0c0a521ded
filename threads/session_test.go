package threads_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/codex-supervisor/codex-supervisor/rpc"
	"github.com/codex-supervisor/codex-supervisor/store"
	"github.com/codex-supervisor/codex-supervisor/threads"
)

// loadThreads opens the durable threads of n channels, a second apart.
func loadThreads(h *house, n int) {
	h.tb.Helper()
	for i := range n {
		r := owners()
		r.Key = fmt.Sprint("key-", i)
		h.check(h.db.SaveOwner(r.Key, "", store.Thread{ID: fmt.Sprint("thread-", i), Turns: 2}))
		h.mustOpen(r)
		time.Sleep(time.Second)
	}
	h.client.take()
}

func TestSession_UnsubscribeIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t)
		loadThreads(h, 6)
		if h.check(h.session.UnsubscribeIdle(t.Context(), 2)); len(h.client.take()) != 0 {
			t.Error("let go of threads that were opened just now")
		}
		time.Sleep(time.Hour)
		r := owners()
		r.Key = "key-0"
		h.mustOpen(r) // the oldest is in use again
		h.client.ReadFn = func(id string) (rpc.ThreadReadReply, error) {
			switch id {
			case "thread-1":
				return rpc.ThreadReadReply{Thread: rpc.Thread{Status: rpc.ThreadStatus{Type: rpc.ThreadActive}}}, nil
			case "thread-2":
				return rpc.ThreadReadReply{}, errNotLoaded
			}
			return rpc.ThreadReadReply{Thread: rpc.Thread{Status: rpc.ThreadStatus{Type: rpc.ThreadIdle}}}, nil
		}
		h.check(h.session.UnsubscribeIdle(t.Context(), 3))
		if calls := h.client.take(); !slices.Equal(calls, []string{"read thread-1", "read thread-2", "read thread-3", "unsubscribe thread-3"}) {
			t.Errorf("calls %q", calls)
		}
		if n := h.session.Loaded(); n != 4 { // 0 and 1 in use, 4 and 5 kept
			t.Errorf("%d loaded", n)
		}
		// What was let go is resumed when it is wanted.
		r.Key = "key-3"
		h.mustOpen(r)
		if calls := h.client.take(); !slices.Equal(calls, []string{"resume thread-3 policy true"}) {
			t.Errorf("calls %q", calls)
		}
	})
}

func TestSession_UnsubscribeIdle_Errors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t)
		loadThreads(h, 4)
		time.Sleep(time.Hour)
		h.client.ReadFn = func(id string) (rpc.ThreadReadReply, error) {
			if id == "thread-0" {
				return rpc.ThreadReadReply{}, errOther
			}
			if id == "thread-1" { // opened at this very moment
				r := owners()
				r.Key = "key-1"
				h.mustOpen(r)
			}
			return rpc.ThreadReadReply{}, nil
		}
		h.client.UnsubscribeFn = func(context.Context, string) error { return errPipe }
		if err := h.session.UnsubscribeIdle(t.Context(), 0); !errors.Is(err, errPipe) {
			t.Errorf("error %v", err)
		}
		if calls := h.client.take(); !slices.Equal(calls, []string{"read thread-0", "read thread-1", "read thread-2", "unsubscribe thread-2"}) {
			t.Errorf("calls %q", calls)
		}
		h.client.UnsubscribeFn = nil
		if err := h.session.UnsubscribeIdle(t.Context(), 0); !errors.Is(err, errOther) {
			t.Errorf("error %v", err)
		}
		if calls := h.client.take(); !slices.Equal(calls, []string{"read thread-0", "read thread-3", "unsubscribe thread-3"}) {
			t.Errorf("calls %q", calls)
		}
	})
}

// TestOpen_MakesRoom: a generation that has served many channels does not run
// out of descriptors, and what goes wrong on the way is no reason not to open.
func TestOpen_MakesRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t)
		loadThreads(h, 200)
		time.Sleep(time.Hour)
		h.client.ReadFn = func(id string) (rpc.ThreadReadReply, error) {
			if id == "thread-0" {
				return rpc.ThreadReadReply{}, errOther
			}
			return rpc.ThreadReadReply{}, nil
		}
		if o := h.mustOpen(owners()); !o.New {
			t.Errorf("opened %+v", o)
		}
		if calls := h.client.take(); !slices.Equal(calls, []string{"read thread-0", "start policy"}) {
			t.Errorf("calls %q", calls)
		}
		h.client.ReadFn = nil
		h.saved(store.Thread{ID: "old", Turns: 1})
		h.mustOpen(owners())
		if calls := h.client.take(); !slices.Equal(calls, []string{
			"read thread-0", "unsubscribe thread-0", "read thread-1", "unsubscribe thread-1", "resume old policy true",
		}) {
			t.Errorf("calls %q", calls)
		}
		time.Sleep(time.Hour)
		h.nextGeneration()
		loadThreads(h, 200)
		time.Sleep(time.Hour)
		h.client.ReadFn = func(string) (rpc.ThreadReadReply, error) { return rpc.ThreadReadReply{}, errPipe }
		for _, key := range []string{"key", "unknown"} {
			r := owners()
			r.Key = key
			if _, err := h.open(r); !errors.Is(err, errPipe) {
				t.Errorf("error %v", err)
			}
		}
		if calls := strings.Join(h.client.take(), ","); strings.Contains(calls, "start") || strings.Contains(calls, "resume") {
			t.Errorf("calls %q", calls)
		}
	})
}

var _ threads.Client = (*client)(nil)
