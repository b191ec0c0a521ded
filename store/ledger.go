package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/codex-supervisor/codex-supervisor/internal/reason"
	"github.com/codex-supervisor/codex-supervisor/internal/task"
)

// AttemptKind says what an attempt's prompt was.
type AttemptKind string

// The kinds of attempts.
const (
	// First sends the task.
	First AttemptKind = "first"
	// Again sends the task once more: it never reached the model, or it is a
	// non-owner's second try on a fresh thread.
	Again AttemptKind = "again"
	// Continuation goes on with a turn that was cut off.
	Continuation AttemptKind = "continuation"
	// Resumed goes on with a turn that a usage limit stopped.
	Resumed AttemptKind = "resumed"
	// EmptyRetry asks for the answer that a completed turn did not give.
	EmptyRetry AttemptKind = "empty_retry"
	// AfreshRetry sends the task after a compaction, or on a fresh thread,
	// because the conversation no longer fitted.
	AfreshRetry AttemptKind = "afresh_retry"
)

// Attempt is one try at answering a task: one turn.
type Attempt struct {
	N          int           `json:"n"` // from 1
	Kind       AttemptKind   `json:"kind"`
	Generation uint64        `json:"generation"`
	BootID     string        `json:"boot_id"`
	ThreadID   string        `json:"thread_id"`
	NewThread  bool          `json:"new_thread,omitempty"` // this attempt's turn is the thread's first
	Ephemeral  bool          `json:"ephemeral,omitempty"`
	TurnID     string        `json:"turn_id,omitempty"`
	TurnSeen   bool          `json:"turn_seen,omitempty"` // turn/started came
	Began      time.Time     `json:"began"`
	Ended      time.Time     `json:"ended,omitzero"`
	Stopping   reason.Reason `json:"stopping,omitempty"` // we were stopping it, and why
	End        reason.Reason `json:"end,omitempty"`
}

// ClientID is what the attempt's user message carries through Codex: unique for
// each attempt, since Codex stores a repeated id twice.
func (a Attempt) ClientID(taskID string) string { return fmt.Sprintf("%s/%d", taskID, a.N) }

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

// maxDeclined bounds a row: a model may ask for ever.
const maxDeclined = 50

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

// ErrNoRow says that the ledger knows nothing of a task.
var ErrNoRow = errors.New("no ledger row")

// Begin commits an attempt: to the task's row, or to row when there is none yet.
// The attempt's number is set here. It is durable when Begin returns.
func (db *DB) Begin(row Row, a Attempt) (Row, error) {
	return db.Upsert(row, func(r *Row) error {
		if r.State == StateSettled {
			return fmt.Errorf("task %s is settled", r.TaskID)
		}
		a.N = len(r.Attempts) + 1
		r.Attempts = append(r.Attempts, a)
		r.Notice = row.Notice
		r.State = StateOpen
		return nil
	})
}

// Update changes a row in one transaction; an error of change rolls back.
func (db *DB) Update(taskID string, change func(*Row) error) (Row, error) {
	return db.write(taskID, nil, change)
}

// Upsert is Update for a row that may not exist yet: change then gets row.
func (db *DB) Upsert(row Row, change func(*Row) error) (Row, error) {
	return db.write(row.TaskID, &row, change)
}

func (db *DB) write(taskID string, fresh *Row, change func(*Row) error) (Row, error) {
	var row Row
	err := db.bolt.Update(func(tx *bolt.Tx) error {
		ledger := tx.Bucket(bucketLedger)
		raw := ledger.Get([]byte(taskID))
		switch {
		case raw != nil:
			row = Row{}
			if err := json.Unmarshal(raw, &row); err != nil {
				return err
			}
		case fresh != nil:
			row = *fresh
			if row.State == "" {
				row.State = StateOpen
			}
		default:
			return ErrNoRow
		}
		seen := row.Seen
		if err := change(&row); err != nil {
			return err
		}
		row.TaskID, row.ChannelName = taskID, readable(row.ChannelName)
		if len(row.Declined) > maxDeclined {
			row.Declined = row.Declined[:maxDeclined]
		}
		if raw != nil {
			if err := tx.Bucket(bucketSeen).Delete(seenKey(seen, taskID)); err != nil {
				return err
			}
		}
		if err := tx.Bucket(bucketSeen).Put(seenKey(row.Seen, taskID), nil); err != nil {
			return err
		}
		if err := setOpen(tx, row); err != nil {
			return err
		}
		return put(ledger, []byte(taskID), row)
	})
	if err != nil {
		return Row{}, fmt.Errorf("write ledger row %s: %w", taskID, err)
	}
	return row, nil
}

func setOpen(tx *bolt.Tx, row Row) error {
	if row.State == StateSettled {
		return tx.Bucket(bucketOpen).Delete([]byte(row.TaskID))
	}
	return tx.Bucket(bucketOpen).Put([]byte(row.TaskID), nil)
}

func seenKey(at time.Time, id string) []byte {
	return append(number(uint64(max(at.UnixNano(), 0))), id...)
}

// Row returns a task's row.
func (db *DB) Row(taskID string) (Row, bool, error) {
	var row Row
	found := false
	err := db.bolt.View(func(tx *bolt.Tx) error {
		raw := tx.Bucket(bucketLedger).Get([]byte(taskID))
		if raw == nil {
			return nil
		}
		found = true
		return json.Unmarshal(raw, &row)
	})
	if err != nil {
		return Row{}, false, fmt.Errorf("read ledger row %s: %w", taskID, err)
	}
	return row, found, nil
}

// OpenRows returns the rows that are not settled, in the order of their ids.
func (db *DB) OpenRows() ([]Row, error) {
	var rows []Row
	err := db.bolt.View(func(tx *bolt.Tx) error {
		return tx.Bucket(bucketOpen).ForEach(func(id, _ []byte) error {
			return appendRow(&rows, tx, id)
		})
	})
	if err != nil {
		return nil, fmt.Errorf("list open rows: %w", err)
	}
	return rows, nil
}

func appendRow(rows *[]Row, tx *bolt.Tx, id []byte) error {
	var row Row
	if err := json.Unmarshal(tx.Bucket(bucketLedger).Get(id), &row); err != nil {
		return fmt.Errorf("read ledger row %s: %w", id, err)
	}
	*rows = append(*rows, row)
	return nil
}

// Rows returns at most limit rows, the last seen first.
func (db *DB) Rows(limit int) ([]Row, error) {
	var rows []Row
	err := db.bolt.View(func(tx *bolt.Tx) error {
		c := tx.Bucket(bucketSeen).Cursor()
		for k, _ := c.Last(); k != nil && len(rows) < limit; k, _ = c.Prev() {
			if err := appendRow(&rows, tx, k[8:]); err != nil {
				return err
			}
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
	_, err := db.Prune(func(r Row) bool { return r.TaskID == taskID })
	return err
}

// pruneBatch bounds a transaction of Prune, so that no attempt waits long for it.
const pruneBatch = 500

// Prune forgets the rows that drop says yes to, and returns how many. drop is
// called inside a transaction and must not use the store.
func (db *DB) Prune(drop func(Row) bool) (int, error) {
	total := 0
	var after []byte
	for done := false; !done; {
		dropped := 0
		err := db.bolt.Update(func(tx *bolt.Tx) error {
			dropped = 0
			ledger := tx.Bucket(bucketLedger)
			c := ledger.Cursor()
			k, raw := c.First()
			if after != nil {
				if k, raw = c.Seek(after); k != nil && string(k) == string(after) {
					k, raw = c.Next()
				}
			}
			var gone []Row
			n := 0
			for ; k != nil && n < pruneBatch; k, raw = c.Next() {
				var row Row
				if err := json.Unmarshal(raw, &row); err != nil {
					return fmt.Errorf("read ledger row %s: %w", k, err)
				}
				if drop(row) {
					gone = append(gone, row)
				}
				after = append([]byte{}, k...)
				n++
			}
			done = k == nil
			for _, row := range gone {
				id := []byte(row.TaskID)
				for _, err := range []error{ledger.Delete(id), tx.Bucket(bucketOpen).Delete(id), tx.Bucket(bucketSeen).Delete(seenKey(row.Seen, row.TaskID))} {
					if err != nil {
						return err
					}
				}
			}
			dropped = len(gone)
			return nil
		})
		if err != nil {
			return total, fmt.Errorf("prune ledger: %w", err)
		}
		total += dropped
	}
	return total, nil
}
