package db

import "container/list"

// lru is a cache that evicts the least recently used entry. It is not safe for
// concurrent use.
type lru[V any] struct {
	max   int
	order *list.List // of *lruEntry[V], most recent first
	index map[string]*list.Element
}

type lruEntry[V any] struct {
	key   string
	value V
}

func newLRU[V any](limit int) *lru[V] {
	return &lru[V]{max: limit, order: list.New(), index: make(map[string]*list.Element)}
}

func (c *lru[V]) get(key string) (v V, ok bool) {
	e, ok := c.index[key]
	if !ok {
		return v, false
	}
	c.order.MoveToFront(e)
	return e.Value.(*lruEntry[V]).value, true
}

// take removes the entry and returns it.
func (c *lru[V]) take(key string) (v V, ok bool) {
	e, ok := c.index[key]
	if !ok {
		return v, false
	}
	delete(c.index, key)
	return c.order.Remove(e).(*lruEntry[V]).value, true
}

// put stores a value and returns the value it replaced or evicted, if any.
func (c *lru[V]) put(key string, value V) (evicted V, was bool) {
	if old, ok := c.take(key); ok {
		evicted, was = old, true
	} else if c.order.Len() >= c.max {
		last := c.order.Back().Value.(*lruEntry[V])
		evicted, was = c.take(last.key)
	}
	c.index[key] = c.order.PushFront(&lruEntry[V]{key, value})
	return evicted, was
}

// clear empties the cache and calls f for every value.
func (c *lru[V]) clear(f func(V)) {
	for e := c.order.Front(); e != nil; e = e.Next() {
		f(e.Value.(*lruEntry[V]).value)
	}
	c.order.Init()
	clear(c.index)
}
