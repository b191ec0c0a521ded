package inbox

import (
	"time"

	"github.com/codex-supervisor/codex-supervisor/internal/reason"
	"github.com/codex-supervisor/codex-supervisor/internal/task"
)

// Item is what the queue keeps of a file: enough to order and to place it,
// never its text, so that ten thousand waiting files cost little memory.
type Item struct {
	ID         string
	Tier       task.Tier
	ChannelID  string
	ChannelKey string
	Priority   task.Priority
	Verdict    task.Verdict
	ModTime    time.Time
	Size       int64
}

// Event is one of Found, Rejected, Gone, Listed.
type Event interface{ isEvent() }

// Found is a task that can run: a new file, one whose bytes changed, or one
// that is judged differently since the key changed.
type Found struct{ Item }

// Rejected is a file that is not run. IDSound is false when the file is not
// addressed as a task (its name is no id, or it is some other text file that
// somebody put there): such a file is logged and gets no result.
type Rejected struct {
	Item
	Reason  reason.Reason
	Detail  string
	IDSound bool
}

// Gone says that the file of an earlier Found or Rejected is not there any more.
type Gone struct{ ID string }

// Listed ends a full scan; Count is the number of task files seen.
type Listed struct{ Count int }

func (Found) isEvent()    {}
func (Rejected) isEvent() {}
func (Gone) isEvent()     {}
func (Listed) isEvent()   {}
