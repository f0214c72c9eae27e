package logdb

import "context"

// Maintain does the housekeeping now.
func (s *Store) Maintain(ctx context.Context) error { return s.maintain(ctx, true) }

// Listening reports whether notifications of other servers are received.
func (s *Store) Listening() bool { return s.listening.Load() }

// FeedTaken reports whether the hoses have been told all that was announced.
func (s *Store) FeedTaken() bool {
	s.feed.mu.Lock()
	defer s.feed.mu.Unlock()
	return len(s.feed.wake) == 0 && !s.feed.every && s.feed.first == nil
}
