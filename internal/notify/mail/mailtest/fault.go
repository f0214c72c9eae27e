package mailtest

import (
	"sync"
	"time"
)

// Stage is a place in a session where a fault can happen.
type Stage int

// The stages.
const (
	Connect Stage = iota // before the greeting
	Hello
	Mail
	Rcpt
	Data    // before 354
	Content // when the Message-ID was read, inside the content
	Dot     // the content is complete, nothing is answered yet
	Lost    // asked after a message lost its answer: Taken decides whether it counts
)

// Step is where a session is.
type Step struct {
	Stage      Stage
	Connection int
	From, To   string
	ID         string // from Content on
}

// Action is what to do instead of the usual. The zero value is the usual.
type Action struct {
	// Reply replaces the answer, without line end. What does not begin with 2
	// or 3 refuses; 421 closes. It may be garbage.
	Reply string
	// Hang answers nothing until the sink is closed or Until is.
	Hang  bool
	Until <-chan struct{}
	// Drop closes the connection without an answer, with Reset by RST.
	Drop, Reset bool
	// Delay waits first.
	Delay time.Duration
	// Taken, for Lost.
	Taken bool
}

// Fault decides at a step. It is called from several goroutines.
type Fault func(Step) Action

// At does the same at every step of a stage.
func At(stage Stage, a Action) Fault {
	return func(s Step) Action {
		if s.Stage == stage {
			return a
		}
		return Action{}
	}
}

// Times does what f says n times, counting only when it says something, and
// nothing from then on.
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

// Greylist refuses each recipient once with 451.
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

// Recipient does a at RCPT of one address.
func Recipient(to string, a Action) Fault {
	return func(s Step) Action {
		if s.Stage == Rcpt && s.To == to {
			return a
		}
		return Action{}
	}
}

// First asks the faults in turn and does what the first one that has something
// to say says.
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
