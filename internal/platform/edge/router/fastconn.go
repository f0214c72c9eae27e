package router

import (
	"bytes"
	"errors"
	"net"
	"os"
	"sync/atomic"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/platform/edge/router/http1"
)

const (
	// fastBuffer limits the head and body of a request on the fast path together.
	fastBuffer = 8 << 10

	// fastIdle is how long a connection may be idle between two requests. fastHead
	// limits the wait for the first request, and for the rest of a head. Both are
	// those of the server.
	fastIdle = 2 * time.Minute
	fastHead = 10 * time.Second
	// fastBody is the longest wait for a small body.
	fastBody = time.Second
)

// fastConn serves a client's connection until it is closed or handed over.
type fastConn struct {
	path    *FastPath
	socket  net.Conn // as accepted; conn is the same without TLS
	conn    net.Conn
	secured *securedConn // nil without TLS
	in      []byte       // in[:n] has been read but not answered
	served  bool         // a request was served before
	n       int
	out     []byte
	request http1.Request
	answer  http1.Answer
	x       exchange // the current one
	remote  string   // the client's address; ip is without the port
	ip      string
	judged  bool // trusts is known
	trusts  bool // see Options.Trusted

	deadline time.Time                   // read deadline, as set last
	waits    atomic.Int64                // since when it waits for a request, in Unix nanoseconds; 0: it does not
	backend  atomic.Pointer[backendConn] // the one in use, for cut
	severed  atomic.Bool
	evicted  atomic.Bool // closed because there were too many
	watch    watcher
}

func (c *fastConn) run() {
	defer c.path.leave(c)
	ended := false
	defer func() {
		if !ended { // a panic: the client must not wait for an answer
			c.cut()
		}
	}()
	if c.path.tls == nil || c.handshake() {
		c.serveAll()
	}
	ended = true
}

// serveAll serves one request after another.
func (c *fastConn) serveAll() {
	target := c.path.target.Load()
	if target == nil || c.secured != nil && !c.secured.http1(target.proxy) {
		c.path.handOver(c, nil)
		return
	}
	c.in = make([]byte, fastBuffer)
	c.remote = c.conn.RemoteAddr().String()
	c.ip = c.remote
	if ip, _, err := net.SplitHostPort(c.remote); err == nil {
		c.ip = ip
	}
	for {
		head, plain, err := c.readRequest()
		if err != nil {
			_ = c.conn.Close()
			return
		}
		var m *Match
		var x *exchange
		if plain {
			if target = c.path.target.Load(); target != nil {
				x, m = c.lookup(target, head)
			}
		}
		if m == nil || !c.readBody(head) {
			c.path.handOver(c, c.in[:c.n:c.n])
			return
		}
		if c.path.retired.Load() {
			c.request.Close = true
		}
		again := c.serve(target.proxy, x, head)
		if !again || c.path.isClosing() {
			c.lingeringClose()
			return
		}
		c.served = true
		used := head + c.request.Length
		c.n = copy(c.in, c.in[used:c.n])
	}
}

// lingeringClose closes the connection in a way that lets the client still read the
// response, even if it has sent more than was read.
func (c *fastConn) lingeringClose() {
	if half, ok := c.conn.(interface{ CloseWrite() error }); ok && !c.severed.Load() && half.CloseWrite() == nil {
		_ = c.conn.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
		for range 16 {
			if n, err := c.conn.Read(c.in); n == 0 || err != nil {
				break
			}
		}
	}
	_ = c.conn.Close()
}

// cut closes the connection immediately, with that to the backend.
func (c *fastConn) cut() {
	c.severed.Store(true)
	_ = c.socket.Close() // of TLS too, because a close alert would wait for the client
	if b := c.backend.Load(); b != nil {
		_ = b.Close()
	}
}

// readRequest reads a head and returns its length. If plain is false the
// connection must be handed over.
func (c *fastConn) readRequest() (head int, plain bool, err error) {
	timed := false
	for searched := 0; ; {
		if c.n > 0 {
			i := bytes.Index(c.in[searched:c.n], http1.HeadEnd)
			if i >= 0 {
				head = searched + i + len(http1.HeadEnd)
				return head, c.request.Parse(c.in[:head], c.trusted()), nil
			}
			if !http1.MayBecomePlain(c.in[:c.n]) || c.n == len(c.in) {
				return 0, false, nil
			}
			searched = max(0, c.n-len(http1.HeadEnd)+1)
		}
		now := time.Now()
		switch {
		case c.n == 0 && c.served:
			c.await(now, fastIdle)
		case c.n == 0:
			c.await(now, fastHead)
		case !timed:
			timed = true
			c.await(now, fastHead)
		}
		if c.n == 0 {
			c.waits.Store(now.UnixNano())
			if c.path.isClosing() || c.evicted.Load() {
				return 0, false, net.ErrClosed
			}
		}
		n, err := c.conn.Read(c.in[c.n:])
		c.waits.Store(0)
		if n > 0 && c.evicted.Load() {
			c.path.spare(c)
		}
		c.n += n
		if n == 0 && err != nil {
			return 0, false, err
		}
	}
}

// trusted reports whether the client is a trusted proxy. It is called when a request has
// arrived: the server knows its own connections by then.
func (c *fastConn) trusted() bool {
	if t := c.path.target.Load(); !c.judged && t != nil && t.proxy.options.Trusted != nil {
		c.judged, c.trusts = true, t.proxy.options.Trusted(addrPort(c.conn.RemoteAddr()))
	}
	return c.trusts
}

// await sets the read deadline to about d from now.
func (c *fastConn) await(now time.Time, d time.Duration) {
	if left := c.deadline.Sub(now); left <= d && left > d*3/4 {
		return
	}
	c.deadline = now.Add(d)
	_ = c.conn.SetReadDeadline(c.deadline)
}

// readBody waits briefly for the rest of a small body. It returns false if the
// body does not arrive or is not small.
func (c *fastConn) readBody(head int) bool {
	whole := head + c.request.Length
	if whole > len(c.in) {
		return false
	}
	for c.n < whole {
		c.await(time.Now(), fastBody)
		n, err := c.conn.Read(c.in[c.n:])
		c.n += n
		if n == 0 && err != nil {
			return false
		}
	}
	return true
}

// lookup finds the route, and begins the exchange if the fast path may serve it.
func (c *fastConn) lookup(t *fastTarget, head int) (*exchange, *Match) {
	q := &c.request
	text := string(c.in[:head])
	host, uri := q.Host.Of(text), q.Target.Of(text)
	m, ok := t.proxy.table.Serving(host, uri)
	if !ok || !t.takes(m, host) || q.ClientCert && t.proxy.options.ClientCerts != "" {
		return nil, nil
	}
	proto := "http"
	if c.secured != nil {
		if !c.secured.named(host) {
			return nil, nil
		}
		proto = "https"
	}
	x := &c.x
	*x = exchange{counters: &t.proxy.counters, match: m, pool: m.pool}
	x.access = Access{
		Host: host, Time: time.Now(), Method: q.Method.Of(text), URI: uri, Proto: "HTTP/1.1",
		Referer: q.Referer.Of(text), UserAgent: q.Agent.Of(text), RemoteAddr: c.remote,
		ForwardedFor: c.ip, ForwardedProto: proto, Route: m.Route.GUID, RequestBytes: int64(q.Length),
	}
	id := q.ID.Of(text)
	if !goodRequestID(id) {
		if id = q.OtherID.Of(text); !goodRequestID(id) {
			id = ""
		}
	}
	if q.Traced {
		x.access.trace = traceIn(q, text)
	}
	x.access.RequestID = x.access.trace.begin(id)
	x.access.trace.sample(t.proxy.options.Tracer)
	if len(q.ForwardedFor) > 0 {
		var b []byte
		for _, s := range q.ForwardedFor {
			b = append(append(b, s.Of(text)...), ", "...)
		}
		x.access.ForwardedFor = string(append(b, c.ip...))
	}
	switch given := c.in[q.ForwardedProto.From:q.ForwardedProto.To]; {
	case http1.EqualFold(given, "https"):
		x.access.ForwardedProto = "https"
	case http1.EqualFold(given, "http"):
		x.access.ForwardedProto = "http"
	}
	if len(q.Cookies) > 0 {
		cookies := make([]string, len(q.Cookies))
		for i, s := range q.Cookies {
			cookies[i] = s.Of(text)
		}
		x.sticky = stickyInstance(cookies)
	}
	if h := m.pool.hash; h != nil {
		x.hashed = h.keyIn(text)
	}
	x.repeatable = q.Length == 0 && idempotent(x.access.Method, q.Keyed)
	return x, m
}

// watcher notices when a client closes its connection during a slow response.
type watcher struct {
	done  chan struct{} // nil when not watching
	gone  atomic.Bool
	extra [1]byte // the byte the client sent meanwhile
	got   bool
	lost  bool // there was no room for it
}

// watchClient starts watching. When the client closes its connection, b is closed.
func (c *fastConn) watchClient(b *backendConn) {
	w := &c.watch
	w.done, w.got = make(chan struct{}), false
	_ = c.conn.SetReadDeadline(time.Time{})
	background.Go("router connection", func() {
		defer close(w.done)
		n, err := c.conn.Read(w.extra[:])
		w.got = n == 1
		if n == 0 && !errors.Is(err, os.ErrDeadlineExceeded) {
			w.gone.Store(true)
			_ = b.Close()
		}
	})
}

// unwatch stops watching, and keeps what the watcher has read. It returns false if
// the connection cannot be used any more.
func (c *fastConn) unwatch() bool {
	w := &c.watch
	if w.done == nil {
		return !w.gone.Load() && !w.lost
	}
	_ = c.conn.SetReadDeadline(time.Unix(1, 0))
	<-w.done
	w.done, c.deadline = nil, time.Time{}
	if w.got {
		if c.n == len(c.in) {
			w.lost = true
			return false
		}
		c.in[c.n] = w.extra[0]
		c.n++
	}
	return !w.gone.Load()
}
