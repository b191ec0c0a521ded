package supervisor

import (
	"container/heap"
	"time"

	"golang.org/x/time/rate"

	"github.com/codex-supervisor/codex-supervisor/internal/inbox"
	"github.com/codex-supervisor/codex-supervisor/internal/task"
)

// lane separates the people who own the house from everybody else, so that no
// flood of strangers can take the last slot from an owner.
type lane int

const (
	laneOwners lane = iota
	laneOthers
	laneCount
)

func laneOf(t task.Tier) lane {
	if t == task.Owner {
		return laneOwners
	}
	return laneOthers
}

// flowKey names a stream of tasks that run one at a time: an owner's channel,
// or one tier's messages in a channel. Owners and others of the same room are
// separate flows: a guest's ten-minute turn in the owner's room must not make
// the owner wait, and since guests run on threads of their own nothing is
// merged when both run at once.
type flowKey struct {
	tier    task.Tier
	channel string
}

func flowOf(it inbox.Item) flowKey { return flowKey{it.Tier, it.ChannelKey} }

// queueLimits bound what runs at once.
type queueLimits struct {
	maxTurns int                         // slots of the child, 1 or more
	tierMax  map[task.Tier]int           // fewer for a tier; 0 = no own limit
	rates    map[task.Tier]*rate.Limiter // nil = unlimited
	ageing   time.Duration               // a task's class rises one step for each
}

// queue decides what runs next. It is plain data owned by the work dir's
// goroutine: no clock, no locks, no I/O.
//
// Between the two lanes turns alternate while both have work that may run;
// from two slots up one slot is never given to the lane of others. Inside a
// lane the best class goes first and, in a class, flows take turns. Inside a
// flow: class, then mtime, then name. Ageing raises a task's class one step
// for each full ageing interval waited, so nothing waits for ever.
type queue struct {
	limits   queueLimits
	flows    map[flowKey]*flow
	where    map[string]*flow // task id → its flow, while queued
	running  map[string]flowKey
	busy     map[flowKey]int   // running in the flow, or waiting to be settled
	byTier   map[task.Tier]int // running now
	byLane   [laneCount]int
	lost     int // slots held by abandoned guest turns
	lastLane lane
	noOthers bool   // confinement is not proven yet
	tick     uint64 // logical time of service, for taking turns
}

type flow struct {
	key    flowKey
	served uint64 // tick at which it was last served; older goes first
	class  [3]itemHeap
	size   int
}

// itemHeap orders by mtime, then name.
type itemHeap []inbox.Item

func (h itemHeap) Len() int { return len(h) }
func (h itemHeap) Less(i, j int) bool {
	if !h[i].ModTime.Equal(h[j].ModTime) {
		return h[i].ModTime.Before(h[j].ModTime)
	}
	return h[i].ID < h[j].ID
}
func (h itemHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *itemHeap) Push(x any)   { *h = append(*h, x.(inbox.Item)) }
func (h *itemHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	*h = old[:len(old)-1]
	return last
}

func newQueue(l queueLimits) *queue {
	return &queue{
		limits: l, flows: map[flowKey]*flow{}, where: map[string]*flow{},
		running: map[string]flowKey{}, busy: map[flowKey]int{}, byTier: map[task.Tier]int{},
		lastLane: laneOthers, // so that owners go first
	}
}

// push queues an item; one that is queued already is replaced (its file changed).
func (q *queue) push(it inbox.Item) {
	if _, ok := q.running[it.ID]; ok {
		return
	}
	q.remove(it.ID)
	key := flowOf(it)
	f := q.flows[key]
	if f == nil {
		// A new flow joins at the end of the round, so that one sender who
		// always has a fresh flow ready cannot keep those with a backlog out.
		f = &flow{key: key, served: q.tick}
		q.flows[key] = f
	}
	heap.Push(&f.class[classOf(it)], it)
	f.size++
	q.where[it.ID] = f
}

// remove takes an item out again and says whether it was queued.
func (q *queue) remove(id string) bool {
	f := q.where[id]
	if f == nil {
		return false
	}
	delete(q.where, id)
	for c := range f.class {
		for i, it := range f.class[c] {
			if it.ID == id {
				heap.Remove(&f.class[c], i)
				f.size--
				q.dropIfIdle(f)
				return true
			}
		}
	}
	return false
}

func (q *queue) queued(id string) bool { return q.where[id] != nil }
func (q *queue) length() int           { return len(q.where) }

// depth counts the queued tasks of a tier.
func (q *queue) depth(t task.Tier) int {
	n := 0
	for key, f := range q.flows {
		if key.tier == t {
			n += f.size
		}
	}
	return n
}

// next takes the task that should run now. When none may run, wake is the
// earliest time at which a rate limit allows one (zero when only an event can).
func (q *queue) next(now time.Time) (it inbox.Item, ok bool, wake time.Time) {
	if q.used() >= q.limits.maxTurns {
		return inbox.Item{}, false, time.Time{}
	}
	first := laneOwners
	if q.lastLane == laneOwners {
		first = laneOthers
	}
	for _, l := range [...]lane{first, other(first)} {
		if l == laneOthers && !q.othersMayTake() {
			continue
		}
		f, class, w := q.best(l, now)
		wake = earlier(wake, w)
		if f == nil {
			continue
		}
		it := heap.Pop(&f.class[class]).(inbox.Item)
		f.size--
		delete(q.where, it.ID)
		q.tick++
		f.served = q.tick
		q.lastLane = l
		q.take(it)
		if lim := q.limits.rates[it.Tier]; lim != nil {
			lim.AllowN(now, 1)
		}
		return it, true, time.Time{}
	}
	return inbox.Item{}, false, wake
}

// take marks an item as running. Recovery uses it directly: a task cut by a
// crash holds its flow before anything else of that flow may run.
func (q *queue) take(it inbox.Item) {
	q.remove(it.ID)
	key := flowOf(it)
	q.running[it.ID] = key
	q.busy[key]++
	q.byTier[key.tier]++
	q.byLane[laneOf(key.tier)]++
}

// finish frees the slot and the flow of a running task.
func (q *queue) finish(id string) {
	key, ok := q.running[id]
	if !ok {
		return
	}
	delete(q.running, id)
	q.byTier[key.tier]--
	q.byLane[laneOf(key.tier)]--
	q.unreserve(key)
}

// reserve keeps a flow from running anything new, without taking a slot: a task
// of it is waiting to be settled.
func (q *queue) reserve(key flowKey) { q.busy[key]++ }

func (q *queue) unreserve(key flowKey) {
	if q.busy[key]--; q.busy[key] <= 0 {
		delete(q.busy, key)
	}
	if f := q.flows[key]; f != nil {
		q.dropIfIdle(f)
	}
}

// active says whether a task of the flow is running.
func (q *queue) active(key flowKey) bool {
	for _, k := range q.running {
		if k == key {
			return true
		}
	}
	return false
}

// used counts slots that are taken: running tasks and lost ones.
func (q *queue) used() int { return len(q.running) + q.lost }

// othersMayTake keeps one slot for owners from two slots up. A slot lost to an
// abandoned guest turn counts as taken by others.
func (q *queue) othersMayTake() bool {
	if q.noOthers {
		return false
	}
	if q.limits.maxTurns < 2 {
		return true
	}
	return q.byLane[laneOthers]+q.lost < q.limits.maxTurns-1
}

// best picks the flow of a lane to serve: the best class among the heads, and
// in it the flow served longest ago.
func (q *queue) best(l lane, now time.Time) (f *flow, class int, wake time.Time) {
	bestClass := 0
	for key, candidate := range q.flows {
		if laneOf(key.tier) != l || candidate.size == 0 || q.busy[key] > 0 {
			continue
		}
		if limit := q.limits.tierMax[key.tier]; limit > 0 && q.byTier[key.tier] >= limit {
			continue
		}
		if lim := q.limits.rates[key.tier]; lim != nil {
			if at := rateReady(lim, now); at.After(now) {
				wake = earlier(wake, at)
				continue
			}
		}
		c, effective := candidate.head(now, q.limits.ageing)
		if f == nil || effective < bestClass || (effective == bestClass && servedBefore(candidate, c, f, class)) {
			f, class, bestClass = candidate, c, effective
		}
	}
	return f, class, wake
}

// head says which of the flow's classes holds its next item, and that item's
// class after ageing. The heaps are ordered by age, so each head has aged most.
func (f *flow) head(now time.Time, ageing time.Duration) (class, effective int) {
	class = -1
	for c := range f.class {
		if len(f.class[c]) == 0 {
			continue
		}
		e := aged(c, now.Sub(f.class[c][0].ModTime), ageing)
		if class < 0 || e < effective || (e == effective && f.class[c][0].ModTime.Before(f.class[class][0].ModTime)) {
			class, effective = c, e
		}
	}
	return class, effective
}

func (q *queue) dropIfIdle(f *flow) {
	if f.size == 0 && q.busy[f.key] == 0 {
		delete(q.flows, f.key)
	}
}

// servedBefore breaks ties between flows: served longest ago first; between
// equals, the older head, then the name, so that the order is
// the same on every run.
func servedBefore(a *flow, ac int, b *flow, bc int) bool {
	if a.served != b.served {
		return a.served < b.served
	}
	x, y := a.class[ac][0], b.class[bc][0]
	if !x.ModTime.Equal(y.ModTime) {
		return x.ModTime.Before(y.ModTime)
	}
	return x.ID < y.ID
}

// aged raises a class one step for each full interval waited; urgent is 0 and
// nothing rises above it.
func aged(class int, waited, ageing time.Duration) int {
	if ageing <= 0 || waited <= 0 {
		return class
	}
	return max(class-int(min(waited/ageing, 2)), 0)
}

func classOf(it inbox.Item) int { return min(int(it.Priority), 2) }

func other(l lane) lane {
	if l == laneOwners {
		return laneOthers
	}
	return laneOwners
}

// rateReady says when the limiter has a token. It is asked without taking one.
func rateReady(lim *rate.Limiter, now time.Time) time.Time {
	missing := 1 - lim.TokensAt(now)
	if missing <= 0 {
		return now
	}
	if lim.Limit() <= 0 {
		return now.Add(time.Hour)
	}
	return now.Add(time.Duration(missing / float64(lim.Limit()) * float64(time.Second)))
}

func earlier(a, b time.Time) time.Time {
	if a.IsZero() || (!b.IsZero() && b.Before(a)) {
		return b
	}
	return a
}

// find returns a queued item.
func (q *queue) find(id string) inbox.Item {
	if f := q.where[id]; f != nil {
		for _, h := range f.class {
			for _, it := range h {
				if it.ID == id {
					return it
				}
			}
		}
	}
	return inbox.Item{}
}

// some returns up to limit of the queued items, for status.
func (q *queue) some(limit int) []inbox.Item {
	var items []inbox.Item
	for _, f := range q.flows {
		for _, h := range f.class {
			for _, it := range h {
				if len(items) == limit {
					return items
				}
				items = append(items, it)
			}
		}
	}
	return items
}
