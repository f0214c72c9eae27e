package router

import (
	"hash/maphash"
	"maps"
)

// With this many bits a change to a table of 100,000 routes copies about 8 KiB of pointers
// and a map of a hundred entries.
const (
	shardBits  = 10
	shardCount = 1 << shardBits
)

// shards is an immutable map. A shardsDraft derives a new one from it, which shares all
// unchanged shards. The zero value is empty.
type shards[V any] struct {
	all *[shardCount]map[string]V
}

var seed = maphash.MakeSeed()

func shardOf(key string) uint64 { return maphash.String(seed, key) >> (64 - shardBits) }

func (s shards[V]) get(key string) (v V, ok bool) {
	if s.all == nil {
		return v, false
	}
	v, ok = s.all[shardOf(key)][key]
	return v, ok
}

// shardsDraft is a copy of shards that is being changed: each changed shard is copied once.
type shardsDraft[V any] struct {
	base   shards[V]
	copied *[shardCount]bool // nil: nothing was changed
}

func (d *shardsDraft[V]) set(key string, v V) { d.shard(key)[key] = v }
func (d *shardsDraft[V]) remove(key string)   { delete(d.shard(key), key) }

// shard returns the shard of a key for writing.
func (d *shardsDraft[V]) shard(key string) map[string]V {
	if d.copied == nil {
		next := new([shardCount]map[string]V)
		if d.base.all != nil {
			*next = *d.base.all
		}
		d.base, d.copied = shards[V]{next}, new([shardCount]bool)
	}
	n := shardOf(key)
	if !d.copied[n] {
		d.copied[n] = true
		m := maps.Clone(d.base.all[n])
		if m == nil {
			m = map[string]V{}
		}
		d.base.all[n] = m
	}
	return d.base.all[n]
}

// shardsOf returns shards with the content of a map.
func shardsOf[V any](from map[string]V) shards[V] {
	next := new([shardCount]map[string]V)
	for k, v := range from {
		n := shardOf(k)
		if next[n] == nil {
			next[n] = map[string]V{}
		}
		next[n][k] = v
	}
	return shards[V]{next}
}
