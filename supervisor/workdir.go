package supervisor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/codex-supervisor/codex-supervisor/internal/inbox"
	"github.com/codex-supervisor/codex-supervisor/internal/outbox"
	"github.com/codex-supervisor/codex-supervisor/internal/proc"
	"github.com/codex-supervisor/codex-supervisor/internal/reason"
	"github.com/codex-supervisor/codex-supervisor/internal/task"
	"github.com/codex-supervisor/codex-supervisor/sandbox"
	"github.com/codex-supervisor/codex-supervisor/store"
	"github.com/codex-supervisor/codex-supervisor/threads"
)

// WorkDir is one work dir under supervision. Serve's goroutine owns the queue
// and everything below the line; it takes messages and does no I/O of its own.
type WorkDir struct {
	opt      WorkDirOptions
	lock     *instanceLock
	store    *store.DB
	sink     *outbox.Sink
	source   *inbox.Source
	rooms    *sandbox.Rooms
	threads  *threads.Threads
	child    *child
	spawner  *proc.Spawner
	metrics  *workdirMetrics
	log      *slog.Logger
	onEvent  func(Event)
	messages *mailbox[message]
	snapshot atomic.Pointer[WorkDirStatus]
	probes   sync.WaitGroup

	// Owned by Serve's goroutine.
	queue    *queue
	running  map[string]*running
	waiting  map[string]*waiting
	suspects map[string]bool // were running when the child died; run alone
	tallies  map[uint64]*tally
	gen      *generation
	taking   bool // gen takes new turns
	held     *hold
	stale    bool // gen began with another login
	paused   bool
	troubles map[string]string // task id → what keeps its answer from being written
	stopping bool
	walks    sync.WaitGroup
	walkCtx  context.Context // cancelled when walks have to give up; owned by Serve
}

// Serve runs the work dir until ctx ends: then nothing new is started, running
// turns get drainTimeout to finish (hurry cuts that short), the child is
// stopped, and Serve returns when nothing of it is left. What was not finished
// is in the ledger and is settled at the next start.
func (w *WorkDir) Serve(ctx context.Context, drainTimeout time.Duration, hurry <-chan struct{}) error {
	defer w.close()
	if err := w.boot(); err != nil {
		return err
	}
	var parts sync.WaitGroup
	background := context.WithoutCancel(ctx)
	inboxCtx, stopInbox := context.WithCancel(background)
	childCtx, stopChild := context.WithCancel(background)
	walkCtx, stopWalks := context.WithCancel(background)
	defer stopInbox()
	defer stopChild()
	defer stopWalks()
	w.walkCtx = walkCtx
	var inboxErr error
	parts.Go(func() { inboxErr = w.source.Serve(inboxCtx, w.arrive) })
	childDone := make(chan struct{})
	parts.Go(func() { defer close(childDone); _ = w.child.Serve(childCtx) })
	parts.Go(func() { w.sample(inboxCtx) })

	w.loop(ctx.Done(), nil)
	stopInbox()
	w.stopping = true
	w.log.Info("draining", "running", len(w.running), "timeout", drainTimeout)
	drained := time.NewTimer(drainTimeout)
	defer drained.Stop()
	w.drain(drained.C, hurry)
	stopWalks()
	stopChild()
	w.loop(nil, func() bool {
		select {
		case <-childDone:
			return len(w.running) == 0
		default:
			return false
		}
	})
	parts.Wait()
	w.walks.Wait()
	w.probes.Wait()
	left := len(w.waiting)
	if left > 0 || w.queue.length() > 0 {
		w.log.Info("left for the next start", "unsettled", left, "queued", w.queue.length())
	}
	if inboxErr != nil && !errors.Is(inboxErr, context.Canceled) {
		return fmt.Errorf("watch inbox: %w", inboxErr)
	}
	return nil
}

// loop handles messages until stop fires or done says so.
func (w *WorkDir) loop(stop <-chan struct{}, done func() bool) {
	wake := time.NewTimer(0)
	defer wake.Stop()
	// done may turn true without a message (the child's Serve returning).
	var look <-chan time.Time
	if done != nil {
		ticker := time.NewTicker(10 * time.Millisecond)
		defer ticker.Stop()
		look = ticker.C
	}
	for done == nil || !done() {
		select {
		case <-stop:
			return
		case <-look:
		case <-wake.C:
		case <-w.messages.ready:
			for _, m := range w.messages.take() {
				w.handle(m)
			}
		}
		if next := w.schedule(time.Now()); !next.IsZero() {
			wake.Reset(time.Until(next))
		}
		w.publish()
	}
}

// drain waits for running turns to finish.
func (w *WorkDir) drain(timeout <-chan time.Time, hurry <-chan struct{}) {
	for len(w.running) > 0 {
		select {
		case <-timeout:
			return
		case <-hurry:
			return
		case <-w.messages.ready:
			for _, m := range w.messages.take() {
				w.handle(m)
			}
			w.publish()
		}
	}
}

// close gives everything back that openWorkDir took.
func (w *WorkDir) close() {
	w.spawner.Close()
	if err := w.store.Close(); err != nil {
		w.log.Warn("ledger not closed", "error", err)
	}
	w.lock.release()
}

func (w *WorkDir) post(m message) { w.messages.put(m) }

func (w *WorkDir) handle(m message) {
	switch m := m.(type) {
	case msgArrived:
		w.take(m.item)
	case msgGone:
		w.queue.remove(m.id)
	case msgKnownEnd:
		if w.running[m.item.ID] == nil && w.waiting[m.item.ID] == nil {
			w.queue.remove(m.item.ID)
			w.waiting[m.item.ID] = &waiting{item: m.item, offline: true, end: &m.end}
		}
	case msgChild:
		w.childSaid(m.event)
	case msgWalk:
		w.walkEnded(m)
	case msgStuck:
		if r := w.running[m.id]; r != nil {
			r.stuck = m.stuck
		}
		w.checkDrained()
	case msgProven:
		if w.gen == m.gen {
			w.queue.noOthers = false
		}
	case msgAsk:
		m.do()
	}
}

// take queues a task that is not being dealt with already.
func (w *WorkDir) take(it inbox.Item) {
	if w.running[it.ID] != nil || w.waiting[it.ID] != nil {
		return
	}
	w.queue.push(it)
}

func (w *WorkDir) childSaid(e childEvent) {
	switch e := e.(type) {
	case childUp:
		w.gen, w.taking, w.held = e.gen, true, nil
		w.queue.noOthers = !e.gen.proven()
		w.undefer()
	case childHolds:
		if w.gen == e.gen {
			h := e.hold
			w.held, w.taking = &h, false
		}
	case childReleased:
		if w.gen == e.gen {
			w.held, w.taking = nil, true
			w.undefer()
		}
	case childDrains:
		if w.gen == e.gen {
			w.taking = false
			w.checkDrained()
		}
	case childStale:
		if w.gen == e.gen {
			w.stale = true
			w.replaceStale()
		}
	case childEnded:
		if w.gen == e.gen {
			w.stale = false
			w.gen, w.taking, w.held = nil, false, nil
		}
		t := w.tally(e.gen.number)
		t.ended = &e
		t.lost += w.queue.lost
		w.queue.lost = 0
		w.count(e.gen.number)
	}
}

func (w *WorkDir) undefer() {
	for _, wt := range w.waiting {
		wt.deferred = false
	}
}

// checkDrained tells the child that nothing it could wait for is running.
func (w *WorkDir) checkDrained() {
	if w.gen == nil || w.taking {
		return
	}
	for _, r := range w.running {
		if r.gen == w.gen.number && !r.stuck {
			return
		}
	}
	w.child.order(childOrder{what: orderDrained, gen: w.gen.number})
}

func (w *WorkDir) tally(gen uint64) *tally {
	t := w.tallies[gen]
	if t == nil {
		t = &tally{}
		w.tallies[gen] = t
	}
	return t
}

// count draws the conclusion from a death once every walk of the generation has
// ended: a death counts against a task only when it ran alone; after a death
// with several running they are retried one at a time; cuts made by us never
// count.
func (w *WorkDir) count(gen uint64) {
	t := w.tallies[gen]
	if t == nil || t.ended == nil || t.walks > 0 {
		return
	}
	delete(w.tallies, gen)
	blame := !t.ended.ours && len(t.cut)+t.lost == 1
	for _, it := range t.cut {
		w.wait(&waiting{item: it, blame: blame, reserved: true})
		if !t.ended.ours {
			w.suspects[it.ID] = true
		}
	}
}

// wait keeps a task whose row is open until it can be settled.
func (w *WorkDir) wait(wt *waiting) {
	if wt.reserved {
		w.queue.reserve(flowOf(wt.item))
	}
	w.waiting[wt.item.ID] = wt
}

func (w *WorkDir) walkEnded(m msgWalk) {
	r := w.running[m.id]
	if r == nil {
		return
	}
	delete(w.running, m.id)
	w.queue.finish(m.id)
	if m.walk.lost {
		w.queue.lost++
	}
	if m.end != walkCut {
		delete(w.suspects, m.id)
	}
	switch m.end {
	case walkSettled:
		w.trouble(m.id, nil)
	case walkGone:
	case walkCut:
		if cancelled(r) {
			// Cancelled while it waited for its child to go.
			w.wait(&waiting{item: r.item, offline: true, end: &knownEnd{outcome: store.Cancelled, failure: failure{why: reason.Cancelled}}})
			if r.gen != 0 {
				w.tally(r.gen).lost++ // it ran, though it is not taken up again
			}
		} else if r.gen != 0 {
			w.tally(r.gen).cut = append(w.tally(r.gen).cut, r.item)
		}
	case walkDeferred:
		w.wait(&waiting{item: r.item, reserved: true, deferred: w.held != nil || m.walk.caused})
	case walkChanged:
		// The file is other than what was queued: it gets the place that it
		// would have had.
		w.take(itemFrom(r.item, m.walk.task))
	case walkUnpublished:
		w.trouble(m.id, m.walk.err)
		// A committed reply needs no child and must not hold up its channel.
		replied := m.walk.row.State == store.StateReplied
		end := m.walk.known
		if end == nil {
			end = &knownEnd{}
		}
		w.wait(&waiting{item: r.item, reserved: m.walk.gen != nil && !replied, offline: m.walk.gen == nil || replied, end: end, tries: m.walk.tries + 1, after: time.Now().Add(retryAfter(m.walk.tries))})
	}
	if r.gen != 0 {
		w.tally(r.gen).walks--
		w.count(r.gen)
	}
	w.replaceLost()
	w.replaceStale()
	w.checkDrained()
}

// retryAfter spaces the tries to write an answer: the disk may be full.
func retryAfter(tries int) time.Duration {
	return min(time.Second<<min(tries, 5), 30*time.Second)
}

// replaceLost replaces a child that carries abandoned guest turns once that
// costs no owner a turn, or once they hold half of its slots.
func (w *WorkDir) replaceLost() {
	if w.queue.lost == 0 || w.gen == nil || !w.taking {
		return
	}
	if w.queue.byLane[laneOwners] == 0 || w.queue.lost*2 >= w.queue.limits.maxTurns {
		w.child.order(childOrder{
			what: orderReplace, gen: w.gen.number, why: reason.ChildUnresponsive,
			detail: fmt.Sprintf("%d abandoned guest turns", w.queue.lost),
		})
	}
}

// replaceStale replaces a child whose login has changed since it started, as
// soon as that costs nobody a turn: a running app-server may keep the old one.
func (w *WorkDir) replaceStale() {
	if !w.stale || w.gen == nil || !w.taking || w.turnsRunning() > 0 {
		return
	}
	w.stale = false
	w.child.order(childOrder{what: orderReplace, gen: w.gen.number, why: reason.ChildRecycled, detail: "the login has changed"})
}

func (w *WorkDir) turnTimeout(t task.Tier) time.Duration {
	if o, ok := w.opt.Tiers[t]; ok && o.TurnTimeout > 0 && t != task.Owner {
		return o.TurnTimeout
	}
	return w.opt.TurnTimeout
}
