package store_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/codex-supervisor/codex-supervisor/store"
)

func TestOpen_FileAndDir(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state", "deep", "ledger.db")
	check(t, mustOpen(t, path).Close())
	mode := func(path string) fs.FileMode {
		t.Helper()
		return must[fs.FileInfo](t)(os.Stat(path)).Mode().Perm()
	}
	if d, f, m := mode(filepath.Dir(path)), mode(path), mode(path+".exists"); d != 0o700 || f != 0o600 || m != 0o600 {
		t.Errorf("modes %o, %o, %o", d, f, m)
	}
	check(t, os.Chmod(path, 0o644))
	db := mustOpen(t, path)
	if b := store.Bolt(db); b.NoSync || b.NoGrowSync || b.NoFreelistSync {
		t.Error("a transaction is not durable when it returns")
	}
	check(t, db.Close())
	if f := mode(path); f != 0o600 {
		t.Errorf("left open to others: %o", f)
	}
}

func TestOpen_Locked(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	db := mustOpen(t, path)
	if _, err := store.Open(path, store.Options{LockWait: 30 * time.Millisecond}); !errors.Is(err, store.ErrLocked) {
		t.Errorf("second open: %v", err)
	}
	if _, err := store.OpenReadOnly(path, 0); !errors.Is(err, store.ErrLocked) {
		t.Errorf("reading beside a writer: %v", err)
	}
	// Whoever waits gets it when it becomes free.
	got := make(chan error, 1)
	go func() {
		second, err := store.Open(path, store.Options{LockWait: time.Minute})
		if err == nil {
			err = second.Close()
		}
		got <- err
	}()
	check(t, db.Close())
	check(t, <-got)
}

func TestOpenReadOnly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	if _, err := store.OpenReadOnly(path, 0); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no ledger: %v", err)
	}
	check(t, os.WriteFile(path, nil, 0o600))
	if _, err := store.OpenReadOnly(path, 0); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that nothing was written to: %v", err)
	}
	db := mustOpen(t, path)
	check(t, db.SaveOwner("k", "room", store.Thread{ID: "t"}))
	check(t, db.Close())
	a := must[*store.DB](t)(store.OpenReadOnly(path, 0))
	defer a.Close()
	b := must[*store.DB](t)(store.OpenReadOnly(path, 0)) // readers do not exclude each other
	defer b.Close()
	if c, ok, err := b.Channel("k"); !ok || err != nil || c.Owner.ID != "t" {
		t.Errorf("read %+v, %t, %v", c, ok, err)
	}
	if err := b.SaveOwner("k", "", store.Thread{ID: "u"}); err == nil {
		t.Error("a reader wrote")
	}
	if _, err := store.Open(path, store.Options{LockWait: time.Millisecond}); !errors.Is(err, store.ErrLocked) {
		t.Errorf("writing beside readers: %v", err)
	}
}

func TestOpen_FirstStart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	db := mustOpen(t, path)
	if first := must[bool](t)(db.FirstStart()); !first {
		t.Error("a new ledger has been started before")
	}
	check(t, db.MarkStarted())
	check(t, db.MarkStarted())
	check(t, db.Close())
	if first := must[bool](t)(mustOpen(t, path).FirstStart()); first {
		t.Error("the first start is not remembered")
	}
}

// damaged makes a ledger of some size, spoils it, and returns what Open says and
// whether the file was left as it was.
func damaged(t *testing.T, spoil func(path string)) error {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ledger.db")
	db := mustOpen(t, path)
	for i := range 40 {
		must[store.Row](t)(db.Begin(store.Row{TaskID: fmt.Sprint("task-", i), Detail: strings.Repeat("x", 1500)}, store.Attempt{}))
	}
	check(t, db.Close())
	spoil(path)
	before, missing := os.ReadFile(path)
	for _, open := range []func() (*store.DB, error){
		func() (*store.DB, error) { return store.OpenReadOnly(path, 0) },
		func() (*store.DB, error) { return store.Open(path, store.Options{}) },
		func() (*store.DB, error) { return store.Open(path, store.Options{}) }, // the lock was given back
	} {
		db, err := open()
		if err == nil {
			_ = db.Close()
			return nil
		}
		if wrong := (*store.DamagedError)(nil); !errors.As(err, &wrong) || wrong.Path != path {
			t.Errorf("error %v", err)
		}
		if after, err := os.ReadFile(path); !bytes.Equal(before, after) || (err == nil) != (missing == nil) {
			t.Error("the file was changed")
		}
		defer func() { t.Log(err) }()
	}
	return errors.New("refused")
}

func TestOpen_Damaged(t *testing.T) {
	page := os.Getpagesize()
	cut := func(size int) func(string) {
		return func(path string) { check(t, os.Truncate(path, int64(size))) }
	}
	write := func(at int, with []byte) func(string) {
		return func(path string) {
			f := must[*os.File](t)(os.OpenFile(path, os.O_WRONLY, 0))
			must[int](t)(f.WriteAt(with, int64(at)))
			check(t, f.Close())
		}
	}
	zero := make([]byte, 100)
	for name, spoil := range map[string]func(string){
		"Gone":           func(path string) { check(t, os.Remove(path)) },
		"Emptied":        cut(0),
		"CutInMeta":      cut(60),
		"CutAfterMeta":   cut(100),
		"CutToOnePage":   cut(page),
		"CutToTwoPages":  cut(2 * page),
		"CutInAPage":     cut(4*page + 7),
		"CutInTheMiddle": cut(10 * page),
		"BothMetasGone":  func(path string) { write(0, zero)(path); write(page, zero)(path) },
		"Text":           func(path string) { check(t, os.WriteFile(path, bytes.Repeat([]byte("text\n"), 9000), 0o600)) },
		"PagesOverwritten": func(path string) {
			write(2*page, bytes.Repeat([]byte{0xFF}, int(must[fs.FileInfo](t)(os.Stat(path)).Size())-2*page))(path)
		},
	} {
		t.Run(name, func(t *testing.T) {
			if err := damaged(t, spoil); err == nil {
				t.Error("opened")
			}
		})
	}
	// One torn head page is what a power cut may leave: the other one holds.
	for i := range 2 {
		t.Run(fmt.Sprint("OneMetaTorn", i), func(t *testing.T) {
			if err := damaged(t, write(i*page+56, bytes.Repeat([]byte{0x7F}, 8))); err != nil {
				t.Errorf("refused: %v", err)
			}
		})
	}
}

// TestOpen_FirstStartCut: a file that was being made when the machine stopped
// holds nothing, and is no reason to stay down.
func TestOpen_FirstStartCut(t *testing.T) {
	whole := filepath.Join(t.TempDir(), "ledger.db")
	check(t, mustOpen(t, whole).Close())
	text := must[[]byte](t)(os.ReadFile(whole))
	for _, size := range []int{0, 1, 100, os.Getpagesize(), 3*os.Getpagesize() + 5} {
		path := filepath.Join(t.TempDir(), "ledger.db")
		check(t, os.WriteFile(path, text[:size], 0o600))
		check(t, mustOpen(t, path).Check())
		if size > 0 && !bytes.Equal(text[:size], must[[]byte](t)(os.ReadFile(path+".torn"))) {
			t.Errorf("%d bytes were not put aside", size)
		}
	}
}

func TestDB_Snapshot(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	db := mustOpen(t, path)
	must[store.Row](t)(db.Begin(store.Row{TaskID: "task-1"}, store.Attempt{}))
	copied := filepath.Join(t.TempDir(), "copy.db")
	f := must[*os.File](t)(os.Create(copied))
	check(t, db.Snapshot(f))
	check(t, f.Close())
	must[store.Row](t)(db.Begin(store.Row{TaskID: "task-2"}, store.Attempt{}))
	other := mustOpen(t, copied)
	if rows := must[[]store.Row](t)(other.Rows(9)); len(rows) != 1 || rows[0].TaskID != "task-1" {
		t.Errorf("the copy holds %v", ids(rows))
	}
	check(t, other.Check())
	check(t, db.Close())
	if err := db.Snapshot(&bytes.Buffer{}); err == nil {
		t.Error("a copy of a closed ledger")
	}
}

func TestDB_Check(t *testing.T) {
	for name, spoil := range map[string]func(tx *bolt.Tx) error{
		"OpenMissing": func(tx *bolt.Tx) error { return tx.Bucket([]byte("open")).Delete([]byte("task-1")) },
		"OpenTooMany": func(tx *bolt.Tx) error { return tx.Bucket([]byte("open")).Put([]byte("task-2"), nil) },
		"SeenMissing": func(tx *bolt.Tx) error { return tx.Bucket([]byte("ledger")).Put([]byte("task-3"), []byte("{}")) },
		"NotReadable": func(tx *bolt.Tx) error { return tx.Bucket([]byte("ledger")).Put([]byte("task-4"), []byte("{")) },
		"SeenTooMany": func(tx *bolt.Tx) error { return tx.Bucket([]byte("seen")).Put(make([]byte, 9), nil) },
		"SettledStays": func(tx *bolt.Tx) error {
			return tx.Bucket([]byte("ledger")).Put([]byte("task-1"), []byte(`{"state":"settled"}`))
		},
	} {
		t.Run(name, func(t *testing.T) {
			db := newDB(t)
			must[store.Row](t)(db.Begin(store.Row{TaskID: "task-1"}, store.Attempt{}))
			check(t, db.Check())
			check(t, store.Bolt(db).Update(spoil))
			if err := db.Check(); !errors.As(err, new(*store.DamagedError)) {
				t.Errorf("check: %v", err)
			}
		})
	}
}

// TestDB_Unreadable: a value that cannot be read is an error of every list that
// would hold it, and never a gap.
func TestDB_Unreadable(t *testing.T) {
	db := newDB(t)
	must[store.Row](t)(db.Begin(store.Row{TaskID: "task-1"}, store.Attempt{}))
	check(t, db.SaveOwner("k", "", store.Thread{ID: "t"}))
	check(t, db.SaveGeneration(store.Generation{N: 1}))
	check(t, store.Bolt(db).Update(func(tx *bolt.Tx) error {
		return errors.Join(tx.Bucket([]byte("ledger")).Put([]byte("task-1"), []byte("[")), tx.Bucket([]byte("channels")).Put([]byte("k"), []byte("[")),
			tx.Bucket([]byte("generations")).Put(make([]byte, 8), []byte("[")))
	}))
	errOf := func(_ any, err error) error { return err }
	_, _, row := db.Row("task-1")
	_, _, channel := db.Channel("k")
	for name, err := range map[string]error{
		"Row": row, "Rows": errOf(db.Rows(1)), "OpenRows": errOf(db.OpenRows()), "DeleteRow": db.DeleteRow("task-1"),
		"Update": errOf(db.Update("task-1", settle)), "Prune": errOf(db.Prune(func(store.Row) bool { return true })),
		"Channel": channel, "Channels": errOf(db.Channels()), "SaveOwner": db.SaveOwner("k", "", store.Thread{}),
		"EndOlderEphemerals": errOf(db.EndOlderEphemerals(1, at(1))),
		"LastGenerations":    errOf(db.LastGenerations(9)), "SaveGeneration": db.SaveGeneration(store.Generation{N: 300}),
	} {
		if err == nil || !strings.Contains(err.Error(), "JSON") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestDB_Closed(t *testing.T) {
	db := newDB(t)
	check(t, db.Close())
	check(t, db.Close())
	errOf := func(_ any, err error) error { return err }
	for name, err := range map[string]error{
		"FirstStart": errOf(db.FirstStart()), "MarkStarted": db.MarkStarted(), "NextGeneration": errOf(db.NextGeneration()),
		"Counts": errOf(db.Counts()), "Begin": errOf(db.Begin(store.Row{TaskID: "task-1"}, store.Attempt{})), "Check": db.Check(),
	} {
		if err == nil {
			t.Errorf("%s on a closed ledger", name)
		}
	}
}
