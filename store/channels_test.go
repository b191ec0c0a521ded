package store_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/codex-supervisor/codex-supervisor/internal/task"
	"github.com/codex-supervisor/codex-supervisor/store"
)

func TestDB_Owner(t *testing.T) {
	db := newDB(t)
	if _, ok, err := db.Channel("k"); ok || err != nil {
		t.Errorf("unknown channel: %t, %v", ok, err)
	}
	first := store.Thread{ID: "t1", Created: at(1), LastUsed: at(2), Turns: 3, Bound: true, Generation: 4}
	check(t, db.SaveOwner("k", "room\u2028\x1bone", first))
	want := store.Channel{Key: "k", Name: "room  one", Owner: &first}
	if got, ok, err := db.Channel("k"); err != nil || !ok || !reflect.DeepEqual(got, want) {
		t.Errorf("stored %+v, %t, %v", got, ok, err)
	}
	second := store.Thread{ID: "t2", Created: at(5)}
	check(t, db.ChangeOwner("k", "", func(present *store.Thread) *store.Thread {
		if present == nil || *present != first {
			t.Errorf("present thread: %+v", present)
		}
		return &second
	}))
	if got, _, _ := db.Channel("k"); got.Name != "room  one" || *got.Owner != second {
		t.Errorf("changed to %+v", got)
	}
	// Changing the one that was given is a change too; leaving it is none.
	check(t, db.ChangeOwner("k", "other name", func(present *store.Thread) *store.Thread { return present }))
	if got, _, _ := db.Channel("k"); got.Name != "room  one" {
		t.Errorf("no change, and yet %+v", got)
	}
	check(t, db.ChangeOwner("k", "", func(present *store.Thread) *store.Thread { present.Turns = 8; return present }))
	if got, _, _ := db.Channel("k"); got.Owner.Turns != 8 {
		t.Errorf("changed in place to %+v", got.Owner)
	}

	old, had, err := db.DropOwner("k")
	if err != nil || !had || old.ID != "t2" || old.Turns != 8 {
		t.Errorf("dropped %+v, %t, %v", old, had, err)
	}
	if _, ok, _ := db.Channel("k"); ok {
		t.Error("an empty record is kept")
	}
	if _, had, err := db.DropOwner("k"); had || err != nil {
		t.Errorf("dropped again: %t, %v", had, err)
	}
}

func TestDB_Ephemeral(t *testing.T) {
	db := newDB(t)
	for i := range store.MaxEphemeral + 5 {
		check(t, db.AddEphemeral("k", "room", store.Ephemeral{ThreadID: fmt.Sprint("e", i), TaskID: fmt.Sprint("task-", i), Tier: task.Guest, Generation: 2, Started: at(i)}))
	}
	check(t, db.EndEphemeral("k", "e10", at(40)))
	check(t, db.EndEphemeral("k", "e0", at(41)))       // no longer listed
	check(t, db.EndEphemeral("unknown", "e0", at(41))) // nor is its channel
	got, _, err := db.Channel("k")
	if err != nil || len(got.Ephemeral) != store.MaxEphemeral {
		t.Fatalf("%d listed, %v", len(got.Ephemeral), err)
	}
	if first, last := got.Ephemeral[0], got.Ephemeral[store.MaxEphemeral-1]; first.ThreadID != "e5" || last.ThreadID != "e24" || last.TaskID != "task-24" {
		t.Errorf("listed from %+v to %+v", first, last)
	}
	for _, e := range got.Ephemeral {
		if e.Ended.IsZero() == (e.ThreadID == "e10") {
			t.Errorf("%s ended at %v", e.ThreadID, e.Ended)
		}
	}
	if _, ok, _ := db.Channel("unknown"); ok {
		t.Error("a channel came to be by an end")
	}
	// Dropping the owner leaves the list.
	check(t, db.SaveOwner("k", "", store.Thread{ID: "t"}))
	if _, _, err := db.DropOwner("k"); err != nil {
		t.Fatal(err)
	}
	if got, ok, _ := db.Channel("k"); !ok || len(got.Ephemeral) != store.MaxEphemeral || got.Name != "room" {
		t.Errorf("left of the record: %+v", got)
	}
}

func TestDB_EndOlderEphemerals(t *testing.T) {
	db := newDB(t)
	add := func(key, id string, generation uint64) {
		t.Helper()
		check(t, db.AddEphemeral(key, "", store.Ephemeral{ThreadID: id, Generation: generation, Started: at(1)}))
	}
	add("a", "a1", 1)
	add("a", "a2", 2)
	add("b", "b1", 1)
	add("c", "c3", 3)
	check(t, db.EndEphemeral("b", "b1", at(2)))
	if n, err := db.EndOlderEphemerals(3, at(9)); n != 2 || err != nil {
		t.Errorf("ended %d, %v", n, err)
	}
	a, _, _ := db.Channel("a")
	b, _, _ := db.Channel("b")
	c, _, _ := db.Channel("c")
	if a.Ephemeral[0].Ended != at(9) || a.Ephemeral[1].Ended != at(9) || b.Ephemeral[0].Ended != at(2) || !c.Ephemeral[0].Ended.IsZero() {
		t.Errorf("ends: %v %v %v %v", a.Ephemeral[0].Ended, a.Ephemeral[1].Ended, b.Ephemeral[0].Ended, c.Ephemeral[0].Ended)
	}
	if n, err := db.EndOlderEphemerals(3, at(10)); n != 0 || err != nil {
		t.Errorf("ended %d again, %v", n, err)
	}
}

func TestDB_Channels(t *testing.T) {
	db := newDB(t)
	check(t, db.SaveOwner("a", strings.Repeat("x", 100), store.Thread{ID: "t", LastUsed: at(5)}))
	check(t, db.SaveOwner("b", "", store.Thread{ID: "u", LastUsed: at(1)}))
	check(t, db.AddEphemeral("b", "", store.Ephemeral{ThreadID: "e", Started: at(6)}))
	check(t, db.AddEphemeral("c", "", store.Ephemeral{ThreadID: "f", Started: at(2)}))
	var order []string
	for _, c := range must[[]store.Channel](t)(db.Channels()) {
		order = append(order, c.Key)
	}
	if got := strings.Join(order, " "); got != "b a c" {
		t.Errorf("by last use: %s", got)
	}
}
