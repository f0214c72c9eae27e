package router

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/base/connlimit"
)

// FastPath is a listener in front of an HTTP server. It serves plain requests to
// apps itself, and hands every other connection to the server with no byte
// consumed:
//
//	client ──▶ FastPath ──plain request, HTTP/1.1 backend──▶ instance
//	              └────anything else────▶ http.Server ──▶ Proxy or API
//
// A plain request is one without ambiguity: HTTP/1.1, a host with a route, a body
// that is small or absent. Everything unusual is left to the server. A connection
// that was handed over stays with the server.
//
// Until Use is called every connection is handed over.
type FastPath struct {
	inner   net.Listener
	tls     *TLS // nil without TLS
	target  atomic.Pointer[fastTarget]
	handed  chan net.Conn
	begin   sync.Once
	closing chan struct{}
	retired atomic.Bool
	failed  error // why accepting stopped; set before ended is closed
	ended   chan struct{}

	// most is the maximum number of connections, so that the process does not run out of
	// file descriptors.
	most    int
	crowded atomic.Int64 // when it was last logged that they are too many

	mu     sync.Mutex
	conns  map[*fastConn]struct{}
	going  int // how many of conns were evicted, and have not ended yet
	closed bool
	empty  chan struct{} // closed when the last connection ends after Close

	connWatch connWatch
}

type fastTarget struct {
	proxy   *Proxy
	notApps func(host string) bool
}

var _ net.Listener = (*FastPath)(nil)

// NewFastPath puts a fast path in front of l.
func NewFastPath(l net.Listener) *FastPath {
	return &FastPath{
		inner: l, handed: make(chan net.Conn), closing: make(chan struct{}), ended: make(chan struct{}),
		most:  max(connlimit.Files()*2/5, 64), // a request may need a second descriptor, to an instance
		conns: map[*fastConn]struct{}{}, empty: make(chan struct{}),
	}
}

// Use serves requests with p from now on. notApps, if not nil, reports whether a host does
// not belong to apps even if a route has it.
func (e *FastPath) Use(p *Proxy, notApps func(host string) bool) {
	if notApps == nil {
		notApps = func(string) bool { return false }
	}
	if before := e.target.Load(); before == nil || before.proxy != p {
		p.listeners.add(e)
	}
	e.target.Store(&fastTarget{p, notApps})
}

// Addr implements net.Listener.
func (e *FastPath) Addr() net.Addr { return e.inner.Addr() }

// Accept returns the next connection for the server.
func (e *FastPath) Accept() (net.Conn, error) {
	e.begin.Do(func() {
		background.Go("router accept", func() {
			defer close(e.ended)
			background.Loop(context.Background(), "router accept", e.accept) // until the listener is closed
		})
		background.GoLoop(context.Background(), "router stalls", e.watchStalls) // until closing
	})
	select {
	case c := <-e.handed:
		return c, nil
	case <-e.ended:
	}
	if e.retired.Load() {
		select {
		case c := <-e.handed:
			return c, nil
		case <-e.closing:
		}
	}
	return nil, e.failed
}

// Retire stops accepting and fails no request: every connection is closed after its next
// response, which says so. It returns when all accepted connections are counted.
func (e *FastPath) Retire() {
	if e.retired.Swap(true) {
		return
	}
	_ = e.inner.Close()
	e.neverAccepts()
	<-e.ended
}

// Connections returns how many connections the fast path serves.
func (e *FastPath) Connections() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.conns)
}

// CloseIdle closes the connections that wait for a request.
func (e *FastPath) CloseIdle() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closeIdle()
}

func (e *FastPath) closeIdle() {
	for c := range e.conns {
		if c.waits.Load() > 0 {
			_ = c.socket.SetReadDeadline(time.Unix(1, 0))
		}
	}
}

// neverAccepts reports to Accept that accepting has ended, if it never started.
func (e *FastPath) neverAccepts() {
	e.begin.Do(func() {
		e.failed = net.ErrClosed
		close(e.ended)
	})
}

func (e *FastPath) accept() {
	pause := 5 * time.Millisecond
	for {
		conn, err := e.inner.Accept()
		var timeout net.Error
		switch {
		case err == nil:
			pause = 5 * time.Millisecond
			c := &fastConn{path: e, socket: conn, conn: conn}
			// Also before its goroutine runs: in a flood that may take a while.
			c.waits.Store(time.Now().UnixNano())
			if e.enter(c) {
				background.Go("router connection", c.run)
			} else {
				_ = conn.Close()
			}
		case errors.As(err, &timeout) && !errors.Is(err, net.ErrClosed):
			// Out of file descriptors or similar: wait until connections are closed.
			select {
			case <-time.After(pause):
				pause = min(2*pause, time.Second)
			case <-e.closing:
			}
		default:
			e.failed = err
			return
		}
	}
}

// Close stops accepting. Connections that wait for a request are closed now, the others
// after their request; Proxy.Close waits for them.
func (e *FastPath) Close() error {
	e.mu.Lock()
	if !e.closed {
		e.closed = true
		close(e.closing)
		e.closeIdle()
		if len(e.conns) == 0 {
			close(e.empty)
		}
	}
	e.mu.Unlock()
	err := e.inner.Close()
	e.neverAccepts()
	return err
}

func (e *FastPath) isClosing() bool {
	select {
	case <-e.closing:
		return true
	default:
		return false
	}
}

// enter reports whether a new connection may be served.
func (e *FastPath) enter(c *fastConn) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	// Those that are about to end take no room, unless there are many.
	if e.closed || len(e.conns)-min(e.going, 8+e.most/8)+e.connWatch.count() >= e.most && !e.makeRoom() {
		return false
	}
	e.conns[c] = struct{}{}
	return true
}

// idleSample is how many idle connections makeRoom compares. All of them would take too long in
// a flood; of so many, one that has just been accepted is practically never the oldest.
const idleSample = 16

// makeRoom closes a connection that has waited long for a request, and reports whether there was
// one. The caller holds the lock.
func (e *FastPath) makeRoom() bool {
	if t := e.target.Load(); t != nil && connlimit.LogDue(&e.crowded) {
		t.proxy.options.Log.Warn("too many connections for the limit of open files: idle ones are closed, and then new "+
			"ones; raise the limit (ulimit -n, LimitNOFILE)",
			"address", e.inner.Addr().String(), "connections", e.most)
	}
	var oldest *fastConn
	var since int64
	compared := 0
	for c := range e.conns {
		waits := c.waits.Load()
		if waits == 0 || c.evicted.Load() {
			continue
		}
		if oldest == nil || waits < since {
			oldest, since = c, waits
		}
		if compared++; compared == idleSample {
			break
		}
	}
	if oldest == nil {
		return false
	}
	e.going++
	oldest.evicted.Store(true)
	_ = oldest.socket.SetReadDeadline(time.Unix(1, 0))
	return true
}

// spare lets a connection serve the request that arrived while it was chosen to be closed. It is
// closed afterwards.
func (e *FastPath) spare(c *fastConn) {
	e.mu.Lock() // makeRoom has set its deadline
	defer e.mu.Unlock()
	c.deadline = time.Now().Add(fastHead)
	_ = c.conn.SetReadDeadline(c.deadline)
}

func (e *FastPath) leave(c *fastConn) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.conns, c)
	if c.evicted.Load() {
		e.going--
	}
	if e.closed && len(e.conns) == 0 {
		close(e.empty)
	}
}

// handOver passes the connection to the server, with the bytes read so far.
func (e *FastPath) handOver(c *fastConn, read []byte) {
	_ = c.conn.SetDeadline(time.Time{})
	var handed net.Conn
	if c.secured != nil {
		handed = e.connWatch.handSecured(c.secured, read)
	} else {
		handed = e.connWatch.hand(c.conn, read)
	}
	select {
	case e.handed <- handed:
	case <-e.closing:
		_ = handed.Close()
	}
}

// unreadConn returns the bytes that were already read before those of the connection.
type unreadConn struct {
	net.Conn
	unread []byte
}

func (c *unreadConn) Read(p []byte) (int, error) {
	if len(c.unread) == 0 {
		return c.Conn.Read(p)
	}
	n := copy(p, c.unread)
	if c.unread = c.unread[n:]; len(c.unread) == 0 {
		c.unread = nil
	}
	return n, nil
}

// ReadFrom lets the kernel move bytes between sockets.
func (c *unreadConn) ReadFrom(r io.Reader) (int64, error) { return io.Copy(c.Conn, r) }

// CloseWrite closes the write side only, if the connection supports that.
func (c *unreadConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return c.Close()
}

// drainFor is how long requests in progress may take when the proxy closes.
const drainFor = 10 * time.Second

// fastListeners are the listeners that use a proxy.
type fastListeners struct {
	mu  sync.Mutex
	all []*FastPath
}

func (l *fastListeners) add(e *FastPath) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, e)
}

// drain detaches the listeners that are still open from the proxy, and drains the others.
func (l *fastListeners) drain() {
	l.mu.Lock()
	all := l.all
	l.mu.Unlock()
	for _, e := range all {
		if e.isClosing() {
			e.Drain()
		} else {
			e.target.Store(nil)
		}
	}
}

// Drain waits for the requests of a closed listener to finish, and cuts off those that take
// too long.
func (e *FastPath) Drain() {
	e.drainConns()
	if t := e.target.Load(); t != nil {
		t.proxy.settle()
	}
}

func (e *FastPath) drainConns() {
	timer := time.NewTimer(drainFor)
	defer timer.Stop()
	select {
	case <-e.empty:
		return
	case <-timer.C:
	}
	e.mu.Lock()
	for c := range e.conns {
		c.cut()
	}
	e.mu.Unlock()
	<-e.empty
}

// Whether the fast path may serve a route.
const (
	fastUnknown = iota
	fastYes
	fastNo
)

// takes reports whether the fast path may serve requests for host that match m.
func (t *fastTarget) takes(m *Match, host string) bool {
	known := m.fastPath.Load()
	if known == fastUnknown {
		known = fastNo
		if m.plain() && !t.notApps(host) {
			known = fastYes
		}
		// For a wildcard route it depends on the host.
		if !strings.HasPrefix(m.Route.Host, "*") {
			m.fastPath.Store(known)
		}
	}
	return known == fastYes
}

// plain reports whether the route needs nothing that only the server supports.
func (m *Match) plain() bool {
	return m.Route.RouteServiceURL == "" && m.pool.http1 && len(m.pool.endpoints) > 0
}
