package supervisor

import (
	"fmt"
	"testing"
	"time"

	"golang.org/x/time/rate"
	"pgregory.net/rapid"

	"github.com/codex-supervisor/codex-supervisor/internal/inbox"
	"github.com/codex-supervisor/codex-supervisor/internal/task"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func item(id string, tier task.Tier, channel string, p task.Priority, age time.Duration) inbox.Item {
	return inbox.Item{ID: id, Tier: tier, ChannelKey: channel, Priority: p, ModTime: noon.Add(-age)}
}

// drainOne runs the queue with one task at a time and returns the order.
func drainOne(t *testing.T, q *queue) []string {
	t.Helper()
	var order []string
	for {
		it, ok, _ := q.next(noon)
		if !ok {
			if q.length() > 0 {
				t.Fatalf("stuck with %d queued after %v", q.length(), order)
			}
			return order
		}
		order = append(order, it.ID)
		q.finish(it.ID)
	}
}

func wantOrder(t *testing.T, got []string, want ...string) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("order %v, want %v", got, want)
	}
}

func TestQueue_Order(t *testing.T) {
	t.Run("PriorityThenAgeThenName", func(t *testing.T) {
		q := newQueue(queueLimits{maxTurns: 1})
		q.push(item("low", task.Owner, "a", task.Low, 3*time.Second))
		q.push(item("new", task.Owner, "a", task.Normal, time.Second))
		q.push(item("old-b", task.Owner, "a", task.Normal, 2*time.Second))
		q.push(item("old-a", task.Owner, "a", task.Normal, 2*time.Second))
		q.push(item("urgent", task.Owner, "a", task.Urgent, 0))
		wantOrder(t, drainOne(t, q), "urgent", "old-a", "old-b", "new", "low")
	})
	t.Run("FlowsTakeTurns", func(t *testing.T) {
		q := newQueue(queueLimits{maxTurns: 1})
		for i := range 3 {
			q.push(item(fmt.Sprint("a", i), task.Owner, "a", task.Normal, time.Duration(10-i)*time.Second))
		}
		q.push(item("b0", task.Owner, "b", task.Normal, 2*time.Second))
		q.push(item("b1", task.Owner, "b", task.Normal, time.Second))
		wantOrder(t, drainOne(t, q), "a0", "b0", "a1", "b1", "a2")
	})
	t.Run("AgeingRaisesOneStepForEachInterval", func(t *testing.T) {
		q := newQueue(queueLimits{maxTurns: 1, ageing: 5 * time.Minute})
		q.push(item("fresh-normal", task.Owner, "a", task.Normal, 0))
		q.push(item("aged-low", task.Owner, "b", task.Low, 10*time.Minute))                 // two steps: urgent
		q.push(item("nearly-low", task.Owner, "c", task.Low, 4*time.Minute+59*time.Second)) // none
		wantOrder(t, drainOne(t, q), "aged-low", "fresh-normal", "nearly-low")
	})
	t.Run("LanesAlternateWithOneSlot", func(t *testing.T) {
		q := newQueue(queueLimits{maxTurns: 1})
		for i := range 3 {
			q.push(item(fmt.Sprint("o", i), task.Owner, fmt.Sprint("o", i), task.Normal, time.Duration(9-i)*time.Second))
			q.push(item(fmt.Sprint("g", i), task.Guest, fmt.Sprint("g", i), task.Urgent, time.Duration(9-i)*time.Second))
		}
		wantOrder(t, drainOne(t, q), "o0", "g0", "o1", "g1", "o2", "g2")
	})
	t.Run("ReplacedItemMovesToItsNewClass", func(t *testing.T) {
		q := newQueue(queueLimits{maxTurns: 1})
		q.push(item("x", task.Guest, "a", task.Low, 0))
		q.push(item("x", task.Owner, "b", task.Urgent, 0))
		if q.length() != 1 || q.depth(task.Guest) != 0 || q.depth(task.Owner) != 1 {
			t.Errorf("length %d, guests %d, owners %d; want 1, 0, 1", q.length(), q.depth(task.Guest), q.depth(task.Owner))
		}
	})
}

func TestQueue_Slots(t *testing.T) {
	t.Run("OneSlotIsNeverGivenToOthers", func(t *testing.T) {
		q := newQueue(queueLimits{maxTurns: 3})
		for i := range 5 {
			q.push(item(fmt.Sprint("g", i), task.Guest, fmt.Sprint(i), task.Urgent, 0))
		}
		started := 0
		for {
			if _, ok, _ := q.next(noon); !ok {
				break
			}
			started++
		}
		if started != 2 {
			t.Fatalf("guests took %d of 3 slots, want 2", started)
		}
		q.push(item("o", task.Owner, "o", task.Low, 0))
		if it, ok, _ := q.next(noon); !ok || it.ID != "o" {
			t.Errorf("owner was not started in the kept slot: %v %v", it.ID, ok)
		}
	})
	t.Run("LostSlotsCountAgainstOthers", func(t *testing.T) {
		q := newQueue(queueLimits{maxTurns: 3})
		q.lost = 2
		q.push(item("g", task.Guest, "g", task.Normal, 0))
		if it, ok, _ := q.next(noon); ok {
			t.Errorf("%s was started into the owners' slot", it.ID)
		}
	})
	t.Run("OneTaskOfAFlowAtATime", func(t *testing.T) {
		q := newQueue(queueLimits{maxTurns: 4})
		q.push(item("a0", task.Owner, "a", task.Normal, 2*time.Second))
		q.push(item("a1", task.Owner, "a", task.Urgent, time.Second))
		if it, ok, _ := q.next(noon); !ok || it.ID != "a1" {
			t.Fatalf("first %v %v, want a1", it.ID, ok)
		}
		if it, ok, _ := q.next(noon); ok {
			t.Errorf("%s started beside a1 in one channel", it.ID)
		}
		q.finish("a1")
		if it, ok, _ := q.next(noon); !ok || it.ID != "a0" {
			t.Errorf("after a1: %v %v, want a0", it.ID, ok)
		}
	})
	t.Run("GuestOfTheRoomDoesNotHoldUpItsOwner", func(t *testing.T) {
		q := newQueue(queueLimits{maxTurns: 2})
		q.take(item("g", task.Guest, "room", task.Normal, 0))
		q.push(item("o", task.Owner, "room", task.Normal, 0))
		if it, ok, _ := q.next(noon); !ok || it.ID != "o" {
			t.Errorf("owner waits for a guest of the same room: %v %v", it.ID, ok)
		}
	})
	t.Run("ReservedFlowRunsNothingNew", func(t *testing.T) {
		q := newQueue(queueLimits{maxTurns: 2})
		cut := item("cut", task.Owner, "a", task.Normal, 0)
		q.reserve(flowOf(cut))
		q.push(item("next", task.Owner, "a", task.Urgent, 0))
		if it, ok, _ := q.next(noon); ok {
			t.Fatalf("%s started before the cut task was settled", it.ID)
		}
		q.unreserve(flowOf(cut))
		if it, ok, _ := q.next(noon); !ok || it.ID != "next" {
			t.Errorf("flow still closed: %v %v", it.ID, ok)
		}
	})
	t.Run("TierMaxHoldsOnlyThatTier", func(t *testing.T) {
		q := newQueue(queueLimits{maxTurns: 4, tierMax: map[task.Tier]int{task.Guest: 1}})
		q.push(item("g0", task.Guest, "0", task.Normal, 3*time.Second))
		q.push(item("g1", task.Guest, "1", task.Normal, 2*time.Second))
		q.push(item("t0", task.Team, "0", task.Normal, time.Second))
		first, _, _ := q.next(noon)
		second, _, _ := q.next(noon)
		if first.ID != "g0" || second.ID != "t0" {
			t.Errorf("started %s, %s; want g0, t0", first.ID, second.ID)
		}
	})
	t.Run("OthersWaitForProof", func(t *testing.T) {
		q := newQueue(queueLimits{maxTurns: 1})
		q.noOthers = true
		q.push(item("g", task.Guest, "g", task.Urgent, 0))
		if it, ok, _ := q.next(noon); ok {
			t.Errorf("%s started before confinement was proven", it.ID)
		}
	})
}

func TestQueue_Rate(t *testing.T) {
	q := newQueue(queueLimits{maxTurns: 4, rates: map[task.Tier]*rate.Limiter{task.Guest: rate.NewLimiter(rate.Every(time.Minute), 1)}})
	q.push(item("g0", task.Guest, "0", task.Normal, 2*time.Second))
	q.push(item("g1", task.Guest, "1", task.Normal, time.Second))
	if it, ok, _ := q.next(noon); !ok || it.ID != "g0" {
		t.Fatalf("first %v %v, want g0", it.ID, ok)
	}
	it, ok, wake := q.next(noon)
	if ok {
		t.Fatalf("%s started above the rate", it.ID)
	}
	if d := wake.Sub(noon); d < 59*time.Second || d > 61*time.Second {
		t.Errorf("wakes after %s, want a minute", d)
	}
	if it, ok, _ := q.next(wake.Add(time.Millisecond)); !ok || it.ID != "g1" {
		t.Errorf("at the wake time: %v %v, want g1", it.ID, ok)
	}
}

// TestQueue_NobodyStarves lets senders flood the queue at random and asserts,
// for each task, a bound on how many others were started after it had come and
// before it was.
func TestQueue_NobodyStarves(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		slots := rapid.IntRange(1, 4).Draw(t, "slots")
		q := newQueue(queueLimits{maxTurns: slots})
		arrivedAt := map[string]int{}
		started := 0
		flows := map[flowKey]int{}
		var running []string
		next := 0
		steps := rapid.IntRange(20, 120).Draw(t, "steps")
		for range steps {
			if rapid.Bool().Draw(t, "arrive") {
				tier := rapid.SampledFrom(task.AllTiers()).Draw(t, "tier")
				channel := fmt.Sprint(rapid.IntRange(0, 3).Draw(t, "channel"))
				it := item(fmt.Sprintf("t%03d", next), tier, channel, task.Normal, -time.Duration(next)*time.Second)
				next++
				q.push(it)
				arrivedAt[it.ID] = started
				flows[flowOf(it)]++
			}
			if len(running) > 0 && rapid.Bool().Draw(t, "finish") {
				q.finish(running[0])
				running = running[1:]
			}
			for {
				it, ok, _ := q.next(noon)
				if !ok {
					break
				}
				running = append(running, it.ID)
				started++
				// Everything ahead in its own flow, and for each of these a full
				// round of all flows of both lanes.
				bound := (flows[flowOf(it)] + 1) * 2 * (len(flows) + slots)
				if waited := started - arrivedAt[it.ID]; waited > bound {
					t.Fatalf("%s was started after %d others, bound %d", it.ID, waited, bound)
				}
			}
			if len(running) > slots {
				t.Fatalf("%d running in %d slots", len(running), slots)
			}
		}
		for len(running) > 0 || q.length() > 0 {
			if len(running) > 0 {
				q.finish(running[0])
				running = running[1:]
			}
			it, ok, _ := q.next(noon)
			if ok {
				running = append(running, it.ID)
			} else if len(running) == 0 && q.length() > 0 {
				t.Fatalf("%d tasks never ran", q.length())
			}
		}
		if len(q.flows) != 0 || len(q.busy) != 0 || len(q.where) != 0 {
			t.Fatalf("left behind: %d flows, %d busy, %d entries", len(q.flows), len(q.busy), len(q.where))
		}
	})
}
