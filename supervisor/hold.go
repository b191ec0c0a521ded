package supervisor

import (
	"time"

	"github.com/codex-supervisor/codex-supervisor/internal/reason"
)

// hold is why a living child may not start turns.
type hold struct {
	why    reason.Reason
	detail string
	until  time.Time // zero = unknown
	since  time.Time
}

// patience is how long a task waits in silence for a hold to end; when it will
// last longer the room is told at once.
const patience = 15 * time.Minute

// tell says whether a task that meets the hold gets an answer about it now
// rather than waiting for its end.
func (h hold) tell(now time.Time) bool {
	switch {
	case h.why == reason.ConfigBroken:
		// Usually an edit in progress: give it the same patience.
		return now.Sub(h.since) > patience
	case h.until.IsZero():
		return true
	default:
		return h.until.Sub(now) > patience
	}
}
