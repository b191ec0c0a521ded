package store

import (
	"encoding/json"
	"fmt"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/codex-supervisor/codex-supervisor/internal/proc"
	"github.com/codex-supervisor/codex-supervisor/internal/reason"
)

// maxGenerations is how many generations are kept.
const maxGenerations = 200

// Generation is one incarnation of the child.
type Generation struct {
	N        uint64        `json:"n"`
	Child    proc.Identity `json:"child"`
	Guard    proc.Identity `json:"guard"`
	Version  string        `json:"version,omitempty"`
	Started  time.Time     `json:"started"`
	Ended    time.Time     `json:"ended,omitzero"`
	End      reason.Reason `json:"end,omitempty"`
	ExitCode int           `json:"exit_code,omitempty"`
	Signal   string        `json:"signal,omitempty"`
	Stderr   []string      `json:"stderr,omitempty"` // its last lines
}

// NextGeneration takes the next number. Numbers are never used twice.
func (db *DB) NextGeneration() (uint64, error) {
	var n uint64
	err := db.bolt.Update(func(tx *bolt.Tx) (err error) {
		n, err = tx.Bucket(bucketGenerations).NextSequence()
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("take generation number: %w", err)
	}
	return n, nil
}

// SaveGeneration writes a generation and forgets the oldest ended ones.
func (db *DB) SaveGeneration(g Generation) error {
	err := db.bolt.Update(func(tx *bolt.Tx) error {
		b := tx.Bucket(bucketGenerations)
		if err := put(b, number(g.N), g); err != nil {
			return err
		}
		if g.N <= maxGenerations {
			return nil
		}
		c := b.Cursor()
		oldest := string(number(g.N - maxGenerations))
		for k, _ := c.First(); k != nil && string(k) <= oldest; k, _ = c.Next() {
			if err := c.Delete(); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("write generation %d: %w", g.N, err)
	}
	return nil
}

// LiveGenerations returns those whose end was never recorded.
func (db *DB) LiveGenerations() ([]Generation, error) {
	return db.generations(func(g Generation) bool { return g.Ended.IsZero() })
}

func (db *DB) generations(want func(Generation) bool) ([]Generation, error) {
	var list []Generation
	err := db.bolt.View(func(tx *bolt.Tx) error {
		return tx.Bucket(bucketGenerations).ForEach(func(_, raw []byte) error {
			var g Generation
			if err := json.Unmarshal(raw, &g); err != nil {
				return err
			}
			if want(g) {
				list = append(list, g)
			}
			return nil
		})
	})
	if err != nil {
		return nil, fmt.Errorf("list generations: %w", err)
	}
	return list, nil
}

// LastGenerations returns at most n generations, newest first.
func (db *DB) LastGenerations(n int) ([]Generation, error) {
	all, err := db.generations(func(Generation) bool { return true })
	if err != nil {
		return nil, err
	}
	var list []Generation
	for i := len(all) - 1; i >= 0 && len(list) < n; i-- {
		list = append(list, all[i])
	}
	return list, nil
}
