package store

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

// schemaVersion is what this program writes. Migrations go forward only.
const schemaVersion = 1

// Defaults.
const (
	// DefaultLockWait is how long Open waits for another holder of the file.
	DefaultLockWait = 2 * time.Second
	// DefaultMaxSize bounds the file: about a million settled rows.
	DefaultMaxSize = 1 << 30
)

var (
	bucketMeta        = []byte("meta")
	bucketChannels    = []byte("channels")
	bucketLedger      = []byte("ledger")
	bucketOpen        = []byte("open")
	bucketSeen        = []byte("seen")
	bucketGenerations = []byte("generations")

	keySchema  = []byte("schema")
	keyStarted = []byte("started")
)

// ErrLocked says that another process has the ledger open.
var ErrLocked = errors.New("the ledger is open in another process")

// DamagedError is a ledger that cannot be trusted. Nothing was changed.
type DamagedError struct {
	Path string
	Why  string
}

func (e *DamagedError) Error() string { return fmt.Sprintf("ledger %q is damaged: %s", e.Path, e.Why) }

// NewerError is a ledger written by a newer version of this program.
type NewerError struct {
	Path        string
	Found, Know int
}

func (e *NewerError) Error() string {
	return fmt.Sprintf("ledger %q has schema %d, this version knows %d; use the newer version", e.Path, e.Found, e.Know)
}

// Options of Open.
type Options struct {
	LockWait time.Duration // DefaultLockWait when 0
	MaxSize  int           // bytes; DefaultMaxSize when 0
}

// DB is an open ledger. It is safe for use by several goroutines.
type DB struct {
	bolt *bolt.DB
}

// Open opens or makes the ledger at path. A directory that is missing is made,
// 0700; the file is 0600.
func Open(path string, o Options) (*DB, error) {
	if o.LockWait <= 0 {
		o.LockWait = DefaultLockWait
	}
	if o.MaxSize <= 0 {
		o.MaxSize = DefaultMaxSize
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("make ledger dir: %w", err)
	}
	if err := inspect(path); err != nil {
		return nil, err
	}
	b, err := bolt.Open(path, 0o600, &bolt.Options{Timeout: o.LockWait, MaxSize: o.MaxSize, FreelistType: bolt.FreelistMapType})
	if err != nil {
		return nil, openError(path, err)
	}
	db := &DB{bolt: b}
	if err := db.migrate(path); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	if err := mark(path); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return db, nil
}

// OpenReadOnly opens an existing ledger for reading. It fails with [ErrLocked]
// while a service has it open: ask that service instead.
func OpenReadOnly(path string, wait time.Duration) (*DB, error) {
	if _, err := os.Stat(path); err != nil {
		return nil, fmt.Errorf("open ledger: %w", err)
	}
	if err := inspect(path); err != nil {
		return nil, err
	}
	b, err := bolt.Open(path, 0o600, &bolt.Options{Timeout: max(wait, time.Millisecond), ReadOnly: true})
	if err != nil {
		return nil, openError(path, err)
	}
	db := &DB{bolt: b}
	if err := db.checkSchema(path); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return db, nil
}

func openError(path string, err error) error {
	switch {
	case errors.Is(err, bolterrors.ErrTimeout):
		return fmt.Errorf("open ledger %q: %w", path, ErrLocked)
	case errors.Is(err, bolterrors.ErrInvalid), errors.Is(err, bolterrors.ErrChecksum), errors.Is(err, bolterrors.ErrVersionMismatch):
		return &DamagedError{Path: path, Why: err.Error()}
	default:
		return fmt.Errorf("open ledger %q: %w", path, err)
	}
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
	return db.bolt.View(func(tx *bolt.Tx) error {
		_, err := tx.WriteTo(to)
		return err
	})
}

func markerPath(path string) string { return path + ".exists" }

// mark leaves word that there is a ledger, outside the ledger.
func mark(path string) error {
	if _, err := os.Stat(markerPath(path)); err == nil {
		return nil
	}
	if err := os.WriteFile(markerPath(path), []byte("a ledger must lie beside this file\n"), 0o600); err != nil {
		return fmt.Errorf("mark ledger: %w", err)
	}
	return nil
}

// boltMagic stands in each of the two meta pages of a bbolt file.
const boltMagic = 0xED0CDAED

// inspect refuses what bbolt would take for a new database, or crash on.
func inspect(path string) error {
	_, err := os.Stat(markerPath(path))
	expected := err == nil
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		if expected {
			return &DamagedError{Path: path, Why: "the file is gone, though there was one"}
		}
		return nil
	}
	if err != nil {
		return fmt.Errorf("look at ledger: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("look at ledger: %w", err)
	}
	if info.Size() == 0 {
		if expected {
			return &DamagedError{Path: path, Why: "the file is empty"}
		}
		return nil
	}
	return inspectPages(path, f, info.Size())
}

// inspectPages compares what the meta pages promise with the size of the file.
// Layout of a meta page: 16 bytes of page header, then magic, version, page size
// and flags (4 bytes each), root bucket (16), freelist page, high water mark (8
// each); see bbolt's internal/common/meta.go.
func inspectPages(path string, f io.ReaderAt, size int64) error {
	head := make([]byte, 80)
	if _, err := f.ReadAt(head, 0); err != nil {
		return &DamagedError{Path: path, Why: fmt.Sprintf("only %d bytes are left of it", size)}
	}
	page := int64(binary.LittleEndian.Uint32(head[24:]))
	if binary.LittleEndian.Uint32(head[16:]) != boltMagic || page < 512 || page > 1<<20 {
		page = int64(os.Getpagesize()) // the first meta page may be torn, the second whole
	}
	whole := false
	for i := range int64(2) {
		meta := make([]byte, 80)
		if _, err := f.ReadAt(meta, i*page); err != nil || binary.LittleEndian.Uint32(meta[16:]) != boltMagic {
			continue
		}
		whole = true
		if pages := int64(binary.LittleEndian.Uint64(meta[56:])); pages > 0 && pages*page > size {
			return &DamagedError{Path: path, Why: fmt.Sprintf("it is cut off: %d of %d bytes are there", size, pages*page)}
		}
	}
	if !whole {
		return &DamagedError{Path: path, Why: "it is not a ledger"}
	}
	return nil
}

func (db *DB) migrate(path string) error {
	err := db.bolt.Update(func(tx *bolt.Tx) error {
		meta, err := tx.CreateBucketIfNotExists(bucketMeta)
		if err != nil {
			return err
		}
		version, err := schemaOf(meta)
		if err != nil {
			return err
		}
		if version > schemaVersion {
			return &NewerError{Path: path, Found: version, Know: schemaVersion}
		}
		for _, b := range [][]byte{bucketChannels, bucketLedger, bucketOpen, bucketSeen, bucketGenerations} {
			if _, err := tx.CreateBucketIfNotExists(b); err != nil {
				return err
			}
		}
		if version == schemaVersion {
			return nil
		}
		return put(meta, keySchema, schemaVersion)
	})
	if err != nil {
		return fmt.Errorf("prepare ledger: %w", err)
	}
	return nil
}

func (db *DB) checkSchema(path string) error {
	return db.bolt.View(func(tx *bolt.Tx) error {
		meta := tx.Bucket(bucketMeta)
		if meta == nil {
			return &DamagedError{Path: path, Why: "it holds no schema version"}
		}
		version, err := schemaOf(meta)
		if err != nil {
			return err
		}
		if version > schemaVersion {
			return &NewerError{Path: path, Found: version, Know: schemaVersion}
		}
		return nil
	})
}

func schemaOf(meta *bolt.Bucket) (int, error) {
	var version int
	if raw := meta.Get(keySchema); raw != nil {
		if err := json.Unmarshal(raw, &version); err != nil {
			return 0, fmt.Errorf("read schema version: %w", err)
		}
	}
	return version, nil
}

// FirstStart says whether no start of a service was ever completed here.
func (db *DB) FirstStart() (bool, error) {
	first := false
	err := db.bolt.View(func(tx *bolt.Tx) error {
		first = tx.Bucket(bucketMeta).Get(keyStarted) == nil
		return nil
	})
	return first, err
}

// MarkStarted ends the first start.
func (db *DB) MarkStarted() error {
	if first, err := db.FirstStart(); err != nil || !first {
		return err
	}
	return db.bolt.Update(func(tx *bolt.Tx) error { return put(tx.Bucket(bucketMeta), keyStarted, time.Now()) })
}

func put(b *bolt.Bucket, key []byte, v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode %s: %w", key, err)
	}
	return b.Put(key, raw)
}

func number(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }
