package store

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/codex-supervisor/codex-supervisor/internal/proc"
	"github.com/codex-supervisor/codex-supervisor/internal/reason"
)

// Bounds of what is kept of generations.
const (
	maxGenerations = 200 // ended ones; one whose end is not known is never forgotten
	maxStderrLines = 50
	maxStderrLine  = 2000
)

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

// SaveGeneration writes a generation and forgets the oldest that have ended.
func (db *DB) SaveGeneration(g Generation) error {
	lines := g.Stderr[max(0, len(g.Stderr)-maxStderrLines):]
	g.Stderr = nil
	for _, line := range lines {
		g.Stderr = append(g.Stderr, clip(line, maxStderrLine))
	}
	err := db.update(func(tx *bolt.Tx) error {
		b := tx.Bucket(bucketGenerations)
		if err := put(b, number(g.N), g); err != nil {
			return err
		}
		var old [][]byte // deleted after the walk: a cursor loses its place by a deletion
		c := b.Cursor()
		for k, raw := c.First(); k != nil && binary.BigEndian.Uint64(k)+maxGenerations <= g.N; k, raw = c.Next() {
			var o Generation
			if err := json.Unmarshal(raw, &o); err != nil {
				return err
			}
			if !o.Ended.IsZero() {
				old = append(old, bytes.Clone(k))
			}
		}
		for _, k := range old {
			if err := b.Delete(k); err != nil {
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

// LiveGenerations returns those whose end was never recorded, oldest first.
func (db *DB) LiveGenerations() ([]Generation, error) {
	list, err := db.generations(math.MaxInt, func(g Generation) bool { return g.Ended.IsZero() })
	slices.Reverse(list)
	return list, err
}

// LastGenerations returns at most n generations, newest first.
func (db *DB) LastGenerations(n int) ([]Generation, error) {
	return db.generations(n, func(Generation) bool { return true })
}

// generations returns at most n that are wanted, newest first.
func (db *DB) generations(n int, want func(Generation) bool) ([]Generation, error) {
	var list []Generation
	err := db.bolt.View(func(tx *bolt.Tx) error {
		c := tx.Bucket(bucketGenerations).Cursor()
		for k, raw := c.Last(); k != nil && len(list) < n; k, raw = c.Prev() {
			var g Generation
			if err := json.Unmarshal(raw, &g); err != nil {
				return fmt.Errorf("read generation %x: %w", k, err)
			}
			if want(g) {
				list = append(list, g)
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list generations: %w", err)
	}
	return list, nil
}
