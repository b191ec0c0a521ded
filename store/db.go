package store

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

// Defaults.
const (
	// DefaultLockWait is how long Open waits for another holder of the file.
	DefaultLockWait = 2 * time.Second
	// DefaultMaxSize bounds the file: about a million settled rows.
	DefaultMaxSize = 1 << 30
)

// ErrLocked says that another process has the ledger open.
var ErrLocked = errors.New("the ledger is open in another process")

// Options of Open.
type Options struct {
	LockWait time.Duration // DefaultLockWait when 0
	MaxSize  int           // bytes; DefaultMaxSize when 0
}

// DB is an open ledger. It is safe for use by several goroutines.
type DB struct {
	bolt *bolt.DB
}

// Open opens or makes the ledger at path and brings it to this program's
// schema. A directory that is missing is made, 0700; the file is 0600. It fails
// with [ErrLocked], *[DamagedError] or *[NewerError] without changing anything.
func Open(path string, o Options) (*DB, error) { return open(path, o, migrations()) }

func open(path string, o Options, steps []migration) (*DB, error) {
	if o.LockWait <= 0 {
		o.LockWait = DefaultLockWait
	}
	if o.MaxSize <= 0 {
		o.MaxSize = DefaultMaxSize
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("make ledger dir: %w", err)
	}
	try := &opening{path: path, wait: o.LockWait}
	db, err := try.run(&bolt.Options{MaxSize: o.MaxSize, FreelistType: bolt.FreelistMapType},
		func(b *bolt.DB) error { return migrate(b, path, steps) })
	if err != nil {
		return nil, err
	}
	// Before anything is acknowledged: from here on the ledger must exist.
	if err := mark(path); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

// OpenReadOnly opens an existing ledger for reading. It fails with [ErrLocked]
// while a service has it open: ask that service instead.
func OpenReadOnly(path string, wait time.Duration) (*DB, error) {
	try := &opening{path: path, wait: wait, readOnly: true}
	return try.run(&bolt.Options{ReadOnly: true},
		func(b *bolt.DB) error { return checkSchema(b, path, len(migrations())) })
}

// run opens the file and prepares it. bbolt panics on a ledger whose pages are
// not what their number says, and the process gets SIGSEGV for pages that are
// not there: both become a *[DamagedError].
func (o *opening) run(options *bolt.Options, prepare func(*bolt.DB) error) (db *DB, err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if broken := recover(); broken != nil {
			o.release()
			db, err = nil, &DamagedError{Path: o.path, Why: fmt.Sprint(broken)}
		}
	}()
	options.Timeout = time.Second // the file comes locked already
	options.OpenFile = o.open
	b, err := bolt.Open(o.path, 0o600, options)
	switch {
	case err == nil:
	case errors.Is(err, bolterrors.ErrInvalid), errors.Is(err, bolterrors.ErrChecksum), errors.Is(err, bolterrors.ErrVersionMismatch):
		return nil, &DamagedError{Path: o.path, Why: err.Error()}
	default:
		return nil, fmt.Errorf("open ledger %q: %w", o.path, err)
	}
	if err := errors.Join(prepare(b), readAll(b, o.path)); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return &DB{bolt: b}, nil
}

// readAll reads every value once. A page that was spoiled would otherwise end
// the process when it is first wanted, in the middle of somebody's turn, and
// again after each restart. 100,000 rows take 0.1 s.
func readAll(b *bolt.DB, path string) error {
	return b.View(func(tx *bolt.Tx) error {
		return tx.ForEach(func(name []byte, bucket *bolt.Bucket) error {
			return bucket.ForEach(func(key, value []byte) error {
				if len(value) > 0 && !json.Valid(value) {
					return &DamagedError{Path: path, Why: fmt.Sprintf("a value in its bucket %q cannot be read", name)}
				}
				return nil
			})
		})
	})
}

// Close waits for running transactions and gives the file back.
func (db *DB) Close() error {
	if err := db.bolt.Close(); err != nil {
		return fmt.Errorf("close ledger: %w", err)
	}
	return nil
}

// Snapshot writes a consistent copy of the ledger while it is in use.
func (db *DB) Snapshot(to io.Writer) error {
	err := db.bolt.View(func(tx *bolt.Tx) error {
		_, err := tx.WriteTo(to)
		return err
	})
	if err != nil {
		return fmt.Errorf("copy ledger: %w", err)
	}
	return nil
}

// Check reads every page and every value. It takes time in proportion to the
// file, and belongs in a process of its own when the file is under suspicion:
// bbolt may crash on it.
func (db *DB) Check() error {
	err := db.bolt.View(func(tx *bolt.Tx) error {
		var faults []error
		for err := range tx.Check() {
			faults = append(faults, err)
		}
		return errors.Join(append(faults, checkIndexes(tx))...)
	})
	if err != nil {
		return &DamagedError{Path: db.bolt.Path(), Why: err.Error()}
	}
	return nil
}

// Counts is how much the ledger holds.
type Counts struct{ Rows, Open, Channels, Generations int }

// Counts counts the records.
func (db *DB) Counts() (Counts, error) {
	var c Counts
	err := db.bolt.View(func(tx *bolt.Tx) error {
		count := func(bucket []byte) int { return tx.Bucket(bucket).Stats().KeyN }
		c = Counts{Rows: count(bucketLedger), Open: count(bucketOpen), Channels: count(bucketChannels), Generations: count(bucketGenerations)}
		return nil
	})
	if err != nil {
		return Counts{}, fmt.Errorf("count records: %w", err)
	}
	return c, nil
}

// errUnchanged ends a transaction that has nothing to write, and so needs no
// fsync.
var errUnchanged = errors.New("nothing to write")

// update is one durable transaction.
func (db *DB) update(change func(*bolt.Tx) error) error {
	if err := db.bolt.Update(change); !errors.Is(err, errUnchanged) {
		return err
	}
	return nil
}

func put(b *bolt.Bucket, key []byte, v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode %q: %w", key, err)
	}
	return b.Put(key, raw)
}

func number(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }

// clip bounds a text in a record, in bytes, at a character's end.
func clip(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	cut := limit
	for cut > 0 && text[cut]&0xC0 == 0x80 {
		cut--
	}
	return text[:cut]
}
