package supervisor

import (
	"sync/atomic"
	"time"

	"github.com/codex-supervisor/codex-supervisor/internal/inbox"
	"github.com/codex-supervisor/codex-supervisor/internal/reason"
	"github.com/codex-supervisor/codex-supervisor/store"
)

// running is a task with a walk of its own.
type running struct {
	item    inbox.Item
	shown   atomic.Pointer[RunningTask]
	cancel  chan reason.Reason
	gen     uint64 // 0 = needs none
	stuck   bool   // waits for its generation to end
	started time.Time
}

// waiting is a task with an open row, or an answer that could not be written.
type waiting struct {
	item     inbox.Item
	blame    bool
	reserved bool // holds its flow
	deferred bool // meets a hold; goes on when that ends
	offline  bool // needs no child: its end is known
	end      *knownEnd
	after    time.Time
	tries    int
}

// knownEnd is how a task ends that needs no turn.
type knownEnd struct {
	outcome store.Outcome
	failure failure
	detail  string
}

// tally counts what a generation took with it.
type tally struct {
	walks int
	cut   []inbox.Item
	lost  int
	ended *childEnded
}

// message is what the work dir's goroutine is told.
type message interface{ isMessage() }

type (
	msgArrived  struct{ item inbox.Item }
	msgGone     struct{ id string }
	msgKnownEnd struct {
		item inbox.Item
		end  knownEnd
	}
	msgChild struct{ event childEvent }
	msgWalk  struct {
		id   string
		end  walkEnd
		walk *walk
	}
	msgStuck struct {
		id    string
		stuck bool
	}
	msgProven struct{ gen *generation }
	msgAsk    struct{ do func() }
)

func (msgArrived) isMessage()  {}
func (msgGone) isMessage()     {}
func (msgKnownEnd) isMessage() {}
func (msgChild) isMessage()    {}
func (msgWalk) isMessage()     {}
func (msgStuck) isMessage()    {}
func (msgProven) isMessage()   {}
func (msgAsk) isMessage()      {}
