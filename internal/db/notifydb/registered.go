package notifydb

import (
	"context"
	"sync"

	"ingot/internal/db"
	"ingot/internal/notify"
)

// registered remembers clients and kinds, of which every send needs one each.
// Only where this process is the only one that writes: every write but those of
// the queue forgets all, so that nobody reads what was true a moment ago.
type registered struct {
	mu      sync.Mutex
	clients map[notify.KindRef]notify.Client
	kinds   map[notify.KindRef]notify.Kind
	// writes counts those that began and ended. What was read while the number
	// changed is not kept, nor is anything while one is under way.
	writes, underWay int
}

// manyRegistered bounds each kind of what is remembered.
const manyRegistered = 1000

// forget is called before a write, and what it returns after.
func (r *registered) forget() (after func()) {
	change := func(underWay int) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.writes++
		r.underWay += underWay
		clear(r.clients)
		clear(r.kinds)
	}
	change(1)
	return func() { change(-1) }
}

// known is view for what may be remembered. What is not there is not: it is
// looked for rarely.
func known[T any](ctx context.Context, s *Store, key notify.KindRef, in *map[notify.KindRef]T, read func(*db.Tx) (T, error)) (T, error) {
	if s.Shared() {
		return view(ctx, s, read)
	}
	r := &s.registered
	r.mu.Lock()
	have, ok := (*in)[key]
	writes := r.writes
	r.mu.Unlock()
	if ok {
		return have, nil
	}
	found, err := view(ctx, s, read)
	if err != nil {
		return found, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.writes == writes && r.underWay == 0 {
		if *in == nil || len(*in) >= manyRegistered {
			*in = map[notify.KindRef]T{}
		}
		(*in)[key] = found
	}
	return found, nil
}
