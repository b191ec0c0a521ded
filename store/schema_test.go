package store_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/codex-supervisor/codex-supervisor/internal/proc"
	"github.com/codex-supervisor/codex-supervisor/internal/reason"
	"github.com/codex-supervisor/codex-supervisor/internal/task"
	"github.com/codex-supervisor/codex-supervisor/store"
)

var update = flag.Bool("update", false, "write the golden files of a schema that is not released yet")

// golden is what the golden ledger of schema 1 holds. Later schemas must still
// read all of it.
func golden() (rows []store.Row, channel store.Channel, generation store.Generation) {
	rows = []store.Row{
		{
			TaskID: "task-2", ChannelKey: "default", Tier: task.Team, State: store.StateSettled, Outcome: store.TimedOut, Reason: reason.TurnTimeout,
			Queued: at(8), Seen: at(9), SettledAt: at(20),
		},
		{
			TaskID: "task-1", ChannelKey: task.ChannelKey("room one"), ChannelName: "room one", Tier: task.Owner, Verdict: task.Verified,
			State: store.StateReplied, Outcome: store.Answered, Reason: reason.Answered, Detail: "detail",
			Attempts: []store.Attempt{
				{N: 1, Kind: store.First, Generation: 1, BootID: "boot", ThreadID: "thread", NewThread: true, TurnID: "turn-1", TurnSeen: true, Began: at(3), Ended: at(4), End: reason.ChildDied},
				{N: 2, Kind: store.Continuation, Generation: 2, BootID: "boot", ThreadID: "thread", TurnID: "turn-2", Began: at(5), Stopping: reason.Cancelled},
			},
			Queued: at(1), Seen: at(2), RepliedAt: at(6), Tokens: 70, Deaths: 1, ResultBytes: 80, Cut: true,
			Declined: []store.Declined{{Method: "item/commandExecution/requestApproval", At: at(5)}}, Notice: "notice",
		},
	}
	channel = store.Channel{
		Key: task.ChannelKey("room one"), Name: "room one",
		Owner:     &store.Thread{ID: "thread", Created: at(3), LastUsed: at(5), Turns: 2, Bound: true, Generation: 2},
		Ephemeral: []store.Ephemeral{{ThreadID: "ephemeral", TaskID: "task-2", Tier: task.Team, Generation: 2, Started: at(9), Ended: at(20)}},
	}
	generation = store.Generation{
		N: 2, Child: proc.Identity{PID: 20, StartTime: 21, BootID: "boot"}, Guard: proc.Identity{PID: 19, StartTime: 18, BootID: "boot"}, Version: "0.171.0",
		Started: at(1), Ended: at(30), End: reason.ChildStopped, ExitCode: 3, Signal: "killed", Stderr: []string{"one", "two"},
	}
	return rows, channel, generation
}

func writeGolden(t *testing.T, path string) {
	t.Helper()
	rows, channel, generation := golden()
	db := mustOpen(t, path)
	for _, row := range rows {
		must[store.Row](t)(db.Upsert(row, func(*store.Row) error { return nil }))
	}
	check(t, db.SaveOwner(channel.Key, channel.Name, *channel.Owner))
	check(t, db.AddEphemeral(channel.Key, "", channel.Ephemeral[0]))
	must[uint64](t)(db.NextGeneration())
	must[uint64](t)(db.NextGeneration())
	check(t, db.SaveGeneration(generation))
	check(t, db.MarkStarted())
	check(t, db.Close())
}

const goldenFile = "testdata/ledger-1.db.gz"

func TestSchema_Golden(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	if *update {
		made := filepath.Join(t.TempDir(), "ledger.db")
		writeGolden(t, made)
		var packed bytes.Buffer
		w := gzip.NewWriter(&packed)
		must[int](t)(w.Write(must[[]byte](t)(os.ReadFile(made))))
		check(t, w.Close())
		check(t, os.WriteFile(goldenFile, packed.Bytes(), 0o644))
	}
	packed := must[*os.File](t)(os.Open(goldenFile))
	defer packed.Close()
	raw := must[[]byte](t)(io.ReadAll(must[*gzip.Reader](t)(gzip.NewReader(packed))))
	check(t, os.WriteFile(path, raw, 0o600))

	db := mustOpen(t, path)
	check(t, db.Check())
	rows, channel, generation := golden()
	if got := must[[]store.Row](t)(db.Rows(9)); !reflect.DeepEqual(got, rows) {
		t.Errorf("rows\n%+v\nwant\n%+v", got, rows)
	}
	if got := must[[]store.Row](t)(db.OpenRows()); len(got) != 1 || got[0].TaskID != "task-1" {
		t.Errorf("open rows %v", ids(got))
	}
	if got := must[[]store.Channel](t)(db.Channels()); len(got) != 1 || !reflect.DeepEqual(got[0], channel) {
		t.Errorf("channels\n%+v\nwant\n%+v", got, channel)
	}
	if got := must[[]store.Generation](t)(db.LastGenerations(9)); len(got) != 1 || !reflect.DeepEqual(got[0], generation) {
		t.Errorf("generations\n%+v\nwant\n%+v", got, generation)
	}
	if n := must[uint64](t)(db.NextGeneration()); n != 3 {
		t.Errorf("next generation %d", n)
	}
	if must[bool](t)(db.FirstStart()) {
		t.Error("the first start is forgotten")
	}
}

// TestSchema_Shape fails when a stored field changes, so that nobody forgets the
// migration: an older program drops fields that it does not know, and only the
// version makes it refuse.
func TestSchema_Shape(t *testing.T) {
	var b strings.Builder
	for _, v := range []any{store.Row{}, store.Channel{}, store.Generation{}} {
		shape(&b, reflect.TypeOf(v), "")
	}
	const file = "testdata/shape-1.txt"
	if *update {
		check(t, os.WriteFile(file, []byte(b.String()), 0o644))
	}
	if want := string(must[[]byte](t)(os.ReadFile(file))); b.String() != want {
		t.Errorf("what is stored has changed. Add a migration and golden files for the next schema "+
			"(or, while this one is not released, run this test with -update).\n%s\nwant\n%s", b.String(), want)
	}
}

func shape(b *strings.Builder, t reflect.Type, indent string) {
	fmt.Fprintf(b, "%s\n", t.Name())
	indent += "  "
	for i := range t.NumField() {
		f := t.Field(i)
		fmt.Fprintf(b, "%s%s ", indent, f.Tag.Get("json"))
		inner := f.Type
		for inner.Kind() == reflect.Slice || inner.Kind() == reflect.Pointer {
			b.WriteString(map[reflect.Kind]string{reflect.Slice: "[]", reflect.Pointer: "*"}[inner.Kind()])
			inner = inner.Elem()
		}
		if inner.Kind() == reflect.Struct && inner != reflect.TypeFor[time.Time]() {
			shape(b, inner, indent)
			continue
		}
		fmt.Fprintln(b, inner)
	}
}

func TestSchema_Migration(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	writeGolden(t, path)
	rename := func(tx *bolt.Tx) error {
		b := tx.Bucket([]byte("channels"))
		return b.Put([]byte("moved"), b.Get([]byte(task.ChannelKey("room one"))))
	}
	fails := errors.New("step fails")
	if _, err := store.OpenSteps(path, rename, func(*bolt.Tx) error { return fails }); !errors.Is(err, fails) || !strings.Contains(err.Error(), "to schema 3") {
		t.Errorf("failing migration: %v", err)
	}
	db := mustOpen(t, path) // still the first schema, and nothing of the step that worked
	if _, ok, _ := db.Channel("moved"); ok {
		t.Error("half a migration was kept")
	}
	check(t, db.Close())

	runs := 0
	count := func(*bolt.Tx) error { runs++; return nil }
	for range 2 {
		db = must[*store.DB](t)(store.OpenSteps(path, rename, count))
		if c, ok, err := db.Channel("moved"); !ok || err != nil || c.Owner.ID != "thread" {
			t.Errorf("after the migration: %+v, %v", c, err)
		}
		check(t, db.Close())
	}
	if runs != 1 {
		t.Errorf("a step ran %d times", runs)
	}

	// The older program refuses, whichever way it opens, and changes nothing.
	before := must[[]byte](t)(os.ReadFile(path))
	for _, open := range []func() (*store.DB, error){
		func() (*store.DB, error) { return store.Open(path, store.Options{}) },
		func() (*store.DB, error) { return store.OpenReadOnly(path, 0) },
	} {
		_, err := open()
		if newer := (*store.NewerError)(nil); !errors.As(err, &newer) || newer.Found != 3 || newer.Know != 1 || newer.Path != path || !strings.Contains(err.Error(), "schema 3") {
			t.Errorf("older program: %v", err)
		}
	}
	if !bytes.Equal(before, must[[]byte](t)(os.ReadFile(path))) {
		t.Error("the older program changed the file")
	}
}

func TestSchema_Foreign(t *testing.T) {
	make := func(change func(*bolt.Tx) error) string {
		path := filepath.Join(t.TempDir(), "ledger.db")
		b := must[*bolt.DB](t)(bolt.Open(path, 0o600, nil))
		check(t, b.Update(change))
		check(t, b.Close())
		return path
	}
	bucket := func(tx *bolt.Tx, name string) *bolt.Bucket {
		return must[*bolt.Bucket](t)(tx.CreateBucket([]byte(name)))
	}
	for name, change := range map[string]func(*bolt.Tx) error{
		"SomethingElse": func(tx *bolt.Tx) error { bucket(tx, "invoices"); return nil },
		"NoVersion":     func(tx *bolt.Tx) error { bucket(tx, "meta"); return nil },
		"BadVersion":    func(tx *bolt.Tx) error { return bucket(tx, "meta").Put([]byte("schema"), []byte(`"one"`)) },
		"ZeroVersion":   func(tx *bolt.Tx) error { return bucket(tx, "meta").Put([]byte("schema"), []byte(`0`)) },
		"BucketGone":    func(tx *bolt.Tx) error { return bucket(tx, "meta").Put([]byte("schema"), []byte(`1`)) },
	} {
		path := make(change)
		if _, err := store.Open(path, store.Options{}); !errors.As(err, new(*store.DamagedError)) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := os.Stat(path + ".exists"); err == nil {
			t.Errorf("%s: marked as a ledger", name)
		}
	}
	// A database without anything is one that was being made.
	empty := make(func(*bolt.Tx) error { return nil })
	if _, err := store.OpenReadOnly(empty, 0); err == nil || !strings.Contains(err.Error(), "start the service once") {
		t.Errorf("reading an older schema: %v", err)
	}
	check(t, mustOpen(t, empty).Check())
}

// TestSchema_UnknownFields: what a row carries that we do not know does not keep
// it from being read.
func TestSchema_UnknownFields(t *testing.T) {
	db := newDB(t)
	row := must[store.Row](t)(db.Begin(store.Row{TaskID: "task-1"}, store.Attempt{}))
	var fields map[string]any
	check(t, json.Unmarshal(must[[]byte](t)(json.Marshal(row)), &fields))
	fields["from_the_future"] = map[string]any{"x": 1}
	check(t, store.Bolt(db).Update(func(tx *bolt.Tx) error {
		return tx.Bucket([]byte("ledger")).Put([]byte("task-1"), must[[]byte](t)(json.Marshal(fields)))
	}))
	if got, ok, err := db.Row("task-1"); err != nil || !ok || len(got.Attempts) != 1 {
		t.Errorf("read %+v, %t, %v", got, ok, err)
	}
}
