package cluster

import (
	"context"
	"fmt"
	"hash/fnv"
	"iter"
	"math/bits"
	"math/rand/v2"
	"slices"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/base/db"
)

// shardCount is the number of shards.
const shardCount = 64

// Shards is a set of shards.
type Shards uint64

const allShards = ^Shards(0)

// ShardOf returns the shard of an app.
func ShardOf(appGUID string) Shards {
	h := fnv.New32a()
	h.Write([]byte(appGUID)) //nolint:errcheck // never fails
	return 1 << (h.Sum32() % shardCount)
}

// Has reports whether an app is in one of the shards.
func (s Shards) Has(appGUID string) bool { return s&ShardOf(appGUID) != 0 }

// Len returns the number of shards.
func (s Shards) Len() int { return bits.OnesCount64(uint64(s)) }

// each returns the shards, one at a time.
func (s Shards) each() iter.Seq[Shards] {
	return func(yield func(Shards) bool) {
		for ; s != 0; s &= s - 1 {
			if !yield(s & -s) {
				return
			}
		}
	}
}

const shardPrefix = "shard-"

// shardName returns the name of the lease of one shard.
func shardName(one Shards) string {
	return fmt.Sprintf("%s%02d", shardPrefix, bits.TrailingZeros64(uint64(one)))
}

// shardNames are the names of all leases of shards.
var shardNames = func() map[string]Shards {
	names := map[string]Shards{}
	for one := range allShards.each() {
		names[shardName(one)] = one
	}
	return names
}()

// shardNamed returns the shard of a lease; none if the lease is not a shard's.
func shardNamed(name string) Shards { return shardNames[name] }

// shards returns the shards that are held. The lock must be held.
func (c *Cluster) shards() Shards {
	if c.Alone() {
		return allShards
	}
	var s Shards
	for name := range c.held {
		s |= shardNamed(name)
	}
	return s
}

// Shards returns the shards that this server works on.
func (c *Cluster) Shards() Shards {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.shards()
}

// balancing tells the handler what a beat found, and takes and gives shards.
func (c *Cluster) balancing(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.wakes:
		}
		c.moving.Lock()
		c.tellHandler()
		if !c.Exclusive {
			c.balance(ctx)
		}
		c.moving.Unlock()
	}
}

// tellHandler tells what a beat found.
func (c *Cluster) tellHandler() {
	c.mu.Lock()
	h, next, paused := c.work, c.next, c.paused
	c.next = moves{}
	if c.trusted() { // it works again on those that were not taken
		next.gained |= paused & c.shards()
		c.paused = 0
	}
	c.mu.Unlock()
	if next.lost != 0 {
		c.Log.Warn("another server took over shards of this one", "shards", next.lost.Len())
		h.lost(next.lost &^ paused)
	}
	h.gained(next.gained)
	if next.resync && h.Resync != nil {
		h.Resync()
	}
}

func (h Handler) lost(s Shards) {
	if h.Lost != nil && s != 0 {
		h.Lost(s)
	}
}

func (h Handler) gained(s Shards) {
	if h.Gained != nil && s != 0 {
		h.Gained(s)
	}
}

// guarding stops the work on all shards when it is no longer certain that this server
// holds them: before others can take them.
func (c *Cluster) guarding(ctx context.Context) {
	for {
		c.mu.Lock()
		left := time.Until(c.trust)
		c.mu.Unlock()
		if left <= 0 {
			c.pause()
			left = c.Beat
		}
		if !background.Wait(ctx, left, c.renewed) {
			return
		}
	}
}

// pause stops the work on all shards, which this server may still hold.
func (c *Cluster) pause() {
	c.moving.Lock()
	defer c.moving.Unlock()
	c.mu.Lock()
	h, mine := c.work, c.shards()&^c.paused
	if c.trusted() { // renewed meanwhile
		mine = 0
	}
	c.paused |= mine
	c.mu.Unlock()
	if mine != 0 {
		c.Log.Warn("the database is out of reach, so other servers may take over the shards of this one; it works on none "+
			"until it is back", "shards", mine.Len())
		h.lost(mine)
	}
}

// takeFor limits the time for taking one shard: a transaction of its last holder
// may still be open.
const takeFor = 2 * time.Second

// balance gives shards away that are more than the share of this server, one at a
// time, or takes free ones.
func (c *Cluster) balance(ctx context.Context) {
	share, room, mine, free := c.plan()
	for one := range mine.each() {
		if mine.Len() <= share || ctx.Err() != nil {
			break
		}
		mine &^= one
		c.giveShard(ctx, one)
	}
	var gained Shards
	for _, one := range free {
		if mine.Len()+gained.Len() >= room || ctx.Err() != nil {
			break
		}
		limited, cancel := c.brief(ctx)
		ok, err := c.take(limited, shardName(one))
		cancel()
		if err != nil && ctx.Err() == nil {
			c.Log.Warn("taking a shard failed and will be retried", "shard", shardName(one), "error", err)
		}
		if ok {
			gained |= one
		}
	}
	if gained == 0 {
		return
	}
	c.mu.Lock()
	h := c.work
	c.mu.Unlock()
	c.Log.Info("this server works on more shards of apps", "gained", gained.Len(), "now", (mine | gained).Len())
	h.gained(gained)
}

// brief returns a context for moving one shard, which ends when this server no longer
// trusts its leases: then all its work has to stop.
func (c *Cluster) brief(ctx context.Context) (context.Context, context.CancelFunc) {
	c.mu.Lock()
	until := c.trust
	c.mu.Unlock()
	if late := time.Now().Add(takeFor); until.After(late) {
		until = late
	}
	return context.WithDeadline(ctx, until)
}

// startsWithin is how long free shards are left for a server that has started and does not
// work yet. After a restart of all, the first would otherwise take them all, and give most
// of them back at once.
const startsWithin = 30 * time.Second

// plan returns how many shards this server should have, up to how many it may take, those it
// has, and those that it could take, in random order.
func (c *Cluster) plan() (share, room int, mine Shards, free []Shards) {
	c.mu.Lock()
	defer c.mu.Unlock()
	mine = c.shards()
	if !c.works || !c.trusted() {
		return shardCount, 0, mine, nil // a server that stops gives its shards itself
	}
	alive, working, starting := map[string]bool{}, 1, 0
	for _, other := range c.seen.others {
		alive[other.ID] = true
		switch {
		case other.Works:
			working++
		case db.Time(c.seen.now).Sub(other.Started) < startsWithin:
			starting++
		}
	}
	share = (shardCount + working - 1) / working
	room = (shardCount + working + starting - 1) / (working + starting)
	patient := time.Now().Before(c.patient)
	for one := range (allShards &^ mine).each() {
		holder := c.seen.leases[shardName(one)].holder
		if holder == "" || holder == c.self.ID || !alive[holder] && !patient {
			free = append(free, one)
		}
	}
	rand.Shuffle(len(free), func(i, j int) { free[i], free[j] = free[j], free[i] })
	return share, room, mine, slices.Clip(free)
}

// giveShard stops the work on a shard and releases its lease.
func (c *Cluster) giveShard(ctx context.Context, one Shards) {
	name := shardName(one)
	c.mu.Lock()
	h := c.work
	c.mu.Unlock()
	h.lost(one)
	c.mu.Lock()
	delete(c.held, name)
	c.mu.Unlock()
	limited, cancel := c.brief(ctx)
	defer cancel()
	if err := c.give(limited, name); err != nil {
		c.Log.Warn("releasing a shard failed; this server takes it again", "shard", name, "error", err)
	}
	c.Tell(itemLook)
}

// giveAll gives all shards away.
func (c *Cluster) giveAll(ctx context.Context) {
	c.moving.Lock()
	defer c.moving.Unlock()
	c.mu.Lock()
	mine := c.shards()
	c.mu.Unlock()
	for one := range mine.each() {
		c.giveShard(ctx, one)
	}
}
