package store

import (
	"fmt"
	"time"

	"github.com/codex-supervisor/codex-supervisor/internal/reason"
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

// maxID bounds the ids that Codex names; its own have 36 characters.
const maxID = 200

// bound keeps the first attempt and the newest: a row must not grow for ever,
// however often a usage limit stops its turn.
func bound(attempts []Attempt) []Attempt {
	if extra := len(attempts) - maxAttempts; extra > 0 {
		attempts = append(attempts[:1:1], attempts[1+extra:]...)
	}
	for i := range attempts {
		attempts[i].ThreadID, attempts[i].TurnID = clip(attempts[i].ThreadID, maxID), clip(attempts[i].TurnID, maxID)
	}
	return attempts
}
