package main

import (
	"fmt"
	"os"
	"sync"
	"time"

	"ingot/internal/platform/initproto"
)

// teller writes the state and what happened, in order. The supervisor hands
// notes over and never waits for it, so that members are looked after even when
// whoever takes the records does not.
type teller struct {
	dir     string // for the state
	w       *initproto.Writer
	outputs []*output

	mu     sync.Mutex
	notes  []note
	more   chan struct{} // has room for one
	done   chan struct{}
	failed bool // the state could not be written
}

// note is one thing to tell.
type note struct {
	state  initproto.State
	member int
	// A line of the member's output, and an event; either may be missing. The
	// event EventExited waits for what the member has written, EventEnded for
	// everything, and it is the last.
	kind initproto.Kind
	line string
	body *initproto.EventBody
}

func newTeller(dir string, w *initproto.Writer, outputs []*output) *teller {
	t := &teller{dir: dir, w: w, outputs: outputs, more: make(chan struct{}, 1), done: make(chan struct{})}
	go t.run()
	return t
}

func (t *teller) tell(n note) {
	t.mu.Lock()
	t.notes = append(t.notes, n)
	t.mu.Unlock()
	select {
	case t.more <- struct{}{}:
	default:
	}
}

func (t *teller) run() {
	defer close(t.done)
	for range t.more {
		t.mu.Lock()
		notes := t.notes
		t.notes = nil
		t.mu.Unlock()
		for _, n := range notes {
			t.write(n)
			if n.body != nil && n.body.Event == initproto.EventEnded {
				return
			}
		}
	}
}

func (t *teller) write(n note) {
	if n.body != nil {
		switch n.body.Event {
		case initproto.EventExited:
			t.outputs[n.member].settle()
		case initproto.EventEnded:
			for _, o := range t.outputs {
				o.end()
			}
		}
	}
	n.state.Seq = t.w.Last()
	if err := initproto.WriteState(t.dir, n.state); err != nil && !t.failed {
		t.failed = true
		fmt.Fprintln(os.Stderr, "ingot-init: cannot write the state:", err)
	}
	now := time.Now()
	if n.line != "" {
		_, _ = t.w.Add(n.kind, now, n.member, []byte(n.line))
	}
	if n.body != nil {
		_, _ = t.w.Add(initproto.Event, now, n.member, n.body.JSON())
	}
	if err := t.w.Flush(); err != nil {
		fmt.Fprintln(os.Stderr, "ingot-init: cannot write records:", err)
	}
}
