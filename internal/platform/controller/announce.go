package controller

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"
)

// announcing gathers what several callers of Announce want while one of them is
// served, so that all of the others need one look at the store together.
type announcing struct {
	mu   sync.Mutex
	next *announcement // the one that can still be joined

	// looking is held by the caller that looks for all who joined.
	looking sync.Mutex
}

type announcement struct {
	routes map[string]bool
	done   bool // with err, guarded by looking
	err    error
}

// announceFor bounds how long a look for all who joined may take.
const announceFor = time.Second

// Announce publishes routes that have just changed: when it returns, the table
// has them. When that fails it is tried again soon, without the caller.
func (p *RoutePublisher) Announce(routeGUIDs ...string) error {
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
	a.next = nil // whoever comes now may have changed what is being read
	a.mu.Unlock()
	guids := slices.Collect(maps.Keys(mine.routes))
	// It is for all who joined, so it has a bound of its own and nobody's context.
	ctx, cancel := context.WithTimeout(context.Background(), announceFor)
	defer cancel()
	mine.done, mine.err = true, p.Refresh(ctx, guids...)
	if mine.err != nil {
		p.Kick(guids...)
	}
	return mine.err
}
