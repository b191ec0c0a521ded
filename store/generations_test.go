package store_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/codex-supervisor/codex-supervisor/internal/proc"
	"github.com/codex-supervisor/codex-supervisor/internal/reason"
	"github.com/codex-supervisor/codex-supervisor/store"
)

func TestDB_Generations(t *testing.T) {
	db := newDB(t)
	for want := uint64(1); want <= 2; want++ {
		if n := must[uint64](t)(db.NextGeneration()); n != want {
			t.Errorf("number %d, want %d", n, want)
		}
	}
	one := store.Generation{
		N: 1, Child: proc.Identity{PID: 10, StartTime: 11, BootID: "b"}, Guard: proc.Identity{PID: 9, StartTime: 8, BootID: "b"},
		Version: "0.171.0", Started: at(1), Ended: at(2), End: reason.ChildKilled, ExitCode: -1, Signal: "killed", Stderr: []string{"last words"},
	}
	check(t, db.SaveGeneration(one))
	check(t, db.SaveGeneration(store.Generation{N: 2, Started: at(3)}))
	check(t, db.SaveGeneration(store.Generation{N: 3, Started: at(4)}))
	last := must[[]store.Generation](t)(db.LastGenerations(2))
	if len(last) != 2 || last[0].N != 3 || last[1].N != 2 {
		t.Errorf("last two: %+v", last)
	}
	if all := must[[]store.Generation](t)(db.LastGenerations(9)); len(all) != 3 || !reflect.DeepEqual(all[2], one) {
		t.Errorf("first: %+v", all)
	}
	if live := must[[]store.Generation](t)(db.LiveGenerations()); len(live) != 2 || live[0].N != 2 || live[1].N != 3 {
		t.Errorf("live: %+v", live)
	}
}

// TestDB_OldGenerations: what has ended is forgotten in time; one that may still
// run never is.
func TestDB_OldGenerations(t *testing.T) {
	db := newDB(t)
	check(t, db.SaveGeneration(store.Generation{N: 2, Started: at(1)}))
	for _, n := range []uint64{1, 3, 4, 50, 204} {
		g := store.Generation{N: n, Started: at(1), Ended: at(2)}
		for i := range 60 {
			g.Stderr = append(g.Stderr, fmt.Sprint(i, strings.Repeat("x", 3000)))
		}
		check(t, db.SaveGeneration(g))
	}
	var left []uint64
	for _, g := range must[[]store.Generation](t)(db.LastGenerations(99)) {
		left = append(left, g.N)
	}
	if !reflect.DeepEqual(left, []uint64{204, 50, 2}) {
		t.Errorf("left: %v", left)
	}
	g := must[[]store.Generation](t)(db.LastGenerations(1))[0]
	if len(g.Stderr) != 50 || !strings.HasPrefix(g.Stderr[0], "10x") || len(g.Stderr[0]) != 2000 {
		t.Errorf("kept %d lines, first %.5q of %d bytes", len(g.Stderr), g.Stderr[0], len(g.Stderr[0]))
	}
}
