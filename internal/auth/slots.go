package auth

import (
	"context"
	"sync"
	"time"

	"ingot/internal/base/fault"
)

// turn identifies the caller for which a hash is computed.
type turn struct {
	// from is the caller's address. Addresses take turns, so that one that
	// sends many requests does not delay the others.
	from string
	// proven is set for an address that the account has logged in from, and for
	// a valid token. These requests go first, and one slot is reserved for them.
	proven bool
}

const (
	// maxWaitingEach limits the waiting requests of one address that are not
	// proven, and maxWaitingAll those of all addresses.
	maxWaitingEach = 32
	maxWaitingAll  = 512
)

// slots limits how many hashes are computed at once: each takes 19 MiB and a
// processor, and unauthenticated requests cause them.
type slots struct {
	total int

	mu        sync.Mutex
	busy      int
	strangers int // the busy slots of requests that are not proven
	proven    line
	others    line
}

type waiter struct {
	turn
	ready chan error
}

// line holds waiters by address, and the order in which addresses take turns.
type line struct {
	byAddress map[string][]*waiter
	order     []string
	size      int
}

func newSlots(total int) *slots { return &slots{total: total} }

func tooBusy() error {
	return fault.New(fault.RateLimited, "Too many logins at once. Try again in a moment.").WithKind("too_many_requests").
		After(2 * time.Second)
}

// enter waits for a slot; leave gives it back.
func (s *slots) enter(ctx context.Context, t turn) error {
	s.mu.Lock()
	if s.free(t.proven) {
		s.occupy(t.proven)
		s.mu.Unlock()
		return nil
	}
	w := &waiter{turn: t, ready: make(chan error, 1)}
	if !s.queue(w) {
		s.mu.Unlock()
		return tooBusy()
	}
	s.mu.Unlock()
	select {
	case err := <-w.ready:
		return err
	case <-ctx.Done():
	}
	s.mu.Lock()
	waiting := s.line(t.proven).remove(w)
	s.mu.Unlock()
	if !waiting && <-w.ready == nil {
		s.leave(t)
	}
	return context.Cause(ctx)
}

func (s *slots) leave(t turn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy--
	if !t.proven {
		s.strangers--
	}
	for {
		w := s.next()
		if w == nil {
			return
		}
		s.occupy(w.proven)
		w.ready <- nil
	}
}

func (s *slots) free(proven bool) bool {
	return s.busy < s.total && (proven || s.strangers < max(1, s.total-1))
}

func (s *slots) occupy(proven bool) {
	s.busy++
	if !proven {
		s.strangers++
	}
}

func (s *slots) next() *waiter {
	if s.free(true) && s.proven.size > 0 {
		return s.proven.take()
	}
	if s.free(false) && s.others.size > 0 {
		return s.others.take()
	}
	return nil
}

func (s *slots) line(proven bool) *line {
	if proven {
		return &s.proven
	}
	return &s.others
}

// queue adds a waiter. When the line is full, the newest waiter of the address
// with the most waiters is rejected; queue reports false when that is w itself.
func (s *slots) queue(w *waiter) bool {
	l := s.line(w.proven)
	own := len(l.byAddress[w.from])
	if own >= maxWaitingEach && !w.proven {
		return false
	}
	if l.size >= maxWaitingAll {
		longest := w.from
		for address, waiting := range l.byAddress {
			if len(waiting) > max(own, len(l.byAddress[longest])) {
				longest = address
			}
		}
		if longest == w.from {
			return false
		}
		waiting := l.byAddress[longest]
		dropped := waiting[len(waiting)-1]
		l.remove(dropped)
		dropped.ready <- tooBusy()
	}
	l.add(w)
	return true
}

func (l *line) add(w *waiter) {
	if l.byAddress == nil {
		l.byAddress = map[string][]*waiter{}
	}
	if len(l.byAddress[w.from]) == 0 {
		l.order = append(l.order, w.from)
	}
	l.byAddress[w.from] = append(l.byAddress[w.from], w)
	l.size++
}

// take removes and returns the first waiter of the address whose turn it is, and
// moves the address to the end.
func (l *line) take() *waiter {
	address := l.order[0]
	w := l.byAddress[address][0]
	l.remove(w)
	if len(l.byAddress[address]) > 0 {
		l.order = append(l.order[1:], address)
	}
	return w
}

// remove removes a waiter and reports whether it was still in the line.
func (l *line) remove(w *waiter) bool {
	waiting := l.byAddress[w.from]
	for i, one := range waiting {
		if one != w {
			continue
		}
		l.size--
		if len(waiting) > 1 {
			l.byAddress[w.from] = append(waiting[:i:i], waiting[i+1:]...)
			return true
		}
		delete(l.byAddress, w.from)
		for j, address := range l.order {
			if address == w.from {
				l.order = append(l.order[:j:j], l.order[j+1:]...)
				break
			}
		}
		return true
	}
	return false
}
