package supervisor

import (
	"context"

	"github.com/codex-supervisor/codex-supervisor/internal/reason"
	"github.com/codex-supervisor/codex-supervisor/rpc"
)

// stop begins the ladder: the intent is committed, then the interrupt is sent.
func (t *turn) stop(why reason.Reason) {
	if t.end.stopping != "" {
		return
	}
	t.end.stopping = why
	if err := t.spec.intent(why); err != nil {
		// Letting it run on would be worse than a row that does not say why.
		t.log.Warn("intent to stop not recorded", "error", err)
	}
	t.show("stopping")
	t.graceTimer.Reset(t.spec.grace)
	t.gen.metrics.interrupt(why)
	if t.turnID != "" {
		t.sendInterrupt()
	}
}

func (t *turn) sendInterrupt() {
	if t.interrupt {
		return
	}
	t.interrupt = true
	t.stopEarly = !t.startedSeen
	id := t.turnID
	t.call(callInterrupt, min(interruptTries, t.spec.grace), func(ctx context.Context) turnCall {
		_, err := t.gen.client.TurnInterrupt(ctx, rpc.TurnInterruptParams{ThreadID: t.spec.threadID, TurnID: id})
		return turnCall{err: err}
	})
}

func (t *turn) answeredInterrupt(err error) {
	t.interrupt = false
	switch rpc.FaultOf(err) {
	case rpc.FaultNoActiveTurn, rpc.FaultOtherActiveTurn:
		switch {
		case !t.startedSeen:
			t.stopEarly = true // sent again when turn/started is seen
		case t.stopEarly:
			t.sendInterrupt()
		default:
			// It has ended, and its completion is on the way or lost.
			t.ask()
		}
	default:
		// Done, or no answer: the grace decides either way.
	}
}

// ask puts the question "is this turn over?" to the server. A quiet turn is not
// a dead one: only a completion that we missed is acted on.
func (t *turn) ask() {
	t.quietTimer.Reset(t.spec.quiet)
	if t.asking || t.turnID == "" {
		return
	}
	t.asking = true
	id := t.turnID
	t.call(callAsk, callTimeout, func(ctx context.Context) turnCall {
		if t.spec.ephemeral {
			reply, err := t.gen.client.ThreadRead(ctx, rpc.ThreadReadParams{ThreadID: t.spec.threadID})
			return turnCall{err: err, idle: err == nil && (reply.Thread.Status.Type == rpc.ThreadIdle || reply.Thread.Status.Type == rpc.ThreadSystemError)}
		}
		list, err := t.gen.client.ThreadTurnsList(ctx, rpc.ThreadTurnsListParams{ThreadID: t.spec.threadID, Limit: 3, ItemsView: "summary"})
		if err != nil {
			return turnCall{err: err}
		}
		for i := range list.Data {
			// "interrupted" may be said of a turn that still runs; only a live
			// event is trusted for that (codex issue 38972).
			if s := list.Data[i].Status; list.Data[i].ID == id && (s == rpc.TurnCompleted || s == rpc.TurnFailed) {
				return turnCall{over: &list.Data[i]}
			}
		}
		return turnCall{}
	})
}

func (t *turn) answeredAsk(c turnCall) bool {
	t.asking = false
	if c.err != nil {
		if rpc.FaultOf(c.err) == rpc.FaultTimeout {
			if t.mute++; t.mute >= muteAfter {
				t.replace("the app-server does not answer")
				return false
			}
			t.quietTimer.Reset(confirmAfter)
		}
		return false
	}
	t.mute = 0
	if c.over == nil && !c.idle {
		return false
	}
	// The event may be on its way behind this answer: look once more before
	// believing that it was lost.
	if t.missed++; t.missed < 2 {
		t.quietTimer.Reset(confirmAfter)
		return false
	}
	t.log.Warn("missed the end of a turn; read it from the thread", "turn", t.turnID)
	if c.over != nil {
		t.settle(*c.over)
		return true
	}
	if t.end.stopping != "" {
		t.finish(turnInterrupted)
		return true
	}
	t.end.text = t.answer.final(nil)
	t.finish(turnCompleted)
	return true
}

// ignored is called when the grace has passed without an end.
func (t *turn) ignored() bool {
	if t.spec.abandon {
		t.finish(turnIgnored)
		return true
	}
	t.replace("a turn ignored its interrupt")
	return false
}

// replace asks for a new generation. The turn stays until this one is gone: it
// may complete after all, and its thread must not be used by anybody else.
func (t *turn) replace(detail string) {
	if t.replaced {
		return
	}
	t.replaced = true
	t.show("replacing")
	t.spec.stuck(true)
	t.child.order(childOrder{what: orderReplace, gen: t.gen.number, why: reason.ChildUnresponsive, detail: detail})
}
