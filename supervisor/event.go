package supervisor

import (
	"time"

	"github.com/codex-supervisor/codex-supervisor/internal/reason"
	"github.com/codex-supervisor/codex-supervisor/internal/task"
	"github.com/codex-supervisor/codex-supervisor/store"
)

// EventKind is what an [Event] tells about.
type EventKind string

// The kinds of events.
const (
	EventAttempt EventKind = "attempt" // a turn is about to be started
	EventStop    EventKind = "stop"    // a turn is being stopped on purpose
	EventSettled EventKind = "settled" // a task has its result
	EventChild   EventKind = "child"   // the child changed its state
)

// Event is one thing that an onlooker may want to know as it happens. It
// carries ids and words of the closed lists, never text of a message.
type Event struct {
	Time    time.Time
	WorkDir string
	Kind    EventKind
	TaskID  string
	Tier    task.Tier
	Attempt int
	Try     store.AttemptKind
	Thread  string
	Reason  reason.Reason
	Row     *store.Row   // for EventSettled
	Child   *ChildStatus // for EventChild
}

func (w *WorkDir) emit(e Event) {
	if w.onEvent == nil {
		return
	}
	e.Time, e.WorkDir = time.Now(), w.opt.Name
	w.onEvent(e)
}
