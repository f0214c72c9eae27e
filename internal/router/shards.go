package router

import (
	"hash/maphash"
	"maps"
)

// shardBits makes a change to a table of 100,000 routes copy about 8 KiB of
// pointers and a map of a hundred entries.
const (
	shardBits  = 10
	shardCount = 1 << shardBits
)

// shards is a map that never changes: with and without return another that
// shares all shards but one. The zero value is empty.
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

func (s shards[V]) with(key string, v V) shards[V] {
	return s.change(key, func(m map[string]V) { m[key] = v })
}

func (s shards[V]) without(key string) shards[V] {
	return s.change(key, func(m map[string]V) { delete(m, key) })
}

func (s shards[V]) change(key string, f func(map[string]V)) shards[V] {
	next := new([shardCount]map[string]V)
	if s.all != nil {
		*next = *s.all
	}
	n := shardOf(key)
	m := maps.Clone(next[n])
	if m == nil {
		m = map[string]V{}
	}
	f(m)
	if len(m) == 0 {
		m = nil
	}
	next[n] = m
	return shards[V]{next}
}

// shardsOf makes shards of a whole map.
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
