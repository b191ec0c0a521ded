package store_test

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/codex-supervisor/codex-supervisor/internal/reason"
	"github.com/codex-supervisor/codex-supervisor/internal/task"
	"github.com/codex-supervisor/codex-supervisor/store"
)

func ids(rows []store.Row) []string {
	list := []string{}
	for _, r := range rows {
		list = append(list, r.TaskID)
	}
	return list
}

func settle(r *store.Row) error {
	r.State = store.StateSettled
	return nil
}

func TestDB_Begin(t *testing.T) {
	db := newDB(t)
	row := store.Row{
		TaskID: "task-1", ChannelKey: "k", ChannelName: "room\none", Tier: task.Team, Verdict: task.Unsigned,
		Queued: at(1), Seen: at(2), Notice: "first",
	}
	got := must[store.Row](t)(db.Begin(row, store.Attempt{Kind: store.First, Generation: 3, BootID: "b", ThreadID: "t", NewThread: true, Began: at(3)}))
	if got.Attempts[0].N != 1 || got.State != store.StateOpen || got.ChannelName != "room one" {
		t.Errorf("began as %+v", got)
	}
	// The second is added to what is stored; of the caller's row only the notice counts.
	second := must[store.Row](t)(db.Begin(store.Row{TaskID: "task-1", Tier: task.Owner, Notice: "second"}, store.Attempt{N: 9, Kind: store.Again, Began: at(4)}))
	want := got
	want.Notice = "second"
	want.Attempts = append(slices.Clone(got.Attempts), store.Attempt{N: 2, Kind: store.Again, Began: at(4)})
	if !reflect.DeepEqual(second, want) {
		t.Errorf("second attempt:\n%+v\nwant\n%+v", second, want)
	}
	stored, ok, err := db.Row("task-1")
	if err != nil || !ok || !reflect.DeepEqual(stored, want) {
		t.Errorf("stored: %+v, %t, %v", stored, ok, err)
	}
	if id := stored.Attempts[1].ClientID("task-1"); id != "task-1/2" {
		t.Errorf("client id %q", id)
	}
	if len(row.Attempts) != 0 {
		t.Errorf("the caller's row was changed: %+v", row)
	}

	for _, state := range []store.State{store.StateReplied, store.StateSettled} {
		must[store.Row](t)(db.Update("task-1", func(r *store.Row) error { r.State = state; return nil }))
		if _, err := db.Begin(row, store.Attempt{}); !errors.Is(err, store.ErrNotOpen) {
			t.Errorf("begin on a %s row: %v", state, err)
		}
	}
	if again, _, _ := db.Row("task-1"); len(again.Attempts) != 2 || again.State != store.StateSettled {
		t.Errorf("a refused attempt changed the row: %+v", again)
	}
}

func TestDB_Update(t *testing.T) {
	db := newDB(t)
	if _, err := db.Update("task-1", settle); !errors.Is(err, store.ErrNoRow) {
		t.Errorf("update of nothing: %v", err)
	}
	must[store.Row](t)(db.Begin(store.Row{TaskID: "task-1", Seen: at(1)}, store.Attempt{}))
	no := errors.New("no")
	if _, err := db.Update("task-1", func(r *store.Row) error { r.Tokens = 5; r.State = store.StateSettled; return no }); !errors.Is(err, no) {
		t.Errorf("refused change: %v", err)
	}
	row, _, err := db.Row("task-1")
	if err != nil || row.Tokens != 0 || row.State != store.StateOpen {
		t.Errorf("a refused change was kept: %+v, %v", row, err)
	}
	func() {
		defer func() { _ = recover() }()
		_, _ = db.Update("task-1", func(r *store.Row) error { r.Tokens = 6; panic("in a change") })
	}()
	got := must[store.Row](t)(db.Update("task-1", func(r *store.Row) error {
		r.TaskID, r.Seen = "task-2", at(9) // the id is not the change's to give
		r.Reason, r.Outcome, r.SettledAt, r.Deaths = reason.CutTwice, store.Failed, at(10), 1
		return settle(r)
	}))
	if got.TaskID != "task-1" || got.Tokens != 0 || got.Reason != reason.CutTwice {
		t.Errorf("changed to %+v", got)
	}
	if rows, err := db.OpenRows(); err != nil || len(rows) != 0 {
		t.Errorf("open rows after settling: %v, %v", ids(rows), err)
	}
	if rows, err := db.Rows(10); err != nil || !slices.Equal(ids(rows), []string{"task-1"}) {
		t.Errorf("rows after a change of the time: %v, %v", ids(rows), err)
	}
	check(t, db.Check())
}

func TestDB_Upsert(t *testing.T) {
	db := newDB(t)
	fresh := store.Row{TaskID: "task-1", Tier: task.Guest, Attempts: make([]store.Attempt, 1, 8), Declined: make([]store.Declined, 1, 8)}
	row := must[store.Row](t)(db.Upsert(fresh, func(r *store.Row) error {
		r.State, r.Outcome = store.StateSettled, store.Rejected
		r.Attempts[0].N, r.Declined[0].Method = 7, "x"
		return nil
	}))
	if row.Seen.IsZero() || time.Since(row.Seen) > time.Hour || row.Outcome != store.Rejected || row.Tier != task.Guest {
		t.Errorf("made %+v", row)
	}
	if fresh.Attempts[0].N != 0 || fresh.Declined[0].Method != "" {
		t.Error("the caller's lists were changed")
	}
	row = must[store.Row](t)(db.Upsert(store.Row{TaskID: "task-1", Tier: task.Owner}, func(r *store.Row) error { r.Tokens = 3; return nil }))
	if row.Tier != task.Guest || row.Tokens != 3 {
		t.Errorf("a row that is there is not replaced: %+v", row)
	}
	if row := must[store.Row](t)(db.Upsert(store.Row{TaskID: "task-2"}, func(*store.Row) error { return nil })); row.State != store.StateOpen {
		t.Errorf("a row begins as %q", row.State)
	}
	if _, err := db.Upsert(store.Row{}, settle); err == nil {
		t.Error("a row without an id was taken")
	}
}

func TestDB_RowIsBounded(t *testing.T) {
	db := newDB(t)
	long := strings.Repeat("ü", 3000)
	must[store.Row](t)(db.Begin(store.Row{TaskID: "task-1", Seen: at(1), ChannelName: long, Queued: time.Unix(1<<40, 0)}, store.Attempt{Kind: store.First, ThreadID: long}))
	for range 70 {
		must[store.Row](t)(db.Begin(store.Row{TaskID: "task-1"}, store.Attempt{Kind: store.Resumed}))
	}
	row := must[store.Row](t)(db.Update("task-1", func(r *store.Row) error {
		for range 300 {
			r.Declined = append(r.Declined, store.Declined{Method: long, At: at(1)})
		}
		r.Detail, r.Notice, r.Attempts[5].TurnID = long, long, long
		return nil
	}))
	var numbers []int
	for _, a := range row.Attempts {
		numbers = append(numbers, a.N)
	}
	if len(numbers) != 50 || numbers[0] != 1 || numbers[1] != 23 || numbers[49] != 71 || row.Attempts[0].Kind != store.First {
		t.Errorf("attempts kept: %v", numbers)
	}
	if n := utf8.RuneCountInString(row.ChannelName); n != store.MaxName || !strings.HasSuffix(row.ChannelName, "…") {
		t.Errorf("name of %d characters: %q", n, row.ChannelName)
	}
	if len(row.Declined) != 50 || len(row.Declined[49].Method) != 200 || len(row.Detail) != 2000 || len(row.Notice) != 2000 ||
		len(row.Attempts[0].ThreadID) != 200 || len(row.Attempts[5].TurnID) != 200 {
		t.Errorf("kept %d requests of %d bytes, detail %d, notice %d, thread %d, turn %d", len(row.Declined), len(row.Declined[0].Method),
			len(row.Detail), len(row.Notice), len(row.Attempts[0].ThreadID), len(row.Attempts[5].TurnID))
	}
	if !row.Queued.IsZero() {
		t.Errorf("a file of the year %d cannot be stored", row.Queued.Year())
	}
	odd := must[store.Row](t)(db.Upsert(store.Row{TaskID: "task-2"}, func(r *store.Row) error { r.Detail = "x" + long; return nil }))
	if len(odd.Detail) != 1999 || !utf8.ValidString(odd.Detail) {
		t.Errorf("cut inside a character: %d bytes, valid %t", len(odd.Detail), utf8.ValidString(odd.Detail))
	}
}

func TestDB_Rows(t *testing.T) {
	db := newDB(t)
	// Ids in another order than arrival, and two that arrived together.
	for i, id := range []string{"task-c", "task-a", "task-d", "task-b"} {
		must[store.Row](t)(db.Begin(store.Row{TaskID: id, Seen: at(max(i, 1))}, store.Attempt{}))
	}
	for limit, want := range map[int][]string{
		0: {}, 1: {"task-b"}, 3: {"task-b", "task-d", "task-c"}, 9: {"task-b", "task-d", "task-c", "task-a"},
	} {
		if got := ids(must[[]store.Row](t)(db.Rows(limit))); !slices.Equal(got, want) {
			t.Errorf("last %d: %v, want %v", limit, got, want)
		}
	}
	must[store.Row](t)(db.Update("task-a", settle))
	must[store.Row](t)(db.Update("task-c", func(r *store.Row) error { r.State = store.StateReplied; return nil }))
	if got, want := ids(must[[]store.Row](t)(db.OpenRows())), []string{"task-b", "task-c", "task-d"}; !slices.Equal(got, want) {
		t.Errorf("open: %v, want %v", got, want)
	}
	must[store.Row](t)(db.Update("task-a", func(r *store.Row) error { r.State = store.StateOpen; return nil }))
	check(t, db.DeleteRow("task-b"))
	check(t, db.DeleteRow("task-unknown"))
	if got, want := ids(must[[]store.Row](t)(db.OpenRows())), []string{"task-a", "task-c", "task-d"}; !slices.Equal(got, want) {
		t.Errorf("open after reopening and deleting: %v, want %v", got, want)
	}
	if _, ok, err := db.Row("task-b"); ok || err != nil {
		t.Errorf("deleted row: %t, %v", ok, err)
	}
	if got, want := must[store.Counts](t)(db.Counts()), (store.Counts{Rows: 3, Open: 3}); got != want {
		t.Errorf("counts %+v, want %+v", got, want)
	}
	check(t, db.Check())
}

// TestDB_Prune goes over several batches, and leaves what it is told to leave.
func TestDB_Prune(t *testing.T) {
	db := newDB(t)
	const n = 1203
	fill(t, db, n)
	asked := map[string]int{}
	dropped := must[int](t)(db.Prune(func(r store.Row) bool { asked[r.TaskID]++; return r.Tokens%2 == 0 }))
	if dropped != n/2+1 {
		t.Errorf("dropped %d", dropped)
	}
	for id, times := range asked {
		if times != 1 {
			t.Errorf("asked %d times for %s", times, id)
		}
	}
	if len(asked) != n {
		t.Errorf("asked for %d rows of %d", len(asked), n)
	}
	for _, r := range must[[]store.Row](t)(db.Rows(n)) {
		if r.Tokens%2 == 0 {
			t.Errorf("row %s is still there", r.TaskID)
		}
	}
	if got, want := must[store.Counts](t)(db.Counts()), (store.Counts{Rows: n / 2, Open: n / 2}); got != want {
		t.Errorf("counts %+v, want %+v", got, want)
	}
	check(t, db.Check())
	if n := must[int](t)(db.Prune(func(store.Row) bool { return false })); n != 0 {
		t.Errorf("dropped %d of nothing", n)
	}
}

// fill makes n open rows with their number as tokens.
func fill(t *testing.T, db *store.DB, n int) {
	t.Helper()
	var writers sync.WaitGroup
	for w := range 8 {
		writers.Go(func() {
			for i := w; i < n; i += 8 {
				row := store.Row{TaskID: fmt.Sprintf("task-%05d", i), Seen: at(0).Add(time.Duration(i) * time.Second), Tokens: int64(i)}
				if _, err := db.Upsert(row, func(*store.Row) error { return nil }); err != nil {
					t.Error(err)
				}
			}
		})
	}
	writers.Wait()
}

// TestDB_Concurrent: many writers of one row and readers of all lists.
func TestDB_Concurrent(t *testing.T) {
	db := newDB(t)
	must[store.Row](t)(db.Begin(store.Row{TaskID: "task-1"}, store.Attempt{}))
	var all sync.WaitGroup
	for w := range 6 {
		all.Go(func() {
			for range 20 {
				if _, err := db.Update("task-1", func(r *store.Row) error { r.Tokens++; return nil }); err != nil {
					t.Error(err)
				}
				if _, err := db.Begin(store.Row{TaskID: fmt.Sprintf("task-%d", w+10)}, store.Attempt{}); err != nil {
					t.Error(err)
				}
				if _, err := db.Rows(3); err != nil {
					t.Error(err)
				}
				if _, err := db.OpenRows(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if row, _, _ := db.Row("task-1"); row.Tokens != 120 {
		t.Errorf("%d of 120 changes are there", row.Tokens)
	}
	if row, _, _ := db.Row("task-12"); len(row.Attempts) != 20 || row.Attempts[19].N != 20 {
		t.Errorf("attempts: %+v", row.Attempts)
	}
	check(t, db.Check())
}
