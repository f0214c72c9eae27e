//go:build unix

package cluster_test

import (
	"context"
	"testing"

	"ingot/internal/base/db"
	"ingot/internal/server/cluster"
)

// owned returns how many shards the handler of a server works on.
func (w *world) owned(c *cluster.Cluster) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, owner := range w.owners {
		if owner == c.ID() {
			n++
		}
	}
	return n
}

// TestPause: a server that cannot renew its row stops its work before it expires, and
// continues with the shards that no other server has taken.
func TestPause(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	o := w.options("one")
	o.Valid = valid
	one := w.start(o)
	w.work(one)
	w.until("all shards", func() bool { return w.owned(one) == 64 })

	locked, unlock := make(chan error, 1), make(chan struct{})
	ended := make(chan error, 1)
	go func() {
		ended <- w.db.UpdateLocking(context.WithoutCancel(w.ctx), func(tx *db.Tx) error {
			_, err := tx.Exec("LOCK TABLE cluster_servers IN ACCESS EXCLUSIVE MODE")
			locked <- err
			<-unlock
			return err
		})
	}()
	if err := <-locked; err != nil {
		t.Fatal(err)
	}
	w.until("pause", func() bool { return w.owned(one) == 0 })
	if one.Owns("some app") {
		t.Error("a server without the database trusts its leases")
	}
	if got := one.Shards().Len(); got != 64 {
		t.Errorf("got %d shards while it is paused, want 64: no other server took them", got)
	}
	close(unlock)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	w.until("work on all shards again", func() bool { return w.owned(one) == 64 })
	if len(w.wrong) > 0 {
		t.Error(w.wrong)
	}
}

// TestSubscribe: notifications of further channels come through the connection of the
// cluster.
func TestSubscribe(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	o := w.options("one")
	o.Channels = []string{"news"}
	one := w.start(o)
	got, up := make(chan string, 10), make(chan bool, 10)
	one.Subscribe("news", func(payload string) { got <- payload }, func(now bool) { up <- now })
	if !<-up {
		t.Fatal("got no connection, want one")
	}
	if err := w.db.Notify(w.ctx, "news", "hello"); err != nil {
		t.Fatal(err)
	}
	select {
	case payload := <-got:
		if payload != "hello" {
			t.Errorf("got %q, want hello", payload)
		}
	case <-w.ctx.Done():
		t.Error("got no notification, want hello")
	}
	one.Stop()
	if <-up {
		t.Error("got a connection after the stop, want none")
	}
}

// TestOneLeads: of several servers one does the work of a name, and another once it stops.
func TestOneLeads(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one, two := w.start(w.options("one")), w.start(w.options("two"))
	if !one.Lead(w.ctx, "purge") {
		t.Fatal("the first does not lead")
	}
	for range 3 {
		if two.Lead(w.ctx, "purge") || !one.Lead(w.ctx, "purge") {
			t.Fatal("both lead, or none")
		}
	}
	one.Stop()
	w.until("another leader", func() bool { return two.Lead(w.ctx, "purge") })
}
