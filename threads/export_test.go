package threads

import "time"

// OpenedEarlier makes all loaded threads look as if opened that much earlier.
func (s *Session) OpenedEarlier(by time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id := range s.loaded {
		s.loaded[id] = s.loaded[id].Add(-by)
	}
}
