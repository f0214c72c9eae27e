package logs

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"ingot/internal/base/background"
	"ingot/internal/platform"
)

const (
	// Limits of the lines that a hose holds for its reader.
	hoseBytes = 1 << 20
	hoseLines = 8192
)

// Hose returns the lines of several apps, or of all, from now on, as they are written.
// Unlike a Tail it holds them in memory, and drops lines when its reader is too slow: a
// writer never waits for it.
type Hose struct {
	readers *Readers
	apps    map[string]bool // nil: all
	shard   string
	wake    chan struct{}

	mu      sync.Mutex
	queue   []platform.LogLine
	bytes   int
	dropped uint64
}

// Readers are the live readers of a store: its hoses, and the number of tails over HTTP.
// The zero value is ready to use.
type Readers struct {
	open    atomic.Int32
	dropped atomic.Uint64
	tails   atomic.Int64

	mu     sync.RWMutex
	all    []*Hose // without a shard
	shards map[string]*shard
}

// shard is a group of hoses that share lines: each write goes to one of them, in turn.
type shard struct {
	members []*Hose
	turn    atomic.Uint64
}

// Hose opens a hose for apps, nil for all. Hoses with the same shard name, unless it is
// empty, share the lines. The caller must call Close at the end.
func (o *Readers) Hose(apps []string, name string) *Hose {
	h := &Hose{readers: o, shard: name, wake: make(chan struct{}, 1)}
	if apps != nil {
		h.apps = map[string]bool{}
		for _, app := range apps {
			h.apps[app] = true
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if name == "" {
		o.all = append(o.all, h)
	} else {
		if o.shards == nil {
			o.shards = map[string]*shard{}
		}
		if o.shards[name] == nil {
			o.shards[name] = new(shard)
		}
		o.shards[name].members = append(o.shards[name].members, h)
	}
	o.open.Add(1)
	return h
}

// Close closes the hose. It may be called more than once.
func (h *Hose) Close() {
	o := h.readers
	o.mu.Lock()
	defer o.mu.Unlock()
	drop := func(from []*Hose) []*Hose {
		i := slices.Index(from, h)
		if i < 0 {
			return from
		}
		o.open.Add(-1)
		return slices.Delete(slices.Clone(from), i, i+1)
	}
	if h.shard == "" {
		o.all = drop(o.all)
		return
	}
	if s := o.shards[h.shard]; s != nil {
		if s.members = drop(s.members); len(s.members) == 0 {
			delete(o.shards, h.shard)
		}
	}
}

// Next waits for lines. dropped is the number of dropped lines since the last call; if it
// is not zero there may be no lines.
func (h *Hose) Next(ctx context.Context) (entries []platform.LogLine, dropped uint64, err error) {
	for {
		h.mu.Lock()
		entries, dropped = h.queue, h.dropped
		h.queue, h.bytes, h.dropped = nil, 0, 0
		h.mu.Unlock()
		if len(entries) > 0 || dropped > 0 {
			return entries, dropped, nil
		}
		select {
		case <-ctx.Done():
			return nil, 0, ctx.Err()
		case <-h.wake:
		}
	}
}

// Hoses returns the number of open hoses. Without any, a store need not call Offer.
func (o *Readers) Hoses() int { return int(o.open.Load()) }

// Offer passes lines of one app to its hoses. The texts are shared and must not be changed.
func (o *Readers) Offer(entries []platform.LogLine) {
	if len(entries) == 0 {
		return
	}
	app := entries[0].App
	o.mu.RLock()
	defer o.mu.RUnlock()
	for _, h := range o.all {
		if h.wants(app) {
			h.take(entries)
		}
	}
	for _, s := range o.shards {
		turn := int(s.turn.Add(1) % uint64(len(s.members)))
		for i := range s.members {
			if h := s.members[(turn+i)%len(s.members)]; h.wants(app) {
				h.take(entries)
				break
			}
		}
	}
}

func (h *Hose) wants(app string) bool { return h.apps == nil || h.apps[app] }

func (h *Hose) take(entries []platform.LogLine) {
	h.mu.Lock()
	taken := 0
	for _, e := range entries {
		if h.bytes+len(e.Text) > hoseBytes || len(h.queue) >= hoseLines {
			break // to keep the order, later lines are dropped too
		}
		h.queue, h.bytes, taken = append(h.queue, e), h.bytes+len(e.Text), taken+1
	}
	lost := uint64(len(entries) - taken)
	h.dropped += lost
	h.mu.Unlock()
	h.readers.dropped.Add(lost)
	background.Kick(h.wake)
}
