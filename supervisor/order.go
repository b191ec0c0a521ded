package supervisor

import "github.com/codex-supervisor/codex-supervisor/internal/reason"

// childEvent is what a child tells its work dir.
type childEvent interface{ isChildEvent() }

type (
	// childUp: a generation is ready for turns.
	childUp struct{ gen *generation }
	// childHolds: the generation lives but no new turn may start.
	childHolds struct {
		gen  *generation
		hold hold
	}
	// childReleased: the hold is over and the generation takes turns again.
	childReleased struct{ gen *generation }
	// childDrains: the generation is to be replaced when its turns have ended.
	childDrains struct{ gen *generation }
	// childStale: the login has changed since the generation started.
	childStale struct{ gen *generation }
	// childEnded: the generation and every process below it are gone.
	childEnded struct {
		gen  *generation
		why  reason.Reason
		ours bool // we ended it; its turns are not to blame
	}
)

func (childUp) isChildEvent()       {}
func (childHolds) isChildEvent()    {}
func (childReleased) isChildEvent() {}
func (childDrains) isChildEvent()   {}
func (childStale) isChildEvent()    {}
func (childEnded) isChildEvent()    {}

// childOrder is what a work dir, an attempt or an operator asks of a child.
// Orders name the generation they are about; an order for an older one is void.
type childOrder struct {
	what   orderKind
	gen    uint64
	why    reason.Reason
	detail string
	hold   hold
}

type orderKind int

const (
	orderReplace  orderKind = iota // drain, stop, start anew
	orderDrained                   // the turns that mattered have ended
	orderWithdraw                  // the cause of the replacement has gone
	orderHold                      // no new turns
	orderRestart                   // an operator wants a new generation now; any generation
)
