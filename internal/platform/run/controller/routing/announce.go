package routing

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"
)

// announcing combines the routes of concurrent callers of Announce: while one caller is
// served, all others wait for one common read of the store.
type announcing struct {
	mu   sync.Mutex
	next *announcement // the one that can still be joined

	// looking is held by the caller that reads for all who joined.
	looking sync.Mutex
}

type announcement struct {
	routes map[string]bool
	done   bool // with err, guarded by looking
	err    error
}

// announceFor limits the time of a read for all who joined. It is longer than a busy machine
// stops for: who has changed a route expects that it is used.
const announceFor = 10 * time.Second

// Announce publishes routes that have just changed: when it returns, the table has them. If
// that fails, it is retried in the background.
func (p *Publisher) Announce(routeGUIDs ...string) error {
	a := &p.announcing
	a.mu.Lock()
	if a.next == nil {
		a.next = &announcement{routes: map[string]bool{}}
	}
	mine := a.next
	for _, guid := range routeGUIDs {
		mine.routes[guid] = true
	}
	a.mu.Unlock()

	a.looking.Lock()
	defer a.looking.Unlock()
	if mine.done {
		return mine.err
	}
	a.mu.Lock()
	a.next = nil // a later caller may have changed what is being read
	a.mu.Unlock()
	guids := slices.Collect(maps.Keys(mine.routes))
	// The read is for all who joined, so it has its own timeout instead of a caller's
	// context.
	ctx, cancel := context.WithTimeout(context.Background(), announceFor)
	defer cancel()
	mine.done, mine.err = true, p.Refresh(ctx, guids...)
	if mine.err != nil {
		p.Kick(guids...)
	}
	return mine.err
}
