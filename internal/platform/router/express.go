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
)

// Express is a listener in front of an HTTP server that serves plain requests to
// apps itself, and hands every other connection to the server, with nothing of
// it consumed:
//
//	client ──▶ Express ──plain request, HTTP/1.1 backend──▶ instance
//	              └────anything else────▶ http.Server ──▶ Proxy or API
//
// Plain is what it can read without a doubt: HTTP/1.1, a host with a route, a
// body that is small or absent. Whatever is odd or clever is not judged here. A
// connection that was handed over stays with the server.
//
// Until Use is called everything is handed over.
type Express struct {
	inner   net.Listener
	target  atomic.Pointer[expressTarget]
	handed  chan net.Conn
	begin   sync.Once
	closing chan struct{}
	failed  error // why accepting ended, once ended is closed
	ended   chan struct{}

	mu     sync.Mutex
	lanes  map[*lane]struct{}
	closed bool
	empty  chan struct{} // closed when the last lane ends after Close

	stalls stalls
}

type expressTarget struct {
	proxy   *Proxy
	notApps func(host string) bool
}

var _ net.Listener = (*Express)(nil)

// NewExpress puts express lanes before l.
func NewExpress(l net.Listener) *Express {
	return &Express{
		inner: l, handed: make(chan net.Conn), closing: make(chan struct{}), ended: make(chan struct{}),
		lanes: map[*lane]struct{}{}, empty: make(chan struct{}),
	}
}

// Use has requests served by p from now on. notApps, if not nil, tells the hosts
// that are not for apps even where a route says so.
func (e *Express) Use(p *Proxy, notApps func(host string) bool) {
	if notApps == nil {
		notApps = func(string) bool { return false }
	}
	if before := e.target.Load(); before == nil || before.proxy != p {
		p.lanes.add(e)
	}
	e.target.Store(&expressTarget{p, notApps})
}

// Addr implements net.Listener.
func (e *Express) Addr() net.Addr { return e.inner.Addr() }

// Accept returns the next connection that is for the server.
func (e *Express) Accept() (net.Conn, error) {
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
		return nil, e.failed
	}
}

func (e *Express) accept() {
	pause := 5 * time.Millisecond
	for {
		conn, err := e.inner.Accept()
		var timeout net.Error
		switch {
		case err == nil:
			pause = 5 * time.Millisecond
			l := &lane{express: e, conn: conn}
			if e.enter(l) {
				background.Go("router connection", l.run)
			} else {
				_ = conn.Close()
			}
		case errors.As(err, &timeout) && !errors.Is(err, net.ErrClosed):
			// Out of files or the like: connections that end make room.
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

// Close stops to accept. Lanes that wait for a request end now, those that serve
// one after it; Proxy.Close waits for them.
func (e *Express) Close() error {
	e.mu.Lock()
	if !e.closed {
		e.closed = true
		close(e.closing)
		for l := range e.lanes {
			if l.waits.Load() {
				_ = l.conn.SetReadDeadline(time.Unix(1, 0))
			}
		}
		if len(e.lanes) == 0 {
			close(e.empty)
		}
	}
	e.mu.Unlock()
	err := e.inner.Close()
	// Nobody will accept any more: the goroutine ends by itself, if it began.
	e.begin.Do(func() {
		e.failed = net.ErrClosed
		close(e.ended)
	})
	return err
}

func (e *Express) isClosing() bool {
	select {
	case <-e.closing:
		return true
	default:
		return false
	}
}

func (e *Express) enter(l *lane) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return false
	}
	e.lanes[l] = struct{}{}
	return true
}

func (e *Express) leave(l *lane) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.lanes, l)
	if e.closed && len(e.lanes) == 0 {
		close(e.empty)
	}
}

// handOver gives the connection to the server, with what was read of it.
func (e *Express) handOver(conn net.Conn, read []byte) {
	_ = conn.SetDeadline(time.Time{})
	handed := e.stalls.hand(conn, read)
	select {
	case e.handed <- handed:
	case <-e.closing:
		_ = handed.Close()
	}
}

// unreadConn gives what was read already before the rest.
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

// ReadFrom lets the system move bytes between sockets.
func (c *unreadConn) ReadFrom(r io.Reader) (int64, error) { return io.Copy(c.Conn, r) }

// CloseWrite ends our direction only, where the connection can.
func (c *unreadConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return c.Close()
}

// drainFor is how long requests under way may take when the proxy closes.
const drainFor = 10 * time.Second

// lanes are the listeners whose lanes use a proxy.
type lanes struct {
	mu  sync.Mutex
	all []*Express
}

func (l *lanes) add(e *Express) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, e)
}

// drain has listeners that are still open go on without the proxy, and waits
// for the lanes of the others.
func (l *lanes) drain() {
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

// Drain waits for the lanes of a listener that was closed, and ends those that
// take too long.
func (e *Express) Drain() {
	e.drainLanes()
	if t := e.target.Load(); t != nil {
		t.proxy.settle()
	}
}

func (e *Express) drainLanes() {
	timer := time.NewTimer(drainFor)
	defer timer.Stop()
	select {
	case <-e.empty:
		return
	case <-timer.C:
	}
	e.mu.Lock()
	for l := range e.lanes {
		l.cut()
	}
	e.mu.Unlock()
	<-e.empty
}

// The answers to whether a route may be served by an express lane.
const (
	expressUnknown = iota
	expressYes
	expressNo
)

// takes tells whether requests of host to m can go by an express lane.
func (t *expressTarget) takes(m *Match, host string) bool {
	known := m.express.Load()
	if known == expressUnknown {
		known = expressNo
		if m.plain() && !t.notApps(host) {
			known = expressYes
		}
		// Of a wildcard it depends on the host.
		if !strings.HasPrefix(m.Route.Host, "*") {
			m.express.Store(known)
		}
	}
	return known == expressYes
}

// plain tells whether the route asks for nothing that only the server does.
func (m *Match) plain() bool {
	return m.Route.RouteServiceURL == "" && m.pool.http1 && len(m.pool.endpoints) > 0
}
