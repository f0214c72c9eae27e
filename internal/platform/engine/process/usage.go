//go:build linux

package process

import (
	"context"
	"sync"
	"time"

	"ingot/internal/platform/engine"
	"ingot/internal/platform/engine/local"
	"ingot/internal/platform/instance/homedir"
)

const (
	// diskFresh is how long the size of a home directory is cached.
	diskFresh = 10 * time.Second
	// tableFresh is how long the process table is cached: usage is often read for many
	// instances in a row.
	tableFresh = 250 * time.Millisecond
)

type diskUse struct {
	bytes int64
	at    time.Time
}

// usageCache caches values that are expensive to read.
type usageCache struct {
	mu      sync.Mutex
	disk    map[string]diskUse
	table   map[int]local.Stat
	tableAt time.Time
}

func (c *usageCache) forget(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.disk, id)
}

// processes returns the process table, with a process that exists.
func (c *usageCache) processes(with int) (map[int]local.Stat, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, known := c.table[with]; time.Since(c.tableAt) < tableFresh && known {
		return c.table, nil
	}
	table, err := local.Processes()
	if err == nil {
		c.table, c.tableAt = table, time.Now()
	}
	return table, err
}

func (c *usageCache) diskOf(ctx context.Context, d *local.Dir) (int64, error) {
	c.mu.Lock()
	known, ok := c.disk[d.ID()]
	c.mu.Unlock()
	if ok && time.Since(known.at) < diskFresh {
		return known.bytes, nil
	}
	n, err := homedir.Size(ctx, d.Home())
	if err != nil {
		return 0, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.disk[d.ID()] = diskUse{n, time.Now()}
	return n, nil
}

// Usage sums up the instance's processes. Memory that several of them share is counted for
// each, so the sum is rather too high. The memory limit is reported but not enforced.
func (e *Engine) Usage(ctx context.Context, id string) (engine.Usage, error) {
	d, err := e.lookup(id)
	if err != nil {
		return engine.Usage{}, err
	}
	u := engine.Usage{Time: time.Now().UTC(), MemoryLimit: d.Meta().Limits.Memory}
	if u.Disk, err = e.usage.diskOf(ctx, d); err != nil {
		return engine.Usage{}, err
	}
	first, err := e.first(d)
	if err := ignoreDone(err); err != nil {
		return engine.Usage{}, err
	}
	table, err := e.usage.processes(first.PID)
	if err != nil {
		return engine.Usage{}, err
	}
	mine := map[int]local.Stat{}
	for _, s := range local.Tree(table, func(s local.Stat) bool { return s.ID() == first }) {
		u.CPUTime += s.CPU
		u.Memory += s.Memory
		mine[s.PID] = s
	}
	u.Members = local.MembersOf(d.State(), d.Meta().Launch.Members)
	pids := make([]int, len(u.Members))
	for i, m := range u.Members {
		pids[i] = m.State.PID
	}
	local.AddProcesses(u.Members, mine, pids)
	return u, nil
}
