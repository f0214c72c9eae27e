package smtp

import (
	"context"
	"sync"

	"ingot/internal/notify"
	"ingot/internal/notify/mail/compose"
)

// Source is a batch of messages. Its methods are called concurrently.
type Source interface {
	Len() int
	// Domain returns the recipient's domain, for the limit per domain.
	Domain(i int) string
	// Message composes a message. An error is permanent for this message.
	Message(i int) (*compose.Message, error)
}

// item is a message that a worker has taken.
type item struct {
	index   int
	message *compose.Message
	// domain is the domain whose slot it holds, empty if none.
	domain string
}

// queue holds the messages of a batch that are neither taken nor done.
type queue struct {
	source  Source
	domains *domains
	done    func(int, notify.Result)

	mu      sync.Mutex
	pending []int
}

func newQueue(source Source, domains *domains, done func(int, notify.Result)) *queue {
	q := &queue{source: source, domains: domains, done: done, pending: make([]int, source.Len())}
	for i := range q.pending {
		q.pending[i] = i
	}
	return q
}

// take returns the next message. It waits while all remaining messages are for
// busy domains. The worker must hold no slot.
func (q *queue) take(ctx context.Context) (*item, bool) {
	for ctx.Err() == nil {
		changed := q.domains.changes()
		it, blocked := q.try("")
		if it != nil {
			return it, true
		}
		if !blocked {
			return nil, false
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
	return nil, false
}

// next returns a message to follow present on the same connection, or nil. If
// it has the same domain, it takes over the slot.
func (q *queue) next(ctx context.Context, present *item) *item {
	if ctx.Err() != nil {
		return nil
	}
	it, _ := q.try(present.domain)
	if it != nil && it.domain != "" && it.domain == present.domain {
		present.domain = ""
	}
	return it
}

// try takes the first message whose domain has a free slot or is held already,
// and composes it. Messages that cannot be composed are finished immediately.
func (q *queue) try(held string) (it *item, blocked bool) {
	for {
		it, blocked = q.pick(held)
		if it == nil {
			return nil, blocked
		}
		m, err := q.source.Message(it.index)
		if err == nil {
			it.message = m
			return it, false
		}
		if it.domain != held {
			q.domains.release(it.domain)
		}
		q.done(it.index, compose.Failure(err))
	}
}

func (q *queue) pick(held string) (*item, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for at, i := range q.pending {
		domain := ""
		if q.domains.limit > 0 {
			domain = q.source.Domain(i)
			if (domain != held || held == "") && !q.domains.acquire(domain) {
				continue
			}
		}
		if at == 0 {
			q.pending = q.pending[1:]
		} else {
			q.pending = append(q.pending[:at], q.pending[at+1:]...)
		}
		return &item{index: i, domain: domain}, false
	}
	return nil, len(q.pending) > 0
}

// finish reports the result of a message.
func (q *queue) finish(it *item, r notify.Result) {
	q.domains.release(it.domain)
	q.done(it.index, r)
}

// putBack returns a message that was not sent.
func (q *queue) putBack(it *item) {
	q.domains.release(it.domain)
	q.mu.Lock()
	defer q.mu.Unlock()
	q.pending = append([]int{it.index}, q.pending...)
}

// rest finishes all queued messages with the same result.
func (q *queue) rest(r notify.Result) {
	q.mu.Lock()
	left := q.pending
	q.pending = nil
	q.mu.Unlock()
	for _, i := range left {
		q.done(i, r)
	}
}

// domains counts the connections that send to each domain, over all batches.
type domains struct {
	limit int // 0 means no limit

	mu      sync.Mutex
	busy    map[string]int
	changed chan struct{} // closed at the next release
}

func newDomains(limit int) *domains {
	return &domains{limit: limit, busy: map[string]int{}, changed: make(chan struct{})}
}

func (d *domains) changes() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.changed
}

func (d *domains) acquire(domain string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.busy[domain] >= d.limit {
		return false
	}
	d.busy[domain]++
	return true
}

func (d *domains) release(domain string) {
	if domain == "" || d.limit == 0 {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.busy[domain]--; d.busy[domain] <= 0 {
		delete(d.busy, domain)
	}
	close(d.changed)
	d.changed = make(chan struct{})
}
