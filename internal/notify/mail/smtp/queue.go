package smtp

import (
	"context"
	"sync"

	"ingot/internal/notify/mail/compose"
)

// Source is a batch of messages. Its methods are called concurrently.
type Source interface {
	Len() int
	// Domain returns the recipient's domain, for the Gate.
	Domain(i int) string
	// Message composes a message. An error is permanent for this message.
	Message(i int) (*compose.Message, error)
}

// item is a message that a worker has taken.
type item struct {
	index   int
	message *compose.Message
	// domain is the recipient's, and entered reports whether the message has a permit there.
	domain  string
	entered bool
}

// queue holds the messages of a batch that are neither taken nor done.
type queue struct {
	source Source
	gate   Gate // nil means no limit
	done   func(int, Result)
	// taken has the messages of workers, by index. Each element is used by one goroutine at a time.
	taken []*item

	mu      sync.Mutex
	pending []int
}

func newQueue(source Source, gate Gate, done func(int, Result)) *queue {
	q := &queue{source: source, gate: gate, done: done, pending: make([]int, source.Len()),
		taken: make([]*item, source.Len())}
	for i := range q.pending {
		q.pending[i] = i
	}
	return q
}

// take returns the next message. It waits while all remaining messages are for
// busy domains. The worker must hold no slot and no permit.
func (q *queue) take(ctx context.Context) (*item, bool) {
	for ctx.Err() == nil {
		var changed <-chan struct{}
		if q.gate != nil {
			changed = q.gate.Changes()
		}
		it, blocked := q.try(nil)
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
// it has the same domain, it takes over the permit.
func (q *queue) next(ctx context.Context, present *item) *item {
	if ctx.Err() != nil {
		return nil
	}
	it, _ := q.try(present)
	return it
}

// try takes the first message whose domain has a free permit, or that of present,
// and composes it. Messages that cannot be composed are finished immediately.
func (q *queue) try(present *item) (it *item, blocked bool) {
	for {
		it, blocked = q.pick(present)
		if it == nil {
			return nil, blocked
		}
		m, err := q.source.Message(it.index)
		if err == nil {
			it.message = m
			return it, false
		}
		q.finish(it, Result{Result: compose.Failure(err)})
	}
}

func (q *queue) pick(present *item) (*item, bool) {
	if q.gate == nil {
		q.mu.Lock()
		defer q.mu.Unlock()
		if len(q.pending) == 0 {
			return nil, false
		}
		it := &item{index: q.pending[0]}
		q.taken[it.index] = it
		q.pending = q.pending[1:]
		return it, false
	}
	it, left, away := q.search(present)
	for _, i := range away {
		q.done(i, Result{Result: temporary("waiting: the recipient's domain is slow"), Away: true})
	}
	return it, left
}

// search finds a message whose domain has a permit. away are messages that the gate turned away.
func (q *queue) search(present *item) (it *item, left bool, away []int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	kept := 0
	for at, i := range q.pending {
		domain := q.source.Domain(i)
		var entry Entry
		if present != nil && present.entered && present.domain == domain {
			if entry = q.gate.Follow(domain); entry == Enter {
				present.entered = false
			}
		} else {
			entry = q.gate.Enter(domain)
		}
		switch entry {
		case Enter:
			if kept == 0 {
				q.pending = q.pending[at+1:]
			} else {
				q.pending = append(q.pending[:kept], q.pending[at+1:]...)
			}
			it = &item{index: i, domain: domain, entered: true}
			q.taken[i] = it
			return it, false, away
		case Away:
			away = append(away, i)
		default:
			q.pending[kept] = i
			kept++
		}
	}
	q.pending = q.pending[:kept]
	return nil, kept > 0, away
}

// leave gives the permit of a message back.
func (q *queue) leave(it *item) {
	if it.entered {
		it.entered = false
		q.gate.Leave(it.domain)
	}
}

// finish reports the result of a message.
func (q *queue) finish(it *item, r Result) {
	q.leave(it)
	q.taken[it.index] = nil
	q.done(it.index, r)
}

// putBack returns a message that was not sent.
func (q *queue) putBack(it *item) {
	q.leave(it)
	q.mu.Lock()
	defer q.mu.Unlock()
	q.taken[it.index] = nil
	q.pending = append([]int{it.index}, q.pending...)
}

// rest finishes all queued messages with the same result, after the workers have ended. Messages of a worker that
// panicked may have been sent.
func (q *queue) rest(r Result) {
	for _, it := range q.taken {
		if it != nil {
			q.finish(it, Result{Result: temporary("sending ended unexpectedly")})
		}
	}
	q.mu.Lock()
	left := q.pending
	q.pending = nil
	q.mu.Unlock()
	for _, i := range left {
		q.done(i, r)
	}
}
