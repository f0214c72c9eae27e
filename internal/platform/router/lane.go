package router

import (
	"bytes"
	"errors"
	"net"
	"os"
	"sync/atomic"
	"time"

	"ingot/internal/base/background"
)

const (
	// laneBuffer bounds the head and body of a request in an express lane.
	laneBuffer = 8 << 10

	// A client may keep its connection idle so long between two requests, and
	// take so long for the first byte of the first one and for a head that it has
	// begun, as with the server.
	laneIdle = 2 * time.Minute
	laneHead = 10 * time.Second
	// laneBody is how long we wait for a small body here.
	laneBody = time.Second
)

// lane serves the connection of a client until it ends or is handed over.
type lane struct {
	express *Express
	conn    net.Conn
	in      []byte // in[:n] was read and not answered yet
	served  bool   // there was a request before
	n       int
	out     []byte
	request plainRequest
	answer  plainAnswer
	x       exchange // the one under way
	remote  string   // the client's address, and without its port
	ip      string

	deadline time.Time // of reads, as it was set last
	waits    atomic.Bool
	backend  atomic.Pointer[backendConn] // the one in use, for those who cut the lane
	severed  atomic.Bool
	watch    watcher
}

func (l *lane) run() {
	defer l.express.leave(l)
	ended := false
	defer func() {
		if !ended { // a panic: the client must not wait for an answer
			l.cut()
		}
	}()
	l.serveAll()
	ended = true
}

// serveAll serves one request after the other.
func (l *lane) serveAll() {
	target := l.express.target.Load()
	if target == nil {
		l.express.handOver(l.conn, nil)
		return
	}
	l.in = make([]byte, laneBuffer)
	l.remote = l.conn.RemoteAddr().String()
	l.ip = l.remote
	if ip, _, err := net.SplitHostPort(l.remote); err == nil {
		l.ip = ip
	}
	for {
		head, plain, err := l.readRequest()
		if err != nil {
			_ = l.conn.Close()
			return
		}
		var m *Match
		var x *exchange
		if plain {
			if target = l.express.target.Load(); target != nil {
				x, m = l.lookup(target, head)
			}
		}
		if m == nil || !l.readBody(head) {
			l.express.handOver(l.conn, l.in[:l.n:l.n])
			return
		}
		again := l.serve(target.proxy, x, head)
		if !again || l.express.isClosing() {
			l.hangUp()
			return
		}
		l.served = true
		used := head + l.request.length
		l.n = copy(l.in, l.in[used:l.n])
	}
}

// hangUp ends the connection so that the client can still read the answer, also
// when it has sent more than was looked at.
func (l *lane) hangUp() {
	if half, ok := l.conn.(interface{ CloseWrite() error }); ok && !l.severed.Load() && half.CloseWrite() == nil {
		_ = l.conn.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
		for range 16 {
			if n, err := l.conn.Read(l.in); n == 0 || err != nil {
				break
			}
		}
	}
	_ = l.conn.Close()
}

// cut ends the lane wherever it is.
func (l *lane) cut() {
	l.severed.Store(true)
	_ = l.conn.Close()
	if b := l.backend.Load(); b != nil {
		_ = b.Close()
	}
}

// readRequest reads a head and returns its length. Not plain is what has to be
// handed over.
func (l *lane) readRequest() (head int, plain bool, err error) {
	timed := false
	for searched := 0; ; {
		if l.n > 0 {
			i := bytes.Index(l.in[searched:l.n], headEnd)
			if i >= 0 {
				head = searched + i + len(headEnd)
				return head, l.request.parsePlain(l.in[:head]), nil
			}
			if !mayBecomePlain(l.in[:l.n]) || l.n == len(l.in) {
				return 0, false, nil
			}
			searched = max(0, l.n-len(headEnd)+1)
		}
		now := time.Now()
		switch {
		case l.n == 0 && l.served:
			l.await(now, laneIdle)
		case l.n == 0:
			l.await(now, laneHead)
		case !timed:
			timed = true
			l.await(now, laneHead)
		}
		l.waits.Store(l.n == 0)
		if l.express.isClosing() && l.n == 0 {
			return 0, false, net.ErrClosed
		}
		n, err := l.conn.Read(l.in[l.n:])
		l.waits.Store(false)
		l.n += n
		if n == 0 && err != nil {
			return 0, false, err
		}
	}
}

// mayBecomePlain sends what does not begin like a request away at once: it may
// wait for an answer before it goes on.
func mayBecomePlain(b []byte) bool {
	for i, c := range b[:min(len(b), 24)] {
		if c == ' ' {
			return i > 0 && (i+1 >= len(b) || b[i+1] == '/')
		}
		if classes[c]&classToken == 0 {
			return false
		}
	}
	return len(b) < 24
}

// await sets the deadline of reads, unless it is about right.
func (l *lane) await(now time.Time, d time.Duration) {
	if left := l.deadline.Sub(now); left <= d && left > d*3/4 {
		return
	}
	l.deadline = now.Add(d)
	_ = l.conn.SetReadDeadline(l.deadline)
}

// readBody waits shortly for the rest of a small body. It returns false when
// that does not come, or is not small.
func (l *lane) readBody(head int) bool {
	whole := head + l.request.length
	if whole > len(l.in) {
		return false
	}
	for l.n < whole {
		l.await(time.Now(), laneBody)
		n, err := l.conn.Read(l.in[l.n:])
		l.n += n
		if n == 0 && err != nil {
			return false
		}
	}
	return true
}

// lookup finds the route, and begins the exchange if it can go by here.
func (l *lane) lookup(t *expressTarget, head int) (*exchange, *Match) {
	q := &l.request
	text := string(l.in[:head])
	host, uri := q.host.of(text), q.target.of(text)
	m, ok := t.proxy.table.Serving(host, uri)
	if !ok || !t.takes(m, host) {
		return nil, nil
	}
	x := &l.x
	*x = exchange{counters: &t.proxy.counters, match: m, pool: m.pool}
	x.access = Access{
		Host: host, Time: time.Now(), Method: q.method.of(text), URI: uri, Proto: "HTTP/1.1",
		Referer: q.referer.of(text), UserAgent: q.agent.of(text), RemoteAddr: l.remote,
		ForwardedFor: l.ip, ForwardedProto: "http", Route: m.Route.GUID, RequestBytes: int64(q.length),
	}
	id := q.id.of(text)
	if !goodRequestID(id) {
		id = ""
	}
	if q.traced {
		x.access.trace = q.traceIn(text)
	}
	x.access.RequestID = x.access.trace.begin(id)
	if len(q.forwardedFor) > 0 {
		var b []byte
		for _, s := range q.forwardedFor {
			b = append(append(b, s.of(text)...), ", "...)
		}
		x.access.ForwardedFor = string(append(b, l.ip...))
	}
	if proto := l.in[q.forwardedProto.from:q.forwardedProto.to]; !t.proxy.options.DistrustForwardedProto && equalFold(proto, "https") {
		x.access.ForwardedProto = "https"
	}
	if len(q.cookies) > 0 {
		cookies := make([]string, len(q.cookies))
		for i, s := range q.cookies {
			cookies[i] = s.of(text)
		}
		x.sticky = stickyInstance(cookies)
	}
	if h := m.pool.hash; h != nil {
		x.hashed = h.keyIn(text)
	}
	x.repeatable = q.length == 0 && idempotent(x.access.Method, q.keyed)
	return x, m
}

// watcher notices that a client goes away while its answer takes long.
type watcher struct {
	done  chan struct{} // nil when it does not watch
	gone  atomic.Bool
	extra [1]byte // what the client sent meanwhile
	got   bool
	lost  bool // there was no room for it
}

// watchClient begins to watch. When the client goes away, b is closed.
func (l *lane) watchClient(b *backendConn) {
	w := &l.watch
	w.done, w.got = make(chan struct{}), false
	_ = l.conn.SetReadDeadline(time.Time{})
	background.Go("router connection", func() {
		defer close(w.done)
		n, err := l.conn.Read(w.extra[:])
		w.got = n == 1
		if n == 0 && !errors.Is(err, os.ErrDeadlineExceeded) {
			w.gone.Store(true)
			_ = b.Close()
		}
	})
}

// unwatch ends that, and keeps what the watcher has read. It returns false when
// the connection cannot be used any more.
func (l *lane) unwatch() bool {
	w := &l.watch
	if w.done == nil {
		return !w.gone.Load() && !w.lost
	}
	_ = l.conn.SetReadDeadline(time.Unix(1, 0))
	<-w.done
	w.done, l.deadline = nil, time.Time{}
	if w.got {
		if l.n == len(l.in) {
			w.lost = true
			return false
		}
		l.in[l.n] = w.extra[0]
		l.n++
	}
	return !w.gone.Load()
}
