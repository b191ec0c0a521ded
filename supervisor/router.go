package supervisor

import (
	"sync"

	"github.com/codex-supervisor/codex-supervisor/rpc"
)

// router hands the events of one connection to the turns they belong to, by
// thread. Events of threads that nobody here runs a turn on (sub-agents,
// threads opened by other clients) belong to nobody and are dropped: a
// sub-agent's turn/completed must never end its parent's turn.
type router struct {
	mu    sync.Mutex
	turns map[string]*mailbox[turnEvent]
}

// turnEvent is one thing that happened on a thread.
type turnEvent struct {
	note    *rpc.Notification
	request *rpc.ServerRequest
}

func newRouter() *router { return &router{turns: map[string]*mailbox[turnEvent]{}} }

// subscribe must be called before turn/start: events may arrive before its answer.
func (r *router) subscribe(threadID string) *mailbox[turnEvent] {
	r.mu.Lock()
	defer r.mu.Unlock()
	box := newMailbox[turnEvent]()
	r.turns[threadID] = box
	return box
}

func (r *router) unsubscribe(threadID string, box *mailbox[turnEvent]) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.turns[threadID] == box {
		delete(r.turns, threadID)
	}
}

// deliver says whether a turn was there to take the event.
func (r *router) deliver(threadID string, e turnEvent) bool {
	r.mu.Lock()
	box := r.turns[threadID]
	r.mu.Unlock()
	if box == nil {
		return false
	}
	box.put(e)
	return true
}
