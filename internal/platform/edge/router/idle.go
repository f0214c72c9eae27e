package router

import (
	"context"
	"sync"
	"time"

	"ingot/internal/base/background"
)

const (
	idlePerBackend = 1024
	idleFor        = 60 * time.Second
)

// idleConns are the idle connections to a backend, the most recently used last.
type idleConns struct {
	mu      sync.Mutex
	conns   []*backendConn
	watched bool // by the sweeper
}

func (i *idleConns) take() *backendConn {
	i.mu.Lock()
	defer i.mu.Unlock()
	n := len(i.conns)
	if n == 0 {
		return nil
	}
	b := i.conns[n-1]
	i.conns[n-1] = nil
	i.conns = i.conns[:n-1]
	return b
}

// connect returns an idle connection or a new one. A request that must not be sent twice
// only gets an idle connection that is certainly open; a doubtful connection must not have
// received anything.
func (p *Proxy) connect(e *endpoint, now time.Time, repeatable bool) (*backendConn, error) {
	for {
		b := e.state.idle.take()
		if b == nil {
			return p.dial(e)
		}
		if now.Sub(b.since) < idleFor && (repeatable && !b.doubtful || b.alive()) {
			b.reused = true
			return b, nil
		}
		_ = b.Close()
	}
}

func (p *Proxy) dial(e *endpoint) (*backendConn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), p.options.DialTimeout)
	defer cancel()
	conn, err := dialInstance(ctx, p.wire.dialer, "tcp", e.Address)
	if err != nil {
		return nil, err
	}
	return newBackendConn(conn), nil
}

// release keeps a connection for the next request.
func (p *Proxy) release(e *endpoint, b *backendConn, now time.Time) {
	i := &e.state.idle
	b.since = now
	i.mu.Lock()
	if len(i.conns) >= idlePerBackend {
		i.mu.Unlock()
		_ = b.Close()
		return
	}
	i.conns = append(i.conns, b)
	watch := !i.watched
	i.watched = true
	i.mu.Unlock()
	if watch {
		p.idle.watch(i)
	}
}

// idleSweeper closes connections that have been idle for long, including those to backends
// that are no longer in the table.
type idleSweeper struct {
	mu     sync.Mutex
	all    map[*idleConns]struct{}
	timer  *time.Timer
	closed bool
}

func (s *idleSweeper) watch(i *idleConns) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		i.sweep(time.Time{})
		return
	}
	if s.all == nil {
		s.all = map[*idleConns]struct{}{}
	}
	s.all[i] = struct{}{}
	if s.timer == nil {
		s.timer = background.AfterFunc("router idle connections", idleFor/2, s.run)
	}
}

func (s *idleSweeper) run() {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := time.Now().Add(-idleFor)
	for i := range s.all {
		if i.sweep(before) {
			delete(s.all, i)
		}
	}
	s.timer = nil
	if len(s.all) > 0 && !s.closed {
		s.timer = background.AfterFunc("router idle connections", idleFor/2, s.run)
	}
}

// sweep closes connections idle since before that time, or all for the zero time, and
// reports whether none is left; if so it is no longer watched.
func (i *idleConns) sweep(before time.Time) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	kept := i.conns[:0]
	for _, b := range i.conns {
		if before.IsZero() || b.since.Before(before) {
			_ = b.Close()
			continue
		}
		kept = append(kept, b)
	}
	clear(i.conns[len(kept):])
	i.conns = kept
	i.watched = len(kept) > 0
	return !i.watched
}

func (s *idleSweeper) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if s.timer != nil {
		s.timer.Stop()
	}
	for i := range s.all {
		i.sweep(time.Time{})
	}
	s.all = nil
}
