package logdb

import "context"

// Maintain does the housekeeping now.
func (s *Store) Maintain(ctx context.Context) error { return s.maintain(ctx, true) }

// Listening reports whether notifications of other servers are received.
func (s *Store) Listening() bool { return s.listening.Load() }
