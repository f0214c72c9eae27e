//go:build linux

package agent_test

import (
	"strings"
	"testing"
	"time"

	"ingot/internal/platform/engine"
	"ingot/internal/platform/instance/agentproto"
	"ingot/internal/platform/instance/agentserver"
	"ingot/internal/platform/instance/initproto"
)

// impatient is an agent that does not wait long for its peers, but for those who are only slow.
func impatient(t *testing.T) *world {
	t.Helper()
	return listen(t, func(c *agentserver.Config) { c.Patience, c.Beat = 3*time.Second, time.Millisecond })
}

// TestSlowReader: the agent gives up a server that does not read its records, and goes on.
func TestSlowReader(t *testing.T) {
	t.Parallel()
	w := impatient(t)
	w.launch()
	c := w.connect(agentproto.ForRecords)
	if err := c.SendPosition(0); err != nil {
		t.Fatal(err)
	}
	last := uint64(0)
	for range 400 { // more than the ring and the buffers of the connection hold
		last = w.say(strings.Repeat("x", 50_000))
	}
	if _, launched, err := w.State(within(t)); err != nil || !launched {
		t.Errorf("while a reader is slow: launched %t, %v", launched, err)
	}
	// The agent closes the connection, so that sending to it fails in the end.
	for ctx := within(t); c.SendPosition(0) == nil; {
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			t.Fatal("the agent does not close the connection")
		}
	}
	// Another reader gets what is left. On a busy machine the agent may find it too slow as
	// well; it goes on where it was, as a server does.
	seen := uint64(0)
	for ctx := within(t); seen != last; {
		s, err := w.Records(ctx, engine.Position(seen))
		if err != nil {
			t.Fatal(err)
		}
		for seen != last && err == nil {
			var r initproto.Record
			if r, err = s.Next(); err == nil {
				seen = r.Seq
			}
		}
		s.Close()
		if ctx.Err() != nil {
			t.Fatalf("got %d of %d records: %v", seen, last, err)
		}
	}
}

// TestSlowLaunch: a launch that does not go on is forgotten.
func TestSlowLaunch(t *testing.T) {
	t.Parallel()
	w := impatient(t)
	c := w.connect(agentproto.ForLaunch)
	if err := c.SendJSON(agentproto.Document,
		agentproto.Launch{Spec: []byte(`{"instance":"instance-1","members":[{"name":"web","args":["true"]}]}`)}); err != nil {
		t.Fatal(err)
	}
	if err := c.SendJSON(agentproto.Document, agentproto.Archive{}); err != nil {
		t.Fatal(err)
	}
	awaitWaiting(t, w)
	w.launch()
}

func TestHeartbeat(t *testing.T) {
	t.Parallel()
	w := impatient(t)
	w.launch()
	c := w.connect(agentproto.ForRecords)
	if err := c.SendPosition(0); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if kind, _, err := c.Receive(agentproto.MaxFrame); err != nil || kind != agentproto.Heartbeat {
			t.Errorf("type %d, %v, want a heartbeat", kind, err)
		}
	}
	// A server does not see them.
	s, err := w.Records(within(t), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	w.say("line")
	if r, err := s.Next(); err != nil || string(r.Payload) != "line" {
		t.Errorf("record %q, %v, want line", r.Payload, err)
	}
}
