package supervisor

import (
	"time"

	"github.com/codex-supervisor/codex-supervisor/internal/reason"
	"github.com/codex-supervisor/codex-supervisor/rpc"
)

// turnStatus is how one turn ended, as far as the service is concerned.
type turnStatus int

const (
	turnCompleted   turnStatus = iota // Codex finished it
	turnFailed                        // Codex gave up on it, with an error
	turnInterrupted                   // stopped, by us or by somebody else
	turnIgnored                       // told to stop and did not; still running (guests only)
	turnCut                           // its generation ended underneath it, or the service stops
	turnRefused                       // turn/start was answered with an error; nothing ran
)

// turnSpec is one turn to run.
type turnSpec struct {
	threadID  string
	ephemeral bool
	input     []rpc.UserInput
	clientID  string
	model     string

	cap, grace, quiet time.Duration
	// abandon lets a turn that ignores its interrupt be left behind (guests);
	// otherwise the generation is replaced and the turn waits for its end.
	abandon bool
	// compact runs thread/compact/start in place of turn/start.
	compact bool

	stuck  func(bool)                  // waits for the generation's end, or no longer
	cancel <-chan reason.Reason        // stop on purpose
	intent func(reason.Reason) error   // commits the intent to stop
	known  func(turnID string) error   // the turn's id
	begun  func() error                // turn/started was seen
	show   func(phase string, len int) // progress for status
}

// turnEnd is what became of it.
type turnEnd struct {
	status   turnStatus
	text     string // the answer, for turnCompleted
	partial  string
	stopping reason.Reason // why we stopped it; "" when we did not
	err      *rpc.TurnError
	callErr  error // for turnRefused
	turnID   string
	tokens   int64
	declined []string
	oversize bool // the answer was too large to be read
	took     time.Duration
	first    time.Duration // to the first text; 0 = none
}
