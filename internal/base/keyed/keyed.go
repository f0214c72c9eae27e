package keyed

import (
	"context"
	"sync"
)

// Mutex is a lock for each name. The zero value is ready to use.
type Mutex struct {
	mu   sync.Mutex
	held map[string]chan struct{} // closed when unlocked
}

// Lock waits until the name is free, or ctx ends.
func (k *Mutex) Lock(ctx context.Context, name string) (unlock func(), err error) {
	for {
		k.mu.Lock()
		busy, taken := k.held[name]
		if !taken {
			mine := make(chan struct{})
			if k.held == nil {
				k.held = map[string]chan struct{}{}
			}
			k.held[name] = mine
			k.mu.Unlock()
			return func() {
				k.mu.Lock()
				defer k.mu.Unlock()
				delete(k.held, name)
				close(mine)
			}, nil
		}
		k.mu.Unlock()
		select {
		case <-busy:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
