package rpc

import "sync"

// queue is ordered and unbounded: whoever pushes never waits. That is what keeps
// the read loop alive when a handler is slow, and a call alive when the writer is
// blocked. Its length is bounded by others: by what the server sends, by
// MaxInFlight and by what the server asks.
type queue[T any] struct {
	// ready holds a token whenever there is something to pop.
	ready chan struct{}

	mu    sync.Mutex
	items []T
}

func newQueue[T any]() *queue[T] { return &queue[T]{ready: make(chan struct{}, 1)} }

func (q *queue[T]) push(item T) {
	q.mu.Lock()
	q.items = append(q.items, item)
	q.mu.Unlock()
	q.signal()
}

func (q *queue[T]) pop() (item T, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.items) == 0 {
		return item, false
	}
	item = q.items[0]
	var zero T
	q.items[0] = zero // let go of the payload while the array lives on
	q.items = q.items[1:]
	if len(q.items) == 0 {
		q.items = nil
	} else {
		q.signal()
	}
	return item, true
}

// remove drops the first item that matches.
func (q *queue[T]) remove(match func(T) bool) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i, item := range q.items {
		if match(item) {
			q.items = append(q.items[:i:i], q.items[i+1:]...)
			return true
		}
	}
	return false
}

func (q *queue[T]) signal() {
	select {
	case q.ready <- struct{}{}:
	default:
	}
}
