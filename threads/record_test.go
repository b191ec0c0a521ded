package threads_test

import (
	"testing"

	"github.com/codex-supervisor/codex-supervisor/store"
	"github.com/codex-supervisor/codex-supervisor/threads"
)

func TestBind(t *testing.T) {
	h := newHouse(t)
	h.check(h.Bind("key", "room", "mine"))
	if o := h.owner(); o.ID != "mine" || !o.Bound || o.Created.IsZero() || o.Turns != 0 {
		t.Errorf("bound: %+v", o)
	}
	if o := h.mustOpen(owners()); o != (threads.Opened{ID: "mine"}) {
		t.Errorf("opened %+v", o)
	}
	h.acknowledge(threads.Opened{ID: "mine"})
	h.check(h.Bind("key", "room", "mine"))
	if o := h.owner(); o.Turns != 1 || !o.Bound {
		t.Errorf("bound again: %+v", o)
	}
	h.check(h.Bind("key", "room", "other"))
	if o := h.owner(); o.ID != "other" || o.Turns != 0 || !o.Bound {
		t.Errorf("bound to another: %+v", o)
	}
	if h.Bind("key", "room", "") == nil || h.Acknowledge(h.session, "key", "room", threads.Opened{New: true}) == nil {
		t.Error("a thread without an id was taken")
	}
}

func TestReset(t *testing.T) {
	h := newHouse(t)
	if _, had, err := h.Reset("key"); had || err != nil {
		t.Errorf("nothing to reset: %t, %v", had, err)
	}
	h.saved(store.Thread{ID: "old", Turns: 3, Bound: true})
	if old, had, err := h.Reset("key"); old != "old" || !had || err != nil {
		t.Errorf("reset: %q, %t, %v", old, had, err)
	}
	if o := h.mustOpen(owners()); o != (threads.Opened{ID: "t1", New: true}) {
		t.Errorf("after a reset: %+v", o)
	}
}

// TestAcknowledge_AfterAChange: what an operator did between the opening of a
// thread and the beginning of its turn stands.
func TestAcknowledge_AfterAChange(t *testing.T) {
	fresh, old := threads.Opened{ID: "t1", New: true}, threads.Opened{ID: "old"}
	for name, tc := range map[string]struct {
		opened threads.Opened
		change func(h *house) error
		want   store.Thread // id, turns, bound
	}{
		"FreshThenBound":   {fresh, func(h *house) error { return h.Bind("key", "", "mine") }, store.Thread{ID: "mine", Bound: true}},
		"FreshThenReset":   {fresh, func(h *house) error { _, _, err := h.Reset("key"); return err }, store.Thread{ID: "t1", Turns: 1}},
		"OldThenBound":     {old, func(h *house) error { return h.Bind("key", "", "mine") }, store.Thread{ID: "mine", Bound: true}},
		"OldThenReset":     {old, func(h *house) error { _, _, err := h.Reset("key"); return err }, store.Thread{}},
		"OldThenOther":     {old, func(h *house) error { return h.db.SaveOwner("key", "", store.Thread{ID: "x", Turns: 2}) }, store.Thread{ID: "x", Turns: 2}},
		"FreshReplacesOld": {fresh, func(*house) error { return nil }, store.Thread{ID: "t1", Turns: 1}},
		"OldBoundItself":   {old, func(h *house) error { return h.Bind("key", "", "old") }, store.Thread{ID: "old", Turns: 5, Bound: true}},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t)
			h.saved(store.Thread{ID: "old", Turns: 4})
			h.check(tc.change(h))
			h.acknowledge(tc.opened)
			if o := h.owner(); o.ID != tc.want.ID || o.Turns != tc.want.Turns || o.Bound != tc.want.Bound {
				t.Errorf("on record: %+v, want %+v", o, tc.want)
			}
		})
	}
}
