package router

import (
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/base/clock"
	"ingot/internal/platform/edge/router/socket"
)

const (
	// stalledAfter is how long a client may make no progress: neither accept any of the
	// data waiting for it, nor send any of a request that it has begun. A slow client that
	// makes progress is not affected.
	stalledAfter = 5 * time.Minute
	// stallInterval is the interval of the check.
	stallInterval = stalledAfter / 10
)

// connWatch finds connections whose client accepts no data. Progress is what the kernel
// reports as acknowledged: a blocked write means little, because socket buffers empty in
// large steps.
type connWatch struct {
	mu     sync.Mutex
	handed map[*handedConn]struct{} // connections handed to the server
	before map[net.Conn]standing    // connections that had unacknowledged data at the last check
}

// standing is the progress of a client and the time it was reached.
type standing struct {
	acked uint64
	since time.Time
}

// handedConn is a connection handed to the server. It returns the bytes that were already
// read first.
type handedConn struct {
	unreadConn
	watch *connWatch
}

func (s *connWatch) hand(conn net.Conn, read []byte) *handedConn {
	c := &handedConn{unreadConn{conn, read}, s}
	s.add(c)
	return c
}

// handSecured is hand for a connection with TLS.
func (s *connWatch) handSecured(c *securedConn, read []byte) net.Conn {
	s.add(c.below)
	if c.state.NegotiatedProtocol == protoHTTP2 {
		return c.Conn // the server knows HTTP/2 by this type
	}
	return &handedTLS{unreadConn{c.Conn, read}, c.Conn}
}

func (s *connWatch) add(c *handedConn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.handed == nil {
		s.handed = map[*handedConn]struct{}{}
	}
	s.handed[c] = struct{}{}
}

// count returns how many connections the server has.
func (s *connWatch) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.handed)
}

// Close implements net.Conn.
func (c *handedConn) Close() error {
	c.watch.mu.Lock()
	delete(c.watch.handed, c)
	c.watch.mu.Unlock()
	return c.unreadConn.Close()
}

// watchStalls checks periodically until the listener closes.
func (e *FastPath) watchStalls() {
	ticker := time.NewTicker(stallInterval)
	defer ticker.Stop()
	for {
		select {
		case now := <-ticker.C:
			e.closeStalled(now)
		case <-e.closing:
			return
		case <-e.ended:
			return
		}
	}
}

// closeStalled closes the connections that have made no progress for too long, and returns
// their number.
func (e *FastPath) closeStalled(now time.Time) (n int) {
	cuts := map[net.Conn]func(){}
	e.mu.Lock()
	for l := range e.conns {
		cuts[l.socket] = l.cut
	}
	e.mu.Unlock()
	s := &e.connWatch
	s.mu.Lock()
	for c := range s.handed {
		cuts[c.Conn] = func() { _ = c.Conn.Close() } // the server notices and closes c
	}
	before := s.before
	s.mu.Unlock()
	next := map[net.Conn]standing{}
	for conn, cut := range cuts {
		acked, waits := socket.Progress(conn)
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
			t.proxy.options.Log.Info("closing the connection of a stalled client", "client", conn.RemoteAddr().String(), "after",
				stalledAfter.String())
		}
		// Discard the data in the kernel's buffers too.
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

// exchangeWatch watches exchanges of the server for stalls that the socket does not show: an
// HTTP/2 stream whose client sends no window updates, and a request whose body does not
// arrive.
type exchangeWatch struct {
	mu     sync.Mutex
	all    map[*exchange]*http.ResponseController
	timer  *time.Timer
	closed bool
}

// waiting is the steady time in nanoseconds at which a read from or write to the client
// started to wait; 0 if none waits.
type waiting struct{ since atomic.Int64 }

func (w *waiting) begin() { w.since.Store(clock.Steady().UnixNano()) }
func (w *waiting) end()   { w.since.Store(0) }

func (w *waiting) long(now time.Time) bool {
	since := w.since.Load()
	return since != 0 && now.UnixNano()-since >= int64(stalledAfter)
}

// enter watches an exchange until leave.
func (p *Proxy) enter(x *exchange, control *http.ResponseController) {
	w := &p.exchangeWatch
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.all == nil {
		w.all = map[*exchange]*http.ResponseController{}
	}
	w.all[x] = control
	if w.timer == nil && !w.closed {
		w.timer = background.AfterFunc("router stalls", stallInterval, p.checkStalled)
	}
}

// leave returns when the exchange's writer is no longer used.
func (w *exchangeWatch) leave(x *exchange) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.all, x)
}

func (w *exchangeWatch) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	if w.timer != nil {
		w.timer.Stop()
	}
}

func (p *Proxy) checkStalled() {
	p.abortStalled(clock.Steady())
	w := &p.exchangeWatch
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timer = nil
	if len(w.all) > 0 && !w.closed {
		w.timer = background.AfterFunc("router stalls", stallInterval, p.checkStalled)
	}
}

// abortStalled aborts the exchanges that have made no progress for too long, and returns
// their number.
func (p *Proxy) abortStalled(now time.Time) (n int) {
	past := time.Unix(1, 0)
	w := &p.exchangeWatch
	w.mu.Lock()
	defer w.mu.Unlock()
	for x, control := range w.all {
		var what string
		switch {
		case !x.http1() && x.w.waits.long(now):
			what = "takes nothing of an answer"
			_ = control.SetWriteDeadline(past)
		// After the response has started, the body may be a conversation with pauses of any
		// length; in HTTP/2 it may be one from the start.
		case x.body != nil && x.http1() && !x.w.begun.Load() && x.body.waits.long(now):
			what = "sends nothing of a request"
			x.body.stalled.Store(true)
			_ = control.SetReadDeadline(past)
		default:
			continue
		}
		n++
		delete(w.all, x) // abort it only once
		p.counters.stalled.Add(1)
		p.options.Log.Info("aborting the request of a stalled client", "what", what, "client", x.access.RemoteAddr, "host",
			x.access.Host, "after", stalledAfter.String())
	}
	return n
}
