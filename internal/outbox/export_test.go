package outbox

import "time"

// TestOnlyNow replaces the clock that judges how settled a directory is.
func (s *Sink) TestOnlyNow(now func() time.Time) { s.now = now }

// TestOnlyCached reports whether a listing of dir would be used again.
func (s *Sink) TestOnlyCached(dir string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.listings[dir]
	return ok
}
