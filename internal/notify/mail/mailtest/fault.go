package mailtest

import (
	"sync"
	"time"
)

// Stage is a step of a session at which a fault can happen.
type Stage int

// The stages.
const (
	Connect Stage = iota // before the greeting
	Hello
	Mail
	Rcpt
	Data    // before 354
	Content // when the Message-ID was read, inside the content
	Dot     // the content is complete, before the reply
	Lost    // after the reply of a message was lost: Taken decides whether it counts
)

// Step is the current step of a session.
type Step struct {
	Stage      Stage
	Connection int
	From, To   string
	ID         string // from Content on
}

// Action is what to do instead of the normal reply. The zero value replies
// normally.
type Action struct {
	// Reply replaces the reply, without line end. A reply that does not begin
	// with 2 or 3 rejects; 421 closes the connection. It may be garbage.
	Reply string
	// Hang sends no reply until the sink or Until is closed.
	Hang  bool
	Until <-chan struct{}
	// Drop closes the connection without a reply, with Reset by RST.
	Drop, Reset bool
	// Delay waits first.
	Delay time.Duration
	// Taken, for Lost.
	Taken bool
}

// Fault returns the action for a step. It is called from several goroutines.
type Fault func(Step) Action

// At returns a fault that does the same at every step of a stage.
func At(stage Stage, a Action) Fault {
	return func(s Step) Action {
		if s.Stage == stage {
			return a
		}
		return Action{}
	}
}

// Times returns a fault that applies f until it has interfered n times.
func Times(n int, f Fault) Fault {
	var mu sync.Mutex
	return func(s Step) Action {
		a := f(s)
		mu.Lock()
		defer mu.Unlock()
		if a == (Action{}) || n == 0 {
			return Action{}
		}
		n--
		return a
	}
}

// Greylist returns a fault that rejects each recipient once with 451.
func Greylist() Fault {
	var mu sync.Mutex
	seen := map[string]bool{}
	return func(s Step) Action {
		if s.Stage != Rcpt {
			return Action{}
		}
		mu.Lock()
		defer mu.Unlock()
		if seen[s.To] {
			return Action{}
		}
		seen[s.To] = true
		return Action{Reply: "451 4.7.1 greylisted, come again in 300 seconds"}
	}
}

// Recipient returns a fault that does a at RCPT of one address.
func Recipient(to string, a Action) Fault {
	return func(s Step) Action {
		if s.Stage == Rcpt && s.To == to {
			return a
		}
		return Action{}
	}
}

// First returns a fault that applies the first of the faults that interferes.
func First(faults ...Fault) Fault {
	return func(s Step) Action {
		for _, f := range faults {
			if a := f(s); a != (Action{}) {
				return a
			}
		}
		return Action{}
	}
}
