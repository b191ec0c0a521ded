package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/codex-supervisor/codex-supervisor/internal/reason"
	"github.com/codex-supervisor/codex-supervisor/internal/task"
)

// State is how far a task's row is.
type State string

// The states of a row.
const (
	StateOpen    State = "open"    // begun
	StateReplied State = "replied" // its reply's text is committed
	StateSettled State = "settled" // its result is out, or it never gets one
)

// Outcome is how a task ended, coarsely.
type Outcome string

// The outcomes.
const (
	Answered  Outcome = "answered"
	Failed    Outcome = "failed"
	TimedOut  Outcome = "timed_out"
	Cancelled Outcome = "cancelled"
	Rejected  Outcome = "rejected" // the file is no task that can be run
	Refused   Outcome = "refused"  // the task may not be run here
	Skipped   Outcome = "skipped"  // old when the service first started
)

// Declined is a request of the app-server that was answered with no.
type Declined struct {
	Method string    `json:"method"`
	At     time.Time `json:"at"`
}

// Bounds of a row: a model may ask for ever, and texts come from outside.
const (
	maxDeclined = 50
	maxMethod   = 200
	maxAttempts = 50
	maxText     = 2000
)

// Row is the ledger's record of one task.
type Row struct {
	TaskID      string        `json:"task_id"`
	ChannelKey  string        `json:"channel_key"`
	ChannelName string        `json:"channel_name,omitempty"`
	Tier        task.Tier     `json:"tier"`
	Verdict     task.Verdict  `json:"verdict,omitempty"`
	State       State         `json:"state"`
	Outcome     Outcome       `json:"outcome,omitempty"`
	Reason      reason.Reason `json:"reason,omitempty"`
	Detail      string        `json:"detail,omitempty"`
	Attempts    []Attempt     `json:"attempts,omitempty"`
	Queued      time.Time     `json:"queued"` // the file's mtime
	Seen        time.Time     `json:"seen"`
	RepliedAt   time.Time     `json:"replied_at,omitzero"`
	SettledAt   time.Time     `json:"settled_at,omitzero"`
	Tokens      int64         `json:"tokens,omitempty"`
	Deaths      int           `json:"deaths,omitempty"` // of the child, with this task alone on it
	ResultBytes int           `json:"result_bytes,omitempty"`
	Cut         bool          `json:"cut,omitempty"` // the result is shorter than the kept reply
	Declined    []Declined    `json:"declined,omitempty"`
	Notice      string        `json:"notice,omitempty"` // said above the reply
}

// Errors of writing a row.
var (
	// ErrNoRow says that the ledger knows nothing of a task.
	ErrNoRow = errors.New("no ledger row")
	// ErrNotOpen says that a task's reply is committed already: an attempt more
	// could answer it twice.
	ErrNotOpen = errors.New("the ledger row is not open")
)

// Begin commits an attempt: to the task's row, or to row when there is none yet.
// The attempt's number is set here. It is durable when Begin returns.
func (db *DB) Begin(row Row, a Attempt) (Row, error) {
	row.State = StateOpen
	return db.Upsert(row, func(r *Row) error {
		if r.State != StateOpen {
			return ErrNotOpen
		}
		a.N = 1
		if n := len(r.Attempts); n > 0 {
			a.N = r.Attempts[n-1].N + 1
		}
		r.Attempts = append(r.Attempts, a)
		r.Notice = row.Notice
		return nil
	})
}

// Update changes a row in one transaction; an error of change rolls back. change
// runs inside the transaction and must not use the store.
func (db *DB) Update(taskID string, change func(*Row) error) (Row, error) {
	return db.write(taskID, nil, change)
}

// Upsert is Update for a row that may not exist yet: change then gets row.
func (db *DB) Upsert(row Row, change func(*Row) error) (Row, error) {
	return db.write(row.TaskID, &row, change)
}

func (db *DB) write(taskID string, fresh *Row, change func(*Row) error) (Row, error) {
	var row Row
	err := db.update(func(tx *bolt.Tx) error {
		old, known, err := readRow(tx, []byte(taskID))
		switch {
		case err != nil:
			return err
		case known:
			row = old
		case fresh == nil:
			return ErrNoRow
		default:
			row = *fresh
			row.Attempts, row.Declined = slices.Clone(fresh.Attempts), slices.Clone(fresh.Declined)
		}
		if err := change(&row); err != nil {
			return err
		}
		row.TaskID = taskID
		row.fit()
		if known {
			if err := dropIndexes(tx, old); err != nil {
				return err
			}
		}
		if err := putIndexes(tx, row); err != nil {
			return err
		}
		return put(tx.Bucket(bucketLedger), []byte(taskID), row)
	})
	if err != nil {
		return Row{}, fmt.Errorf("write ledger row %s: %w", clip(taskID, maxID), err)
	}
	return row, nil
}

// fit fills in what a row cannot be without, and bounds it.
func (r *Row) fit() {
	if r.State == "" {
		r.State = StateOpen
	}
	if r.Seen.IsZero() {
		r.Seen = time.Now()
	}
	// A file's mtime can be any number; JSON writes years of four digits.
	if y := r.Queued.UTC().Year(); y < 1 || y > 9998 {
		r.Queued = time.Time{}
	}
	r.ChannelName = readable(r.ChannelName)
	r.Detail, r.Notice = clip(r.Detail, maxText), clip(r.Notice, maxText)
	r.Attempts = bound(r.Attempts)
	if len(r.Declined) > maxDeclined {
		r.Declined = r.Declined[:maxDeclined]
	}
	for i := range r.Declined {
		r.Declined[i].Method = clip(r.Declined[i].Method, maxMethod)
	}
}

// The indexes: open holds the ids of rows that are not settled, so that a start
// after years reads a handful; seen orders all rows by their arrival.

func putIndexes(tx *bolt.Tx, row Row) error {
	if row.State != StateSettled {
		if err := tx.Bucket(bucketOpen).Put([]byte(row.TaskID), nil); err != nil {
			return err
		}
	}
	return tx.Bucket(bucketSeen).Put(seenKey(row.Seen, row.TaskID), nil)
}

func dropIndexes(tx *bolt.Tx, row Row) error {
	if err := tx.Bucket(bucketOpen).Delete([]byte(row.TaskID)); err != nil {
		return err
	}
	return tx.Bucket(bucketSeen).Delete(seenKey(row.Seen, row.TaskID))
}

func seenKey(at time.Time, id string) []byte {
	return append(number(uint64(max(at.UnixNano(), 0))), id...)
}

// checkIndexes says where an index and the rows do not agree.
func checkIndexes(tx *bolt.Tx) error {
	var faults []error
	rows, open := 0, 0
	err := tx.Bucket(bucketLedger).ForEach(func(id, raw []byte) error {
		rows++
		var row Row
		if err := json.Unmarshal(raw, &row); err != nil {
			return fmt.Errorf("row %s: %w", id, err)
		}
		if row.State != StateSettled {
			open++
			if tx.Bucket(bucketOpen).Get(id) == nil {
				faults = append(faults, fmt.Errorf("row %s is not listed as open", id))
			}
		}
		if tx.Bucket(bucketSeen).Get(seenKey(row.Seen, row.TaskID)) == nil {
			faults = append(faults, fmt.Errorf("row %s is not listed by its arrival", id))
		}
		return nil
	})
	if n := tx.Bucket(bucketOpen).Stats().KeyN; n != open {
		faults = append(faults, fmt.Errorf("%d rows are listed as open, %d are", n, open))
	}
	if n := tx.Bucket(bucketSeen).Stats().KeyN; n != rows {
		faults = append(faults, fmt.Errorf("%d rows are listed by their arrival, there are %d", n, rows))
	}
	return errors.Join(append(faults, err)...)
}
