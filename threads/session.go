package threads

import (
	"context"
	"sync"

	"github.com/codex-supervisor/codex-supervisor/rpc"
)

// Client is what threads needs of the app-server's connection.
type Client interface {
	ThreadStart(context.Context, rpc.ThreadStartParams) (rpc.ThreadReply, error)
	ThreadResume(context.Context, rpc.ThreadResumeParams) (rpc.ThreadReply, error)
	ThreadUnsubscribe(context.Context, rpc.ThreadUnsubscribeParams) (rpc.ThreadUnsubscribeReply, error)
	ThreadTurnsList(context.Context, rpc.ThreadTurnsListParams) (rpc.ThreadTurnsListReply, error)
}

var _ Client = (*rpc.Client)(nil)

// Session is what is known of the threads that one generation has loaded. It is
// safe for use by several goroutines.
type Session struct {
	client     Client
	generation uint64

	mu     sync.Mutex
	loaded map[string]uint64 // thread → when it was last used, in uses
	uses   uint64
}

// NewSession begins a generation's session.
func (t *Threads) NewSession(client Client, generation uint64) *Session {
	return &Session{client: client, generation: generation, loaded: map[string]uint64{}}
}

// Closed notes that Codex unloaded a thread (thread/closed).
func (s *Session) Closed(threadID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.loaded, threadID)
}

// use notes that a thread is loaded, with its policy checked, and in use.
func (s *Session) use(threadID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.uses++
	s.loaded[threadID] = s.uses
}

// has says whether a thread is loaded and was checked when it was loaded. A
// loaded thread keeps the policy it was loaded with; overrides are ignored.
func (s *Session) has(threadID string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.loaded[threadID]
	return ok
}

// Loaded counts the durable threads that are loaded.
func (s *Session) Loaded() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.loaded)
}

// UnsubscribeIdle lets go of the threads used longest ago, so that at most keep
// stay loaded: each costs Codex two descriptors, and at 1,024 it fails. busy
// says which may not be let go.
func (s *Session) UnsubscribeIdle(ctx context.Context, keep int, busy func(threadID string) bool) error {
	for {
		oldest := s.oldest(keep, busy)
		if oldest == "" {
			return nil
		}
		s.Closed(oldest)
		if _, err := s.client.ThreadUnsubscribe(ctx, rpc.ThreadUnsubscribeParams{ThreadID: oldest}); err != nil {
			return err
		}
	}
}

func (s *Session) oldest(keep int, busy func(string) bool) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.loaded) <= keep {
		return ""
	}
	oldest := ""
	for id, used := range s.loaded {
		if (oldest == "" || used < s.loaded[oldest]) && !busy(id) {
			oldest = id
		}
	}
	return oldest
}
