package failover

import lru "github.com/hashicorp/golang-lru/v2"

// most is how many breakers a Group remembers; one that is forgotten is closed.
const most = 4096

// Group has a Breaker for each key. It is safe for concurrent use.
type Group[K comparable] struct {
	o        Options
	breakers *lru.Cache[K, *Breaker]
}

// NewGroup returns one whose breakers have the options.
func NewGroup[K comparable](o Options) *Group[K] {
	breakers, err := lru.New[K, *Breaker](most)
	if err != nil {
		panic(err) // the size is positive
	}
	return &Group[K]{o, breakers}
}

// Of returns the breaker of a key.
func (g *Group[K]) Of(key K) *Breaker {
	b, ok := g.breakers.Get(key)
	if !ok {
		b = NewBreaker(g.o)
		if other, there, _ := g.breakers.PeekOrAdd(key, b); there {
			return other
		}
	}
	return b
}
