package store

import (
	"encoding/json"
	"fmt"
	"time"

	bolt "go.etcd.io/bbolt"
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

// migration brings a ledger from one schema to the next.
type migration func(*bolt.Tx) error

// migrations are all steps, the first from an empty file. The schema's version
// is how many have run. They go forward only, and one that was released is never
// changed. Whatever alters what is stored needs a step, a field that is added
// included: an older program would drop it without a word when it rewrites a
// record, and the version is what makes it refuse instead.
func migrations() []migration {
	return []migration{makeBuckets}
}

func buckets() [][]byte {
	return [][]byte{bucketMeta, bucketChannels, bucketLedger, bucketOpen, bucketSeen, bucketGenerations}
}

func makeBuckets(tx *bolt.Tx) error {
	for _, name := range buckets() {
		if _, err := tx.CreateBucket(name); err != nil {
			return err
		}
	}
	return nil
}

// NewerError is a ledger written by a newer version of this program.
type NewerError struct {
	Path        string
	Found, Know int
}

func (e *NewerError) Error() string {
	return fmt.Sprintf("ledger %q has schema %d, this version knows %d; use the newer version", e.Path, e.Found, e.Know)
}

// migrate runs the steps that are missing, all in one transaction.
func migrate(b *bolt.DB, path string, steps []migration) error {
	found, err := schema(b, path, len(steps))
	if err != nil || found == len(steps) {
		return err
	}
	err = b.Update(func(tx *bolt.Tx) error {
		for i, step := range steps[found:] {
			if err := step(tx); err != nil {
				return fmt.Errorf("to schema %d: %w", found+i+1, err)
			}
		}
		return put(tx.Bucket(bucketMeta), keySchema, len(steps))
	})
	if err != nil {
		return fmt.Errorf("migrate ledger %q: %w", path, err)
	}
	return nil
}

// checkSchema is for those who may not migrate.
func checkSchema(b *bolt.DB, path string, know int) error {
	found, err := schema(b, path, know)
	if err == nil && found < know {
		return fmt.Errorf("ledger %q has the older schema %d; start the service once to bring it to %d", path, found, know)
	}
	return err
}

// schema reads the version, 0 when there is none, and judges it.
func schema(b *bolt.DB, path string, know int) (version int, err error) {
	err = b.View(func(tx *bolt.Tx) error {
		meta := tx.Bucket(bucketMeta)
		if meta == nil {
			if first, _ := tx.Cursor().First(); first != nil {
				return &DamagedError{Path: path, Why: "it is a database of something else"}
			}
			return nil
		}
		if err := json.Unmarshal(meta.Get(keySchema), &version); err != nil || version < 1 {
			return &DamagedError{Path: path, Why: "it holds no schema version"}
		}
		if version > know {
			return &NewerError{Path: path, Found: version, Know: know}
		}
		for _, name := range buckets() {
			if version == know && tx.Bucket(name) == nil {
				return &DamagedError{Path: path, Why: fmt.Sprintf("its bucket %q is missing", name)}
			}
		}
		return nil
	})
	return version, err
}

// FirstStart says whether no start of a service was ever completed here: it is
// true until [DB.MarkStarted].
func (db *DB) FirstStart() (bool, error) {
	first := false
	err := db.bolt.View(func(tx *bolt.Tx) error {
		first = tx.Bucket(bucketMeta).Get(keyStarted) == nil
		return nil
	})
	if err != nil {
		return false, fmt.Errorf("read first start: %w", err)
	}
	return first, nil
}

// MarkStarted ends the first start.
func (db *DB) MarkStarted() error {
	err := db.update(func(tx *bolt.Tx) error {
		meta := tx.Bucket(bucketMeta)
		if meta.Get(keyStarted) != nil {
			return errUnchanged
		}
		return put(meta, keyStarted, time.Now())
	})
	if err != nil {
		return fmt.Errorf("record first start: %w", err)
	}
	return nil
}
