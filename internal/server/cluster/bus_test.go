//go:build unix

package cluster_test

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"ingot/internal/server/cluster"
)

// receiver records what a server receives.
type receiver struct {
	mu     sync.Mutex
	items  []string
	resync int
	done   []func()
	hold   bool // done is called by the test
}

func (w *world) receiver(c *cluster.Cluster) *receiver {
	w.t.Helper()
	r := &receiver{}
	working := c.Working(cluster.Handler{
		Received: func(items []string, done func()) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.items = append(r.items, items...)
			if r.hold {
				r.done = append(r.done, done)
				return
			}
			done()
		},
		Resync: func() {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.resync++
		},
	})
	if err := working.Start(w.ctx); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(working.Stop)
	return r
}

func (r *receiver) has(item string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Contains(r.items, item)
}

func (r *receiver) resyncs() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.resync
}

// knows waits until a server knows another that listens.
func (w *world) knows(c *cluster.Cluster, n int) {
	w.t.Helper()
	w.until("known servers", func() bool { return c.Listeners() == n })
}

func TestMessages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one, two, three := w.start(w.options("1")), w.start(w.options("2")), w.start(w.options("3"))
	r2, r3 := w.receiver(two), w.receiver(three)
	w.knows(one, 2)
	r3.mu.Lock()
	r3.hold = true
	r3.mu.Unlock()

	answered := make(chan bool, 1)
	go func() { answered <- one.Ask("route 1", "route 2")(w.ctx) }()
	w.until("message", func() bool { return r2.has("route 2") && r3.has("route 1") })
	select {
	case <-answered:
		t.Error("Ask returned before all servers have answered")
	case <-time.After(50 * time.Millisecond): // it cannot be seen that it waits
	}
	r3.mu.Lock()
	r3.done[0]()
	r3.hold = false
	r3.mu.Unlock()
	if !<-answered {
		t.Error("Ask: got false, want true")
	}
	r3.mu.Lock()
	r3.hold = true
	r3.mu.Unlock()
	short, cancel := context.WithTimeout(w.ctx, 100*time.Millisecond)
	defer cancel()
	if one.Ask("route 3")(short) {
		t.Error("Ask: got true without the answer of a server, want false")
	}
	if r2.resyncs()+r3.resyncs() > 0 {
		t.Errorf("got %d and %d resyncs, want none: nothing was lost", r2.resyncs(), r3.resyncs())
	}
}

// Many items are split among messages; too many for one are "everything".
func TestManyItems(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one, two := w.start(w.options("1")), w.start(w.options("2"))
	r := w.receiver(two)
	const n = 3000
	for i := range n {
		one.Tell("app " + strconv.Itoa(i) + strings.Repeat("x", 30))
	}
	w.until("all items", func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return len(r.items) == n
	})
	if got := r.resyncs(); got > 0 {
		t.Errorf("got %d resyncs, want none", got)
	}
	many := make([]string, 1000)
	for i := range many {
		many[i] = "route " + strconv.Itoa(i)
	}
	one.Tell(many...)
	w.until("resync", func() bool { return r.resyncs() > 0 })
}

// After a lost connection everything may have changed, and messages arrive again.
func TestListenReconnects(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one, two := w.start(w.options("1")), w.start(w.options("2"))
	r := w.receiver(two)
	for range 3 {
		before := r.resyncs()
		if n := w.count("SELECT COUNT(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE query LIKE 'LISTEN%' AND " +
			"datname = current_database()"); n == 0 {
			t.Fatal("no connection was ended, want those that listen")
		}
		w.until("resync", func() bool { return r.resyncs() > before })
		item := "after " + strconv.Itoa(before)
		w.until("message", func() bool { one.Tell(item); return r.has(item) })
	}
}

// A message that could not be sent makes the next one say that messages were lost.
func TestLostMessage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one, two := w.start(w.options("1")), w.start(w.options("2"))
	r := w.receiver(two)
	one.Tell("bad \x00 item") // the database refuses it
	w.until("resync", func() bool { return r.resyncs() > 0 })
	one.Tell("good")
	w.until("message", func() bool { return r.has("good") })
}

// Without LISTEN a server looks at everything again and again, and no other waits
// for its answers.
func TestListenNotPossible(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	o := w.options("1")
	o.ListenURL = "postgres://nobody@127.0.0.1:1/none?sslmode=disable"
	one, two := w.start(o), w.start(w.options("2"))
	r := w.receiver(one)
	w.until("resyncs", func() bool { return r.resyncs() >= 2 })
	if two.Listeners() != 0 || !two.Ask("app 1")(w.ctx) {
		t.Error("Ask waits for a server that cannot listen")
	}
}
