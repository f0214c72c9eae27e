package router

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/platform/edge/router/http1"
)

const (
	// briefly is how long a backend may be silent before the client's connection is
	// checked.
	briefly = 250 * time.Millisecond
	// maxAnswerHead is the same limit that the transport has.
	maxAnswerHead = 1 << 20
)

// serve serves the request at the start of the buffer, and reports whether the connection
// can serve another.
func (c *fastConn) serve(p *Proxy, x *exchange, head int) (again bool) {
	defer p.finish(x)
	p.counters.fastPath.Add(1)
	b, err := c.askSafely(p, x, head)
	if err != nil {
		return c.refuse(p, x, err)
	}
	again = c.relay(p, x, b)
	c.backend.Store(nil)
	return c.unwatch() && again && !c.request.Close
}

// askSafely is ask, with panics turned into errors: the client gets a 502.
func (c *fastConn) askSafely(p *Proxy, x *exchange, head int) (b *backendConn, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = background.Recovered("router request", cause)
			if used := c.backend.Swap(nil); used != nil {
				_ = used.Close()
			}
		}
	}()
	return c.ask(p, x, head)
}

// ask sends the request to one backend after another until one answers. It leaves the
// parsed response head in answer and out.
func (c *fastConn) ask(p *Proxy, x *exchange, head int) (*backendConn, error) {
	var room [8]*endpoint
	tried := room[:0]
	var failure error
	for looks := 0; len(tried) < p.options.Attempts; {
		now := time.Now()
		e := x.pool.next(tried, now, x.sticky, x.hashed)
		if e == nil && looks < maxLooks && x.lookAgain(p.table, x.access.URI) {
			looks, tried = looks+1, tried[:0]
			continue
		}
		if e == nil {
			break
		}
		tried = append(tried, e)
		x.choose(e, now)
		b, err := c.attempt(p, x, head)
		if err == nil {
			e.state.restore()
			return b, nil
		}
		failure = err
		if c.watch.gone.Load() || c.severed.Load() || !x.mayRepeat(err) {
			break
		}
	}
	if failure == nil {
		failure = errors.New("no backend left to try")
	}
	return nil, failure
}

// attempt sends the request to the chosen backend. A connection that turns out to have been
// closed while idle does not count as an attempt.
func (c *fastConn) attempt(p *Proxy, x *exchange, head int) (*backendConn, error) {
	for {
		b, err := p.connect(x.endpoint, x.began, x.repeatable)
		if err != nil {
			return nil, err
		}
		c.backend.Store(b)
		if c.severed.Load() {
			_ = b.Close()
			return nil, net.ErrClosed
		}
		c.out = c.appendHead(c.out[:0], x)
		c.out = append(c.out, c.in[head:head+c.request.Length]...)
		b.ask(c.out)
		if err = c.readAnswer(p, x, b); err == nil {
			return b, nil
		}
		silent := b.w == 0
		_ = b.Close()
		c.backend.Store(nil)
		if !c.unwatch() || !b.reused || !silent || !hungUp(err) || !x.repeatable {
			return nil, err
		}
	}
}

// appendHead writes the head for the backend.
func (c *fastConn) appendHead(out []byte, x *exchange) []byte {
	q, e, a := &c.request, x.endpoint, &x.access
	out = append(out, a.Method...)
	out = append(out, ' ')
	out = append(out, a.URI...)
	out = append(out, " HTTP/1.1\r\n"...)
	for _, s := range q.Headers {
		out = append(out, c.in[s.From:s.To]...)
	}
	if q.Length > 0 || a.Method == http.MethodPost || a.Method == http.MethodPut || a.Method == http.MethodPatch {
		out = http1.AppendLength(out, int64(q.Length))
	}
	out = appendHeader(out, "X-Forwarded-For: ", a.ForwardedFor)
	out = appendHeader(out, "X-Forwarded-Proto: ", a.ForwardedProto)
	if !q.Started {
		out = append(out, "X-Request-Start: "...)
		out = strconv.AppendInt(out, a.Time.UnixMilli(), 10)
		out = append(out, "\r\n"...)
	}
	out = appendHeader(out, "X-Vcap-Request-Id: ", a.RequestID)
	out = x.access.trace.appendTo(out)
	out = appendHeader(out, "X-Cf-Applicationid: ", e.AppGUID)
	out = appendHeader(out, "X-Cf-Instanceid: ", e.InstanceGUID)
	out = append(out, "X-Cf-Instanceindex: "...)
	out = strconv.AppendInt(out, int64(e.Index), 10)
	return append(out, "\r\n\r\n"...)
}

func appendHeader(out []byte, name, value string) []byte {
	out = append(out, name...)
	out = append(out, value...)
	return append(out, "\r\n"...)
}

// fill reads more of the response. If that takes long, the client is watched meanwhile.
// most is the longest time it may take; 0 means no limit.
func (c *fastConn) fill(b *backendConn, most time.Duration) error {
	if b.r == b.w && c.watch.done == nil {
		brief := briefly
		if most > 0 && most < brief {
			brief = most
		}
		b.await(time.Now(), brief)
		err := b.fill()
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return err
		}
		c.watchClient(b)
		if most > 0 {
			if most -= brief; most <= 0 {
				return err
			}
		}
	}
	b.deadline = time.Time{}
	if most > 0 {
		b.deadline = time.Now().Add(most)
	}
	_ = b.SetReadDeadline(b.deadline)
	return b.fill()
}

// readAnswer reads the head of the response, and passes on informational responses before
// it.
func (c *fastConn) readAnswer(p *Proxy, x *exchange, b *backendConn) error {
	for {
		end := http1.AnswerEnd(b.buf[b.r:b.w])
		if end < 0 {
			if b.r > 0 {
				b.w, b.r = copy(b.buf, b.buf[b.r:b.w]), 0
			}
			if b.w == len(b.buf) {
				if b.w >= maxAnswerHead {
					return http1.ErrGarbage
				}
				b.buf = append(b.buf, make([]byte, len(b.buf))...)
			}
			if b.w > 0 && !looksLikeAnswer(b.buf[:b.w]) {
				return http1.ErrGarbage
			}
			if err := c.fill(b, p.options.ResponseHeaderTimeout); err != nil {
				return err
			}
			continue
		}
		var err error
		c.out, err = c.answer.Parse(b.buf[b.r:b.r+end], c.out[:0])
		if err != nil {
			return err
		}
		b.r += end
		switch status := c.answer.Status; {
		case status == http.StatusSwitchingProtocols:
			return http1.ErrGarbage // not requested
		case status >= 200:
			c.finishHead(x)
			return nil
		case status != http.StatusContinue:
			if _, err := c.conn.Write(append(c.out, "\r\n"...)); err != nil {
				c.watch.gone.Store(true)
				return net.ErrClosed
			}
			x.repeatable = false
		}
	}
}

func looksLikeAnswer(b []byte) bool {
	const begin = "HTTP/1."
	n := min(len(b), len(begin))
	return string(b[:n]) == begin[:n]
}

// finishHead completes the head for the client.
func (c *fastConn) finishHead(x *exchange) {
	a := &c.answer
	x.access.Status = a.Status
	for _, cookie := range stickyCookies(a.Cookies, x.sticky, x.endpoint.InstanceGUID, x.match.cookiePath) {
		c.out = appendHeader(c.out, "Set-Cookie: ", cookie)
	}
	c.out = appendHeader(c.out, "X-Vcap-Request-Id: ", x.access.RequestID)
	if c.secured != nil && c.path.tls.HSTS != "" && !a.HSTS {
		c.out = appendHeader(c.out, headerHSTS+": ", c.path.tls.HSTS)
	}
	if c.bodiless(x) {
		a.Chunked, a.Length = false, 0
	}
	if !a.Chunked && a.Length < 0 {
		c.request.Close = true // closing the connection marks the end of the body
	}
	if c.request.Close {
		c.out = append(c.out, "Connection: close\r\n"...)
	}
	c.out = append(c.out, "\r\n"...)
}

// bodiless reports whether the response has no body, whatever its head claims.
func (c *fastConn) bodiless(x *exchange) bool {
	s := c.answer.Status
	return x.access.Method == http.MethodHead || s == http.StatusNoContent || s == http.StatusNotModified
}

// relay passes the response on: the head in out, the part of the body read so far, and the
// rest as it arrives. It returns false if the client's connection cannot be used any more.
func (c *fastConn) relay(p *Proxy, x *exchange, b *backendConn) bool {
	a := &c.answer
	var framing http1.Chunks
	var small []byte // b's own buffer, while b uses a large one
	left := a.Length
	defer func() {
		if small != nil {
			p.reverse.BufferPool.Put(b.buf)
		}
	}()
	for first := true; ; first = false {
		part, used, done, err := a.Cut(b.buf[b.r:b.w], &left, &framing)
		b.r += used
		if first {
			c.out = append(c.out, part...)
			part = c.out
		}
		if len(part) > 0 {
			if _, failed := c.conn.Write(part); failed != nil {
				_ = b.Close()
				return false
			}
		}
		if a.Chunked {
			x.access.ResponseBytes = framing.Data
		} else {
			x.access.ResponseBytes = a.Length - left
		}
		if done && err == nil {
			clean := b.r == b.w
			if small != nil {
				p.reverse.BufferPool.Put(b.buf)
				b.buf, small = small, nil
			}
			c.release(p, x, b, clean)
			return true
		}
		if err == nil {
			if first && len(b.buf) < copyBuffer && (a.Chunked || left > backendBuffer || left < 0) {
				small, b.buf = b.buf, p.reverse.BufferPool.Get()
				b.r, b.w = 0, 0
			}
			err = c.fill(b, 0)
		}
		if err != nil {
			_ = b.Close()
			// Without a length, closing marks the end; otherwise the client must notice
			// that the body is incomplete.
			return false
		}
	}
}

// release keeps the backend's connection if it can be reused. The watcher stops first:
// otherwise it could close a connection that already serves another client.
func (c *fastConn) release(p *Proxy, x *exchange, b *backendConn, clean bool) {
	c.backend.Store(nil)
	if !c.unwatch() || c.answer.Close || !clean {
		_ = b.Close()
		return
	}
	if len(b.buf) > backendBuffer {
		b.buf = make([]byte, backendBuffer)
	}
	b.r, b.w, b.doubtful = 0, 0, c.bodiless(x)
	p.release(x.endpoint, b, time.Now())
}

// refuse answers with an error of the router when no backend answered.
func (c *fastConn) refuse(p *Proxy, x *exchange, err error) (again bool) {
	c.backend.Store(nil)
	if c.watch.gone.Load() || c.severed.Load() {
		x.access.Status = statusClientGone
		return false
	}
	p.options.Log.Info("no backend answered the request", "route", x.access.Route, "host", x.access.Host, "attempts",
		x.access.Attempts, "error", err)
	x.access.Status, x.access.RouterError = http.StatusBadGateway, errEndpointFailure
	body := fmt.Sprintf("%d %s: %s\n", http.StatusBadGateway, http.StatusText(http.StatusBadGateway),
		messageEndpointFailure)
	p.refused(x, err)
	if x.access.Method != http.MethodHead {
		x.access.ResponseBytes = int64(len(body))
	}
	out := c.out[:0]
	out = append(out, "HTTP/1.1 502 Bad Gateway\r\nCache-Control: no-cache, no-store\r\nContent-Type: text/plain; "+
		"charset=utf-8\r\nX-Content-Type-Options: nosniff\r\n"...)
	out = appendHeader(out, "X-Cf-Routererror: ", errEndpointFailure)
	out = appendHeader(out, "X-Vcap-Request-Id: ", x.access.RequestID)
	out = appendHeader(out, "Content-Length: ", strconv.Itoa(len(body)))
	if c.secured != nil && c.path.tls.HSTS != "" {
		out = appendHeader(out, headerHSTS+": ", c.path.tls.HSTS)
	}
	out = appendHeader(out, "Date: ", time.Now().UTC().Format(http.TimeFormat))
	if c.request.Close {
		out = append(out, "Connection: close\r\n"...)
	}
	out = append(out, "\r\n"...)
	if x.access.Method != http.MethodHead {
		out = append(out, body...)
	}
	c.out = out
	_, failed := c.conn.Write(out)
	return failed == nil && !c.request.Close
}
