//go:build unix

package cluster_test

import (
	"errors"
	"testing"

	"ingot/internal/base/db"
	"ingot/internal/server/cluster"
)

// Servers divide the shards, and take those of a server that stops or is killed.
func TestShards(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.start(w.options("1"))
	w.work(one)
	w.until("64 shards of one", func() bool { return w.divided(one) })
	two, three := w.start(w.options("2")), w.start(w.options("3"))
	w.work(two)
	working := w.work(three)
	w.until("thirds", func() bool { return w.divided(one, two, three) })

	working.Stop() // it stops working, and keeps serving requests
	if n := three.Shards().Len(); n != 0 {
		t.Errorf("a server that stopped working has %d shards, want 0", n)
	}
	w.until("halves", func() bool { return w.divided(one, two) })
	three.Stop()

	w.check()
	one.Die()
	w.killed(one)
	w.exec("UPDATE cluster_servers SET expires = 0 WHERE id = ?", one.ID())
	w.until("64 shards of two", func() bool { return w.divided(two) })
	w.check()
}

// A takeover waits for a transaction that has checked the lease, and afterwards no
// transaction of the former holder succeeds.
func TestFence(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.options("a")
	one, two := w.start(a), w.start(w.options("b"))
	if !one.Lead(w.ctx, "compaction") || two.Lead(w.ctx, "compaction") {
		t.Fatal("got no lease, or a lease twice, want it once")
	}
	lease, ok := one.Held("compaction")
	if !ok {
		t.Fatal("the lease is not held, want it")
	}
	w.exec("CREATE TABLE written (by TEXT NOT NULL)")
	one.Die()
	flush := func(by string, l cluster.Lease, during func()) error {
		return w.db.UpdateLocking(w.ctx, func(tx *db.Tx) error {
			if err := cluster.Check(tx, l); err != nil {
				return err
			}
			during()
			_, err := tx.Exec("INSERT INTO written (by) VALUES (?)", by)
			return err
		})
	}
	taken := make(chan bool, 1)
	err := flush("one", lease, func() {
		w.exec("DELETE FROM cluster_servers WHERE id = ?", one.ID()) // it has expired
		go func() {
			ok, err := two.Take(w.ctx, "compaction")
			taken <- ok && err == nil
		}()
		w.until("waiting takeover", func() bool {
			return w.count("SELECT COUNT(*) FROM pg_locks l JOIN pg_stat_activity a USING (pid) WHERE NOT granted AND "+
				"a.datname = current_database()") > 0
		})
		select {
		case <-taken:
			t.Error("the lease was taken during a transaction that has checked it")
		default:
		}
	})
	if err != nil {
		t.Errorf("the flush that was open: got %v, want nil", err)
	}
	if !<-taken {
		t.Fatal("the lease was not taken after the flush, want it")
	}
	var lost *cluster.LostError
	if err := flush("one again", lease, func() {}); !errors.As(err, &lost) || !errors.Is(err, cluster.ErrNotHeld) ||
		len(lost.Names) != 1 {
		t.Errorf("a flush after the takeover: got %v, want a *LostError", err)
	}
	newer, _ := two.Held("compaction")
	if newer.Token() <= lease.Token() {
		t.Errorf("got token %d after %d, want a higher one", newer.Token(), lease.Token())
	}
	if err := flush("two", newer, func() {}); err != nil {
		t.Errorf("the new holder: got %v, want nil", err)
	}
	if n := w.count("SELECT COUNT(*) FROM written"); n != 2 {
		t.Errorf("got %d writes, want 2", n)
	}
}

// The check of a serializable transaction fails too, and names only what was lost.
func TestFenceOfAnApp(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	o := w.options("a")
	one := w.start(o)
	w.work(one)
	w.until("shards", func() bool { return w.divided(one) })
	ctx := one.Fence(w.ctx, "an app")
	if err := o.DB.Update(ctx, func(*db.Tx) error { return nil }); err != nil {
		t.Fatalf("a transaction of the owner: got %v, want nil", err)
	}
	mine, _ := one.Lease("an app")
	other, _ := one.Lease("another app")
	if mine.Name == other.Name {
		t.Fatalf("both apps are in %s, want two shards", mine.Name)
	}
	w.exec("UPDATE cluster_leases SET token = token + 1 WHERE name = ?", mine.Name)
	err := o.DB.Update(ctx, func(*db.Tx) error { return nil })
	var lost *cluster.LostError
	if !errors.Is(err, cluster.ErrNotHeld) {
		t.Errorf("got %v, want %v", err, cluster.ErrNotHeld)
	}
	err = o.DB.UpdateLocking(w.ctx, func(tx *db.Tx) error { return cluster.Check(tx, mine, other, mine, cluster.Lease{}) })
	if !errors.As(err, &lost) || len(lost.Names) != 1 || lost.Names[0] != mine.Name {
		t.Errorf("got %v, want %s alone", err, mine.Name)
	}
	if err := o.DB.View(ctx, func(*db.Tx) error { return nil }); err != nil {
		t.Errorf("a read: got %v, want nil: only writes are checked", err)
	}
	// It finds out, and takes the shard again.
	w.until("the shard again", func() bool {
		l, ok := one.Lease("an app")
		return ok && l.Token() > mine.Token()+1
	})
}

// A database that lost its last seconds does not hand out a token twice, because
// tokens follow the time; nor does one whose clock went back.
func TestTokens(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.start(w.options("a"))
	if ok, err := one.Take(w.ctx, "x"); !ok || err != nil {
		t.Fatalf("take: got %v, %v, want true", ok, err)
	}
	first, _ := one.Held("x")
	now := int64(w.count("SELECT CAST(EXTRACT(EPOCH FROM clock_timestamp()) AS BIGINT)"))
	if got := first.Token() / 1000; got < now-60 || got > now {
		t.Errorf("got token %d, want the milliseconds of now", first.Token())
	}
	w.exec("UPDATE cluster_leases SET holder = '', token = token + 3600000 WHERE name = 'x'")
	if ok, err := one.Take(w.ctx, "x"); !ok || err != nil {
		t.Fatalf("take: got %v, %v, want true", ok, err)
	}
	second, _ := one.Held("x")
	if got, want := second.Token(), first.Token()+3600001; got != want {
		t.Errorf("got token %d, want %d", got, want)
	}
}

// A claim excludes other servers until it is released, or its server is dead.
func TestClaim(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one, two := w.start(w.options("a")), w.start(w.options("b"))
	claim := func(c *cluster.Cluster, want bool) (release func()) {
		t.Helper()
		release, ok, err := c.Claim(w.ctx, "an app")
		if err != nil || ok != want {
			t.Fatalf("got %v, %v, want %v", ok, err, want)
		}
		return release
	}
	release := claim(one, true)
	claim(two, false)
	release()
	if n := w.count("SELECT COUNT(*) FROM cluster_leases WHERE name = 'an app'"); n != 0 {
		t.Errorf("%d rows are left, want 0", n)
	}
	release = claim(two, true)
	claim(one, false)
	two.Die()
	claim(one, false)
	w.exec("DELETE FROM cluster_servers WHERE id = ?", two.ID()) // it has expired
	claim(one, true)
	release() // of a server that lost it
	if _, ok := one.Held("an app"); !ok {
		t.Error("the claim was released by its former holder")
	}
	if n := w.count("SELECT COUNT(*) FROM cluster_leases WHERE name = 'an app'"); n != 1 {
		t.Errorf("%d rows, want 1", n)
	}
}
