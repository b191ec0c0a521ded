package store

import bolt "go.etcd.io/bbolt"

// OpenSteps opens with further migrations behind those there are.
func OpenSteps(path string, more ...func(*bolt.Tx) error) (*DB, error) {
	steps := migrations()
	for _, m := range more {
		steps = append(steps, m)
	}
	return open(path, Options{}, steps)
}

// Bolt is the database itself.
func Bolt(db *DB) *bolt.DB { return db.bolt }
