package cluster

import (
	"context"
	"time"
)

// Die stops c like a kill: its row and its leases stay.
func (c *Cluster) Die() { c.part.Halt(nil) }

// ID returns the id of this start.
func (c *Cluster) ID() string { return c.self.ID }

// Take takes a lease by its name.
func (c *Cluster) Take(ctx context.Context, name string) (bool, error) { return c.take(ctx, name) }

// Held returns a lease that c holds.
func (c *Cluster) Held(name string) (Lease, bool) { return c.holds(name) }

// Token returns the token of a lease.
func (l Lease) Token() int64 { return l.token }

// Beat renews the row of c now.
func (c *Cluster) BeatNow(ctx context.Context) error { return c.beat(ctx) }

// AllShards are all shards, ShardNames the names of their leases.
const AllShards = allShards

// Each returns the shards, one at a time.
func (s Shards) Each(f func(Shards)) {
	for one := range s.each() {
		f(one)
	}
}

// Listeners returns how many other servers receive messages.
func (c *Cluster) Listeners() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, other := range c.seen.others {
		if other.Listens {
			n++
		}
	}
	return n
}

// Trust returns until when c trusts its leases.
func (c *Cluster) Trust() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.trust
}
