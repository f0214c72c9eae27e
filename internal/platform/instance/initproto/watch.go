package initproto

import (
	"context"
	"sync"
	"time"

	"ingot/internal/base/background"
)

// pollInterval is how often readers poll where the system has no notifications.
const pollInterval = 100 * time.Millisecond

// poller wakes its subscribers regularly. One goroutine serves all, as long as there are
// any.
type poller struct {
	mu   sync.Mutex
	subs map[*subscription]struct{}
	stop chan struct{}
}

var polled poller

func (p *poller) subscribe() *subscription {
	s := newSubscription()
	s.cancel = func() { p.remove(s) }
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.subs) == 0 {
		p.subs = map[*subscription]struct{}{}
		p.stop = make(chan struct{})
		stop := p.stop
		background.GoLoop(context.Background(), "record poll", func() { p.run(stop) }) // until stop is closed
	}
	p.subs[s] = struct{}{}
	return s
}

func (p *poller) remove(s *subscription) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.subs, s)
	if len(p.subs) == 0 {
		close(p.stop)
	}
}

func (p *poller) run(stop <-chan struct{}) {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
			p.mu.Lock()
			for s := range p.subs {
				s.notify(true)
			}
			p.mu.Unlock()
		}
	}
}
