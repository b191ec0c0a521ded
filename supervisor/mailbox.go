package supervisor

import "sync"

// mailbox is an unbounded queue with one reader. The connection's reader must
// never wait for a turn, and a turn must never miss an event, so events pile up
// here when a turn is slow; a turn's events are bounded by what the model says.
type mailbox[T any] struct {
	mu    sync.Mutex
	items []T
	ready chan struct{} // holds one token while items are waiting
}

func newMailbox[T any]() *mailbox[T] {
	return &mailbox[T]{ready: make(chan struct{}, 1)}
}

func (m *mailbox[T]) put(v T) {
	m.mu.Lock()
	m.items = append(m.items, v)
	m.mu.Unlock()
	select {
	case m.ready <- struct{}{}:
	default:
	}
}

// take returns everything that waits, in order. Call it after ready fired.
func (m *mailbox[T]) take() []T {
	m.mu.Lock()
	defer m.mu.Unlock()
	items := m.items
	m.items = nil
	return items
}
