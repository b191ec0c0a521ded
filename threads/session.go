package threads

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/codex-supervisor/codex-supervisor/rpc"
)

// Client is what threads needs of the app-server's connection.
type Client interface {
	ThreadStart(context.Context, rpc.ThreadStartParams) (rpc.ThreadReply, error)
	ThreadResume(context.Context, rpc.ThreadResumeParams) (rpc.ThreadReply, error)
	ThreadRead(context.Context, rpc.ThreadReadParams) (rpc.ThreadReadReply, error)
	ThreadUnsubscribe(context.Context, rpc.ThreadUnsubscribeParams) (rpc.ThreadUnsubscribeReply, error)
	ThreadTurnsList(context.Context, rpc.ThreadTurnsListParams) (rpc.ThreadTurnsListReply, error)
}

var _ Client = (*rpc.Client)(nil)

// idleFor is how long a thread must not have been opened before it is let go:
// between its opening and turn/started only we know that it is wanted.
const idleFor = time.Minute

// Session is what is known of the threads that one generation has loaded. It is
// safe for use by several goroutines.
type Session struct {
	client     Client
	generation uint64

	mu     sync.Mutex
	loaded map[string]time.Time // durable threads → when they were last opened
}

// NewSession begins a generation's session. Every process before it is gone by
// now, and with it every ephemeral thread.
func (t *Threads) NewSession(client Client, generation uint64) *Session {
	if n, err := t.opt.Store.EndOlderEphemerals(generation, time.Now()); err != nil {
		t.opt.Logger.Warn("ends of ephemeral threads not recorded", "generation", generation, "error", err)
	} else if n > 0 {
		t.opt.Logger.Debug("ephemeral threads ended with their process", "generation", generation, "threads", n)
	}
	return &Session{client: client, generation: generation, loaded: map[string]time.Time{}}
}

// Closed notes that Codex unloaded a thread (thread/closed).
func (s *Session) Closed(threadID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.loaded, threadID)
}

// use notes that a thread is loaded, with its policy checked, and wanted.
func (s *Session) use(threadID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.loaded[threadID] = time.Now()
}

// reuse is use for a thread that may be loaded, and says whether it is. It was
// checked when it was loaded, and keeps the policy that it had then: overrides
// on a loaded thread are silently ignored (codex 0.171.0, measured).
func (s *Session) reuse(threadID string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, loaded := s.loaded[threadID]
	if loaded {
		s.loaded[threadID] = time.Now()
	}
	return loaded
}

// Loaded counts the durable threads that are loaded.
func (s *Session) Loaded() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.loaded)
}

// UnsubscribeIdle lets go of the threads opened longest ago, so that at most
// keep stay loaded; Codex then unloads them. Each costs it two descriptors and
// 0.8 MB (codex 0.171.0, measured). A thread with a running turn stays, however
// long ago it was opened: unsubscribed, its end would never be heard of.
func (s *Session) UnsubscribeIdle(ctx context.Context, keep int) error {
	var errs []error
	for _, id := range s.idlest(keep) {
		read, err := s.client.ThreadRead(ctx, rpc.ThreadReadParams{ThreadID: id})
		if err == nil && read.Thread.Status.Type != rpc.ThreadActive && s.forget(id) {
			err = s.unsubscribe(ctx, id)
		}
		//exhaustive:ignore every other fault is reported alike
		switch rpc.FaultOf(err) {
		case rpc.FaultConnection:
			return err
		case rpc.FaultNoRollout, rpc.FaultThreadNotLoaded, rpc.FaultThreadNotFound:
			s.forget(id) // Codex let go of it before us
		default:
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// idlest are the threads to be let go of, the one opened longest ago first.
func (s *Session) idlest(keep int) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var ids []string
	for id, opened := range s.loaded {
		if time.Since(opened) >= idleFor {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, func(a, b string) int { return cmp.Or(s.loaded[a].Compare(s.loaded[b]), cmp.Compare(a, b)) })
	return ids[:min(len(ids), max(0, len(s.loaded)-keep))]
}

// forget takes a thread out, unless it was opened meanwhile.
func (s *Session) forget(threadID string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if opened, ok := s.loaded[threadID]; !ok || time.Since(opened) < idleFor {
		return false
	}
	delete(s.loaded, threadID)
	return true
}

func (s *Session) unsubscribe(ctx context.Context, threadID string) error {
	s.Closed(threadID)
	_, err := s.client.ThreadUnsubscribe(ctx, rpc.ThreadUnsubscribeParams{ThreadID: threadID})
	return err
}
