package page

import (
	"sync/atomic"
	"testing"
)

// TestStreamLimit opens as many streams as a user may have, and one more.
func TestStreamLimit(t *testing.T) {
	t.Parallel()
	var s streams
	session := &Session{UserID: "anna", Hash: "one"}
	var ended atomic.Int32
	var leave []func()
	for range maxStreams {
		one, err := s.enter(session, func(error) { ended.Add(1) })
		if err != nil {
			t.Fatal(err)
		}
		leave = append(leave, one)
	}
	if _, err := s.enter(&Session{UserID: "anna", Hash: "two"}, func(error) {}); err == nil {
		t.Error("a user has more streams than allowed")
	}
	if _, err := s.enter(&Session{UserID: "ben", Hash: "three"}, func(error) {}); err != nil {
		t.Errorf("another user: %v", err)
	}
	s.end("one")
	if n := ended.Load(); n != maxStreams {
		t.Errorf("%d streams were ended", n)
	}
	for _, one := range leave {
		one()
	}
	if len(s.bySession) != 1 || len(s.byUser) != 1 {
		t.Errorf("left: %v, %v", s.bySession, s.byUser)
	}
}
