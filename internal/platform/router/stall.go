package router

import (
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"ingot/internal/base/background"
)

const (
	// stalledAfter is how long a client may stand still: take nothing of what
	// waits for it, or send nothing of a request that it has begun. However slow
	// it is, a client that goes on is left alone.
	stalledAfter = 5 * time.Minute
	// stallLook is how often we look whether one does.
	stallLook = stalledAfter / 10
)

// stalls notices connections whose client takes nothing. What it has taken is
// what the system says was acknowledged: that a write blocks means little, since
// the buffers of a socket empty in large steps.
type stalls struct {
	mu     sync.Mutex
	handed map[*handedConn]struct{} // those that the server has
	before map[net.Conn]standing    // where something waited at the last look
}

// standing is how far a client was, and since when.
type standing struct {
	acked uint64
	since time.Time
}

// handedConn is a connection that the server has. It gives what was read of it
// already before the rest.
type handedConn struct {
	unreadConn
	stalls *stalls
}

func (s *stalls) hand(conn net.Conn, read []byte) *handedConn {
	c := &handedConn{unreadConn{conn, read}, s}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.handed == nil {
		s.handed = map[*handedConn]struct{}{}
	}
	s.handed[c] = struct{}{}
	return c
}

// Close implements net.Conn.
func (c *handedConn) Close() error {
	c.stalls.mu.Lock()
	delete(c.stalls.handed, c)
	c.stalls.mu.Unlock()
	return c.unreadConn.Close()
}

// watchStalls looks from time to time until the listener ends.
func (e *Express) watchStalls() {
	ticker := time.NewTicker(stallLook)
	defer ticker.Stop()
	for {
		select {
		case now := <-ticker.C:
			e.endStalled(now)
		case <-e.closing:
			return
		case <-e.ended:
			return
		}
	}
}

// endStalled ends the connections that stand still for too long, and returns how
// many these were.
func (e *Express) endStalled(now time.Time) (n int) {
	cuts := map[net.Conn]func(){}
	e.mu.Lock()
	for l := range e.lanes {
		cuts[l.conn] = l.cut
	}
	e.mu.Unlock()
	s := &e.stalls
	s.mu.Lock()
	for c := range s.handed {
		cuts[c.Conn] = func() { _ = c.Conn.Close() } // the server notices, and closes c
	}
	before := s.before
	s.mu.Unlock()
	next := map[net.Conn]standing{}
	for conn, cut := range cuts {
		acked, waits := progressOf(conn)
		if !waits {
			continue
		}
		was, known := before[conn]
		if !known || was.acked != acked {
			next[conn] = standing{acked, now}
			continue
		}
		if now.Sub(was.since) < stalledAfter {
			next[conn] = was
			continue
		}
		n++
		if t := e.target.Load(); t != nil {
			t.proxy.counters.stalled.Add(1)
			t.proxy.options.Log.Info("a client took nothing for long, its connection is closed", "client", conn.RemoteAddr().String(), "after", stalledAfter.String())
		}
		// What waits in the system's buffers goes too.
		if tcp, ok := conn.(interface{ SetLinger(sec int) error }); ok {
			_ = tcp.SetLinger(0)
		}
		cut()
	}
	s.mu.Lock()
	s.before = next
	s.mu.Unlock()
	return n
}

// patience watches exchanges of the server for what a look at the socket does
// not show: a stream of HTTP/2 that its client does not let go on, and a request
// whose body does not come.
type patience struct {
	mu     sync.Mutex
	all    map[*exchange]*http.ResponseController
	timer  *time.Timer
	closed bool
}

// waiting is since when a read or a write of the client's waits, in Unix
// nanoseconds; 0 when none does.
type waiting struct{ since atomic.Int64 }

func (w *waiting) begin() { w.since.Store(time.Now().UnixNano()) }
func (w *waiting) end()   { w.since.Store(0) }

func (w *waiting) long(now time.Time) bool {
	since := w.since.Load()
	return since != 0 && now.UnixNano()-since >= int64(stalledAfter)
}

// enter watches an exchange until it leaves.
func (p *Proxy) enter(x *exchange, control *http.ResponseController) {
	w := &p.patience
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.all == nil {
		w.all = map[*exchange]*http.ResponseController{}
	}
	w.all[x] = control
	if w.timer == nil && !w.closed {
		w.timer = background.AfterFunc("router stalls", stallLook, p.lookForStalled)
	}
}

// leave returns when nobody touches the exchange's writer any more.
func (w *patience) leave(x *exchange) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.all, x)
}

func (w *patience) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	if w.timer != nil {
		w.timer.Stop()
	}
}

func (p *Proxy) lookForStalled() {
	p.breakOffStalled(time.Now())
	w := &p.patience
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timer = nil
	if len(w.all) > 0 && !w.closed {
		w.timer = background.AfterFunc("router stalls", stallLook, p.lookForStalled)
	}
}

// breakOffStalled ends the exchanges that stand still for too long, and returns
// how many these were.
func (p *Proxy) breakOffStalled(now time.Time) (n int) {
	past := time.Unix(1, 0)
	w := &p.patience
	w.mu.Lock()
	defer w.mu.Unlock()
	for x, control := range w.all {
		var what string
		switch {
		case !x.http1() && x.w.waits.long(now):
			what = "takes nothing of an answer"
			_ = control.SetWriteDeadline(past)
		// Once it is answered a body may be a conversation, whose pauses are not
		// ours to judge; in HTTP/2 it may be one from the begin.
		case x.body != nil && x.http1() && !x.w.begun.Load() && x.body.waits.long(now):
			what = "sends nothing of a request"
			x.body.stalled.Store(true)
			_ = control.SetReadDeadline(past)
		default:
			continue
		}
		n++
		delete(w.all, x) // once is enough
		p.counters.stalled.Add(1)
		p.options.Log.Info("a client stood still for long, its request is broken off", "what", what, "client", x.access.RemoteAddr, "host", x.access.Host, "after", stalledAfter.String())
	}
	return n
}
