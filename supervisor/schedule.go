package supervisor

import (
	"time"

	"github.com/codex-supervisor/codex-supervisor/internal/inbox"
	"github.com/codex-supervisor/codex-supervisor/internal/reason"
	"github.com/codex-supervisor/codex-supervisor/store"
)

// offlineWalks bounds the answers that are written at once without a child.
const offlineWalks = 4

// schedule starts every walk that may start now, and says when to look again
// although nothing happened (zero when only a message can change anything).
func (w *WorkDir) schedule(now time.Time) time.Time {
	if w.stopping {
		return time.Time{}
	}
	wake := w.startOffline(now)
	if w.gen == nil {
		return wake
	}
	wake = earlier(wake, w.aloneUntil(now))
	wake = earlier(wake, w.startWaiting(now))
	switch {
	case w.paused:
	case w.held != nil:
		wake = earlier(wake, w.tellHeld(now))
	case w.taking:
		wake = earlier(wake, w.startQueued(now))
	}
	return wake
}

// startOffline settles tasks whose end is known without a child.
func (w *WorkDir) startOffline(now time.Time) (wake time.Time) {
	busy := 0
	for _, r := range w.running {
		if r.gen == 0 {
			busy++
		}
	}
	for id, wt := range w.waiting {
		if !wt.offline || busy >= offlineWalks {
			continue
		}
		if wt.after.After(now) {
			wake = earlier(wake, wt.after)
			continue
		}
		delete(w.waiting, id)
		busy++
		w.start(wt.item, &walk{known: wt.end, tries: wt.tries})
	}
	return wake
}

// startWaiting takes up tasks that a crash, a hold or a full disk cut short.
// They go before anything new: somebody has been waiting for them.
func (w *WorkDir) startWaiting(now time.Time) (wake time.Time) {
	for id, wt := range w.waiting {
		switch {
		case wt.offline || wt.deferred && !w.tellNow(now):
			continue
		case wt.after.After(now):
			wake = earlier(wake, wt.after)
			continue
		case !w.taking && w.held == nil:
			continue // draining
		case w.queue.used() >= w.queue.limits.maxTurns:
			continue
		case w.queue.noOthers && laneOf(wt.item.Tier) == laneOthers:
			continue
		case !w.mayJoin(id), w.queue.active(flowOf(wt.item)):
			continue
		}
		delete(w.waiting, id)
		if wt.reserved {
			w.queue.unreserve(flowOf(wt.item))
		}
		w.queue.take(wt.item)
		w.start(wt.item, &walk{gen: w.gen, blame: wt.blame, held: w.held, tries: wt.tries})
	}
	return wake
}

func (w *WorkDir) startQueued(now time.Time) time.Time {
	for {
		if !w.mayJoin("") {
			return time.Time{}
		}
		it, ok, wake := w.queue.next(now)
		if !ok {
			return wake
		}
		w.start(it, &walk{gen: w.gen})
	}
}

// tellHeld answers queued tasks that meet a hold which will last.
func (w *WorkDir) tellHeld(now time.Time) time.Time {
	if !w.tellNow(now) {
		if w.held.why == reason.ConfigBroken {
			return w.held.since.Add(patience + time.Second)
		}
		return time.Time{}
	}
	for len(w.running) < offlineWalks {
		it, ok, wake := w.queue.next(now)
		if !ok {
			return wake
		}
		w.start(it, &walk{known: &knownEnd{
			outcome: store.Failed, failure: failure{why: w.held.why, until: w.held.until},
		}})
	}
	return time.Time{}
}

func (w *WorkDir) tellNow(now time.Time) bool { return w.held != nil && w.held.tell(now) }

// aloneFor is how long a suspect runs alone. Then the others may join: a turn
// of hours must not stop the house.
const aloneFor = stableUptime

// mayJoin says whether a task may start beside those that run. While there are
// suspects of a death, one of them runs alone at a time.
func (w *WorkDir) mayJoin(id string) bool {
	if len(w.suspects) == 0 {
		return true
	}
	if id != "" && w.suspects[id] {
		return w.turnsRunning() == 0
	}
	for suspect := range w.suspects {
		if w.running[suspect] != nil || (w.waiting[suspect] != nil && !w.waiting[suspect].deferred) {
			return false
		}
	}
	return true
}

// aloneUntil ends the time alone of a suspect that has held out.
func (w *WorkDir) aloneUntil(now time.Time) (wake time.Time) {
	for id := range w.suspects {
		r := w.running[id]
		if r == nil {
			if w.waiting[id] == nil {
				delete(w.suspects, id)
			}
			continue
		}
		if until := r.started.Add(aloneFor); until.After(now) {
			wake = earlier(wake, until)
		} else {
			delete(w.suspects, id)
		}
	}
	return wake
}

func (w *WorkDir) turnsRunning() int {
	n := 0
	for _, r := range w.running {
		if r.gen != 0 {
			n++
		}
	}
	return n
}

// start runs a walk on a goroutine of its own; Serve waits for it.
func (w *WorkDir) start(it inbox.Item, k *walk) {
	r := &running{item: it, cancel: make(chan reason.Reason, 1), started: time.Now()}
	r.shown.Store(&RunningTask{
		ID: it.ID, Tier: it.Tier, Channel: it.ChannelKey, Phase: "starting", Started: r.started, Cap: w.turnTimeout(it.Tier),
	})
	if k.gen != nil {
		r.gen = k.gen.number
		w.tally(r.gen).walks++
	}
	w.running[it.ID] = r
	k.w, k.item, k.cancel = w, it, r.cancel
	k.log = w.log.With("task", it.ID, "tier", string(it.Tier))
	k.show = func(change func(*RunningTask)) {
		shown := *r.shown.Load() // written by this walk's goroutine only
		change(&shown)
		r.shown.Store(&shown)
	}
	ctx := w.walkCtx
	w.walks.Go(func() {
		w.post(msgWalk{id: it.ID, end: k.run(ctx), walk: k})
	})
}
