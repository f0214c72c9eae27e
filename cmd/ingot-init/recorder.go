package main

import (
	"fmt"
	"os"
	"sync"
	"time"

	"ingot/internal/platform/instance/initproto"
)

// recorder writes the state and the events, in order. The supervisor queues notes
// and never waits for the recorder, so that members are supervised even when the
// reader of the records is blocked.
type recorder struct {
	save    func(initproto.State) error
	w       *initproto.Writer
	outputs []*output

	mu     sync.Mutex
	notes  []note
	more   chan struct{} // wakes run; has room for one
	done   chan struct{}
	failed bool // the state could not be written
}

// note is one thing to record.
type note struct {
	state  initproto.State
	member int
	// A line of the member's output, and an event; either may be missing.
	// EventExited is written after the member's output, and EventEnded, the last
	// event, after all output.
	kind initproto.Kind
	line string
	body *initproto.EventBody
	// streams are those of the life that ended, of EventExited.
	streams []*stream
}

func newRecorder(save func(initproto.State) error, w *initproto.Writer, outputs []*output) *recorder {
	t := &recorder{save: save, w: w, outputs: outputs, more: make(chan struct{}, 1), done: make(chan struct{})}
	go t.run()
	return t
}

func (t *recorder) record(n note) {
	t.mu.Lock()
	t.notes = append(t.notes, n)
	t.mu.Unlock()
	select {
	case t.more <- struct{}{}:
	default:
	}
}

func (t *recorder) run() {
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

func (t *recorder) write(n note) {
	if n.body != nil {
		switch n.body.Event {
		case initproto.EventExited:
			t.outputs[n.member].settle(n.streams)
		case initproto.EventEnded:
			for _, o := range t.outputs {
				o.end()
			}
		}
	}
	n.state.Seq = t.w.Last()
	if err := t.save(n.state); err != nil && !t.failed {
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
