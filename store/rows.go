package store

import (
	"bytes"
	"encoding/json"
	"fmt"

	bolt "go.etcd.io/bbolt"
)

func readRow(tx *bolt.Tx, id []byte) (row Row, known bool, err error) {
	raw := tx.Bucket(bucketLedger).Get(id)
	if raw == nil {
		return Row{}, false, nil
	}
	if err := json.Unmarshal(raw, &row); err != nil {
		return Row{}, false, fmt.Errorf("read ledger row %s: %w", id, err)
	}
	return row, true, nil
}

// Row returns a task's row.
func (db *DB) Row(taskID string) (row Row, known bool, err error) {
	err = db.bolt.View(func(tx *bolt.Tx) (err error) {
		row, known, err = readRow(tx, []byte(taskID))
		return err
	})
	return row, known, err
}

// OpenRows returns the rows that are not settled, in the order of their ids.
func (db *DB) OpenRows() ([]Row, error) {
	var rows []Row
	err := db.bolt.View(func(tx *bolt.Tx) error {
		return tx.Bucket(bucketOpen).ForEach(func(id, _ []byte) error {
			row, _, err := readRow(tx, id)
			rows = append(rows, row)
			return err
		})
	})
	if err != nil {
		return nil, fmt.Errorf("list open rows: %w", err)
	}
	return rows, nil
}

// Rows returns at most limit rows, the last seen first.
func (db *DB) Rows(limit int) ([]Row, error) {
	var rows []Row
	err := db.bolt.View(func(tx *bolt.Tx) error {
		c := tx.Bucket(bucketSeen).Cursor()
		for k, _ := c.Last(); k != nil && len(rows) < limit; k, _ = c.Prev() {
			row, _, err := readRow(tx, k[8:])
			if err != nil {
				return err
			}
			rows = append(rows, row)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list rows: %w", err)
	}
	return rows, nil
}

// DeleteRow forgets a task. One that is not known is no error.
func (db *DB) DeleteRow(taskID string) error {
	err := db.update(func(tx *bolt.Tx) error {
		row, known, err := readRow(tx, []byte(taskID))
		if err != nil {
			return err
		}
		if !known {
			return errUnchanged
		}
		return forget(tx, row)
	})
	if err != nil {
		return fmt.Errorf("delete ledger row: %w", err)
	}
	return nil
}

func forget(tx *bolt.Tx, row Row) error {
	if err := dropIndexes(tx, row); err != nil {
		return err
	}
	return tx.Bucket(bucketLedger).Delete([]byte(row.TaskID))
}

// pruneBatch bounds a transaction of Prune, so that no attempt waits long for it.
const pruneBatch = 500

// Prune forgets the rows that drop says yes to, and returns how many. drop runs
// inside a transaction, once for each row, and must not use the store.
func (db *DB) Prune(drop func(Row) bool) (int, error) {
	total := 0
	for after, more := []byte(nil), true; more; {
		dropped := 0
		err := db.update(func(tx *bolt.Tx) error {
			gone, last, err := pickRows(tx, after, drop)
			if err != nil {
				return err
			}
			after, more, dropped = last, last != nil, len(gone)
			if dropped == 0 {
				return errUnchanged
			}
			for _, row := range gone {
				if err := forget(tx, row); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return total, fmt.Errorf("prune ledger: %w", err)
		}
		total += dropped
	}
	return total, nil
}

// pickRows looks at one batch of rows behind the id after; last is nil at the end.
func pickRows(tx *bolt.Tx, after []byte, drop func(Row) bool) (gone []Row, last []byte, err error) {
	c := tx.Bucket(bucketLedger).Cursor()
	k, raw := c.Seek(after)
	if k != nil && bytes.Equal(k, after) {
		k, raw = c.Next()
	}
	for n := 0; k != nil; k, raw = c.Next() {
		var row Row
		if err := json.Unmarshal(raw, &row); err != nil {
			return nil, nil, fmt.Errorf("read ledger row %s: %w", k, err)
		}
		if drop(row) {
			gone = append(gone, row)
		}
		if n++; n == pruneBatch {
			return gone, bytes.Clone(k), nil
		}
	}
	return gone, nil, nil
}
