package supervisor

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/codex-supervisor/codex-supervisor/internal/reason"
	"github.com/codex-supervisor/codex-supervisor/rpc"
)

// callTimeout bounds a question to the app-server about a turn. An app-server
// that answers two in a row too late is mute.
const (
	callTimeout    = 20 * time.Second
	interruptTries = 5 * time.Second
	muteAfter      = 2
	confirmAfter   = time.Second
)

// turn runs one turn on one generation. It is used by one goroutine; the calls
// that it makes run beside it and report back, so that events are read while a
// call waits. All of them have ended when run returns.
type turn struct {
	spec  turnSpec
	gen   *generation
	child *child
	log   *slog.Logger

	ctx    context.Context // of run, for the calls it makes
	box    *mailbox[turnEvent]
	calls  chan turnCall
	wg     sync.WaitGroup
	answer *answer
	end    turnEnd

	started     time.Time
	turnID      string
	pending     []rpc.Notification // came before the turn's id was known
	startedSeen bool
	stopEarly   bool // that interrupt was sent before turn/started
	interrupt   bool // an interrupt is on its way
	asking      bool
	mute        int
	missed      int // how often the server said that the turn is over
	quietTimer  *time.Timer
	graceTimer  *time.Timer
	replaced    bool

	counting     bool
	tokensBefore int64
}

type turnCall struct {
	what callKind
	err  error
	id   string    // turn/start's answer
	over *rpc.Turn // the server's own word that the turn is over
	idle bool      // the ephemeral thread is idle
}

type callKind int

const (
	callStart callKind = iota
	callInterrupt
	callAsk
)

// run returns when the turn is over, is abandoned, or its generation is gone.
func (t *turn) run(ctx context.Context) turnEnd {
	ctx, cancel := context.WithCancel(ctx)
	defer t.wg.Wait()
	defer cancel()
	t.ctx = ctx
	t.box = t.gen.router.subscribe(t.spec.threadID)
	defer t.gen.router.unsubscribe(t.spec.threadID, t.box)
	t.calls = make(chan turnCall, 8)
	t.answer = newAnswer()
	t.started = time.Now()
	capTimer := time.NewTimer(t.spec.cap)
	defer capTimer.Stop()
	t.quietTimer = time.NewTimer(t.spec.quiet)
	defer t.quietTimer.Stop()
	t.graceTimer = time.NewTimer(time.Hour)
	t.graceTimer.Stop()
	defer t.graceTimer.Stop()

	t.start()
	for {
		select {
		case <-ctx.Done():
			return t.finish(turnCut)
		case <-t.gen.ended:
			// Everything the connection still delivered is in the mailbox.
			if t.read() {
				return t.end
			}
			return t.finish(turnCut)
		case <-t.box.ready:
			if t.read() {
				return t.end
			}
		case c := <-t.calls:
			if t.called(c) {
				return t.end
			}
		case why := <-t.spec.cancel:
			t.stop(why)
		case <-capTimer.C:
			t.stop(reason.TurnTimeout)
		case <-t.quietTimer.C:
			t.ask()
		case <-t.graceTimer.C:
			if t.ignored() {
				return t.end
			}
		}
	}
}

func (t *turn) start() {
	t.call(callStart, callTimeout, func(ctx context.Context) turnCall {
		if t.spec.compact {
			_, err := t.gen.client.ThreadCompactStart(ctx, rpc.ThreadCompactStartParams{ThreadID: t.spec.threadID})
			return turnCall{err: err}
		}
		reply, err := t.gen.client.TurnStart(ctx, rpc.TurnStartParams{
			ThreadID: t.spec.threadID, Input: t.spec.input, ClientUserMessageID: t.spec.clientID, Model: t.spec.model,
		})
		return turnCall{err: err, id: reply.Turn.ID}
	})
}

// call runs one request beside the turn's own loop.
func (t *turn) call(what callKind, limit time.Duration, do func(context.Context) turnCall) {
	t.wg.Add(1)
	go func() { // waited for by run
		defer t.wg.Done()
		ctx, cancel := context.WithTimeout(t.ctx, limit)
		defer cancel()
		c := do(ctx)
		c.what = what
		select {
		case t.calls <- c:
		case <-ctx.Done():
			// The loop has room for more answers than it has questions open;
			// it only stops listening when the turn is over.
			select {
			case t.calls <- c:
			default:
			}
		}
	}()
}

// called takes the answer of a call and says whether the turn is over.
func (t *turn) called(c turnCall) bool {
	switch c.what {
	case callStart:
		return t.answeredStart(c)
	case callInterrupt:
		t.answeredInterrupt(c.err)
		return false
	case callAsk:
		return t.answeredAsk(c)
	default:
		return false
	}
}

func (t *turn) answeredStart(c turnCall) bool {
	if c.err != nil {
		switch rpc.FaultOf(c.err) {
		case rpc.FaultConnection:
			return false // the generation's end follows
		case rpc.FaultTimeout:
			if t.ctx.Err() == nil {
				// Nobody can say whether it runs. Only the end of the process
				// settles that; recovery then asks the thread.
				t.replace("turn/start was not answered")
			}
			return false
		default:
			t.end.callErr = c.err
			t.finish(turnRefused)
			return true
		}
	}
	if t.spec.compact {
		return false // its id comes with turn/started
	}
	t.know(c.id)
	if t.end.stopping != "" {
		t.sendInterrupt()
	}
	return t.readPending()
}

func (t *turn) know(id string) {
	t.turnID, t.end.turnID = id, id
	if t.spec.known != nil {
		if err := t.spec.known(id); err != nil {
			t.log.Warn("turn id not recorded", "error", err)
		}
	}
}

// read takes what waits in the mailbox and says whether the turn is over.
func (t *turn) read() bool {
	for _, e := range t.box.take() {
		t.missed = 0
		t.quietTimer.Reset(t.spec.quiet)
		switch {
		case e.request != nil:
			t.end.declined = append(t.end.declined, e.request.Method)
		case e.note != nil:
			if t.turnID == "" && !t.spec.compact {
				t.pending = append(t.pending, *e.note)
				continue
			}
			if t.note(*e.note) {
				return true
			}
		}
	}
	return false
}

func (t *turn) readPending() bool {
	pending := t.pending
	t.pending = nil
	for _, n := range pending {
		if t.note(n) {
			return true
		}
	}
	return false
}

// note takes one notification of the thread. Only those that name our turn
// count; the thread's earlier turns may still be talking.
func (t *turn) note(n rpc.Notification) bool {
	if t.spec.compact && t.turnID == "" && n.Method == "turn/started" {
		t.know(n.TurnID)
	}
	if n.TurnID != t.turnID || n.TurnID == "" {
		return false
	}
	if n.Oversized {
		t.end.oversize = true
		if n.Method != "turn/completed" {
			return false
		}
		t.finish(turnCompleted)
		return true
	}
	switch n.Method {
	case "turn/started":
		t.sawStart()
	case "item/agentMessage/delta":
		if d, err := rpc.DecodeDelta(n); err == nil {
			t.sawText()
			t.answer.delta(d.ItemID, d.Delta)
			t.show("answering")
		}
	case "item/completed":
		if it, err := rpc.DecodeItem(n); err == nil {
			if it.Item.Type == rpc.ItemAgentMessage {
				t.sawText()
			}
			t.answer.completed(it.Item)
			t.show("working")
		}
	case "thread/tokenUsage/updated":
		if u, err := rpc.DecodeTokenUsage(n); err == nil {
			t.used(u.TokenUsage)
		}
	case "turn/completed":
		if e, err := rpc.DecodeTurn(n); err == nil {
			t.settle(e.Turn)
			return true
		}
	}
	return false
}

func (t *turn) sawStart() {
	if t.startedSeen {
		return
	}
	t.startedSeen = true
	t.show("working")
	if t.spec.begun != nil {
		if err := t.spec.begun(); err != nil {
			t.log.Warn("start of turn not recorded", "error", err)
		}
	}
	if t.end.stopping != "" && t.stopEarly {
		// An interrupt sent before turn/started is refused, 10 times of 10,
		// and the turn runs on (codex app-server 0.171.0, measured).
		t.sendInterrupt()
	}
}

// used counts the turn's tokens. There is one event for each model call, and
// only the thread's absolute total can be trusted: what the turn used is the
// newest total less what stood before its first call.
func (t *turn) used(u rpc.TokenUsage) {
	if !t.counting {
		t.counting, t.tokensBefore = true, u.Total.Total-u.Last.Total
	}
	t.end.tokens = max(u.Total.Total-t.tokensBefore, 0)
}

func (t *turn) sawText() {
	if t.end.first == 0 {
		t.end.first = time.Since(t.started)
	}
}

// settle reads the server's word on a turn that is over.
func (t *turn) settle(turn rpc.Turn) {
	switch turn.Status {
	case rpc.TurnCompleted:
		t.end.text = t.answer.final(&turn)
		t.finish(turnCompleted)
	case rpc.TurnInterrupted:
		t.finish(turnInterrupted)
	default: // failed, and whatever newer versions call it
		t.end.err = turn.Error
		t.finish(turnFailed)
	}
}

func (t *turn) finish(s turnStatus) turnEnd {
	t.end.status = s
	t.end.took = time.Since(t.started)
	t.end.partial = t.answer.partial()
	if t.replaced && s != turnCut {
		t.spec.stuck(false)
		t.child.order(childOrder{what: orderWithdraw, gen: t.gen.number})
	}
	return t.end
}

func (t *turn) show(phase string) {
	if t.spec.show != nil {
		t.spec.show(phase, t.answer.length)
	}
}
