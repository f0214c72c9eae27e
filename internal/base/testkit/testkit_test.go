package testkit

import (
	"testing"
	"time"
)

func TestClock(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	c := NewClock(noon)
	var called []string
	note := func(name string) func() { return func() { called = append(called, name) } }
	c.AfterFunc(time.Second, note("due"))
	c.AfterFunc(2*time.Second, note("later"))
	c.AfterFunc(time.Second, note("stopped"))()
	if got, want := c.Advance(time.Second), noon.Add(time.Second); !got.Equal(want) || !c.Now().Equal(want) {
		t.Errorf("the clock shows %v and returned %v, want %v", c.Now(), got, want)
	}
	if len(called) != 1 || called[0] != "due" {
		t.Errorf("called %q, want only what is due", called)
	}
	at := make(chan struct{})
	c.AfterFunc(0, func() { close(at) })
	<-at
}

func TestEventually(t *testing.T) {
	t.Parallel()
	n := 0
	Eventually(t, "the third look", func() bool { n++; return n == 3 })
	if n != 3 {
		t.Errorf("looked %d times, want 3", n)
	}
}
