package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	bolt "go.etcd.io/bbolt"

	"github.com/codex-supervisor/codex-supervisor/internal/task"
)

const (
	// MaxName bounds the readable name of a channel in a record, in characters.
	MaxName = 80
	// MaxEphemeral is how many ephemeral threads a channel's record lists.
	MaxEphemeral = 20
)

// Thread is an owner's durable thread.
type Thread struct {
	ID         string    `json:"id"`
	Created    time.Time `json:"created"`
	LastUsed   time.Time `json:"last_used"`
	Turns      int       `json:"turns"`
	Bound      bool      `json:"bound,omitempty"` // bound by the operator; never replaced by a fresh one
	Generation uint64    `json:"generation,omitempty"`
}

// Ephemeral is a non-owner's thread. It is listed, never resumed.
type Ephemeral struct {
	ThreadID   string    `json:"thread_id"`
	TaskID     string    `json:"task_id"`
	Tier       task.Tier `json:"tier"`
	Generation uint64    `json:"generation"`
	Started    time.Time `json:"started"`
	Ended      time.Time `json:"ended,omitzero"`
}

// Channel is the record of one channel.
type Channel struct {
	Key       string      `json:"key"`
	Name      string      `json:"name"` // the readable id, at most MaxName characters, one line
	Owner     *Thread     `json:"owner,omitempty"`
	Ephemeral []Ephemeral `json:"ephemeral,omitempty"` // newest last
}

// Channel returns one record.
func (db *DB) Channel(key string) (Channel, bool, error) {
	var c Channel
	found := false
	err := db.bolt.View(func(tx *bolt.Tx) error {
		raw := tx.Bucket(bucketChannels).Get([]byte(key))
		if raw == nil {
			return nil
		}
		found = true
		return json.Unmarshal(raw, &c)
	})
	if err != nil {
		return Channel{}, false, fmt.Errorf("read channel %s: %w", short(key), err)
	}
	return c, found, nil
}

// Channels lists all records, the most recently used first.
func (db *DB) Channels() ([]Channel, error) {
	var all []Channel
	err := db.bolt.View(func(tx *bolt.Tx) error {
		return tx.Bucket(bucketChannels).ForEach(func(k, raw []byte) error {
			var c Channel
			if err := json.Unmarshal(raw, &c); err != nil {
				return fmt.Errorf("read channel %s: %w", short(string(k)), err)
			}
			all = append(all, c)
			return nil
		})
	})
	if err != nil {
		return nil, fmt.Errorf("list channels: %w", err)
	}
	slices.SortStableFunc(all, func(a, b Channel) int { return b.lastUsed().Compare(a.lastUsed()) })
	return all, nil
}

func (c Channel) lastUsed() time.Time {
	var at time.Time
	if c.Owner != nil {
		at = c.Owner.LastUsed
	}
	if n := len(c.Ephemeral); n > 0 && c.Ephemeral[n-1].Started.After(at) {
		at = c.Ephemeral[n-1].Started
	}
	return at
}

// SaveOwner sets the channel's durable thread.
func (db *DB) SaveOwner(key, name string, t Thread) error {
	return db.ChangeOwner(key, name, func(*Thread) *Thread { return &t })
}

// ChangeOwner replaces the channel's durable thread by what change makes of the
// present one, nil being none, in one transaction: an operator may bind or reset
// a channel at any moment. Returning what it was given changes nothing.
func (db *DB) ChangeOwner(key, name string, change func(*Thread) *Thread) error {
	return db.changeChannel(key, name, func(c *Channel) bool {
		var present *Thread
		if c.Owner != nil {
			was := *c.Owner
			present = &was
		}
		next := change(present)
		if next == present && (next == nil || *next == *c.Owner) {
			return false
		}
		c.Owner = next
		return true
	})
}

// DropOwner removes the channel's durable thread from the record and returns it.
func (db *DB) DropOwner(key string) (old Thread, had bool, err error) {
	err = db.ChangeOwner(key, "", func(t *Thread) *Thread {
		if t != nil {
			old, had = *t, true
		}
		return nil
	})
	return old, had, err
}

// AddEphemeral lists an ephemeral thread; the oldest beyond MaxEphemeral go.
func (db *DB) AddEphemeral(key, name string, e Ephemeral) error {
	return db.changeChannel(key, name, func(c *Channel) bool {
		c.Ephemeral = append(c.Ephemeral, e)
		if extra := len(c.Ephemeral) - MaxEphemeral; extra > 0 {
			c.Ephemeral = slices.Delete(c.Ephemeral, 0, extra)
		}
		return true
	})
}

// EndEphemeral notes when an ephemeral thread ended. One that is no longer
// listed is no error.
func (db *DB) EndEphemeral(key, threadID string, at time.Time) error {
	return db.changeChannel(key, "", func(c *Channel) (changed bool) {
		for i := range c.Ephemeral {
			if c.Ephemeral[i].ThreadID == threadID {
				c.Ephemeral[i].Ended, changed = at, true
			}
		}
		return changed
	})
}

// EndOlderEphemerals notes the end of every ephemeral thread of the generations
// before this one: such a thread lives no longer than its process. It returns
// how many were still listed as alive.
func (db *DB) EndOlderEphemerals(generation uint64, at time.Time) (int, error) {
	ended := 0
	err := db.update(func(tx *bolt.Tx) error {
		ended = 0
		b := tx.Bucket(bucketChannels)
		var changed []Channel // written after the walk: a cursor does not survive a write
		err := b.ForEach(func(k, raw []byte) error {
			var c Channel
			if err := json.Unmarshal(raw, &c); err != nil {
				return fmt.Errorf("read channel %s: %w", short(string(k)), err)
			}
			before := ended
			for i := range c.Ephemeral {
				if e := &c.Ephemeral[i]; e.Ended.IsZero() && e.Generation < generation {
					e.Ended = at
					ended++
				}
			}
			if ended > before {
				changed = append(changed, c)
			}
			return nil
		})
		if err == nil && ended == 0 {
			return errUnchanged
		}
		for _, c := range changed {
			err = errors.Join(err, put(b, []byte(c.Key), c))
		}
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("end older ephemeral threads: %w", err)
	}
	return ended, nil
}

// changeChannel changes one record in one transaction, if change says that it
// did. A record that would be left empty is removed.
func (db *DB) changeChannel(key, name string, change func(*Channel) bool) error {
	err := db.update(func(tx *bolt.Tx) error {
		b := tx.Bucket(bucketChannels)
		c := Channel{Key: key}
		if raw := b.Get([]byte(key)); raw != nil {
			if err := json.Unmarshal(raw, &c); err != nil {
				return err
			}
		}
		if !change(&c) {
			return errUnchanged
		}
		if name != "" {
			c.Name = readable(name)
		}
		if c.Owner == nil && len(c.Ephemeral) == 0 {
			return b.Delete([]byte(key))
		}
		return put(b, []byte(key), c)
	})
	if err != nil {
		return fmt.Errorf("write channel %s: %w", short(key), err)
	}
	return nil
}

// readable makes a channel's id fit to be shown: one line, no control
// characters, at most MaxName characters.
func readable(name string) string {
	name = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == '\u2028' || r == '\u2029' {
			return ' '
		}
		return r
	}, name)
	if r := []rune(name); len(r) > MaxName {
		return string(r[:MaxName-1]) + "…"
	}
	return name
}

func short(key string) string { return key[:min(len(key), 12)] }
