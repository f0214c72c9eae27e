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
)

const (
	// briefly is how long a backend may be silent before we look whether the
	// client is still there.
	briefly = 250 * time.Millisecond
	// maxAnswerHead is that of the transport for other requests.
	maxAnswerHead = 1 << 20
)

// serve answers the request at the begin of the buffer, and tells whether the
// connection can have another.
func (l *lane) serve(p *Proxy, x *exchange, head int) (again bool) {
	defer p.finish(x)
	p.counters.express.Add(1)
	b, err := l.askSafely(p, x, head)
	if err != nil {
		return l.refuse(p, x, err)
	}
	again = l.relay(p, x, b)
	l.backend.Store(nil)
	return l.unwatch() && again && !l.request.close
}

// askSafely is ask, and makes an error of a panic: the client gets a 502.
func (l *lane) askSafely(p *Proxy, x *exchange, head int) (b *backendConn, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = background.Recovered("router request", cause)
			if used := l.backend.Swap(nil); used != nil {
				_ = used.Close()
			}
		}
	}()
	return l.ask(p, x, head)
}

// ask sends the request to one backend after another until one answers, whose
// head is then parsed, and in out.
func (l *lane) ask(p *Proxy, x *exchange, head int) (*backendConn, error) {
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
		b, err := l.attempt(p, x, head)
		if err == nil {
			e.state.restore()
			return b, nil
		}
		failure = err
		if l.watch.gone.Load() || l.severed.Load() || !x.mayRepeat(err) {
			break
		}
	}
	if failure == nil {
		failure = errors.New("no backend left to try")
	}
	return nil, failure
}

// attempt asks the chosen backend. A connection that turns out to have been
// closed while it was idle does not count.
func (l *lane) attempt(p *Proxy, x *exchange, head int) (*backendConn, error) {
	for {
		b, err := p.connect(x.endpoint, x.began, x.repeatable)
		if err != nil {
			return nil, err
		}
		l.backend.Store(b)
		if l.severed.Load() {
			_ = b.Close()
			return nil, net.ErrClosed
		}
		l.out = l.appendHead(l.out[:0], x)
		l.out = append(l.out, l.in[head:head+l.request.length]...)
		b.ask(l.out)
		if err = l.readAnswer(p, x, b); err == nil {
			return b, nil
		}
		silent := b.w == 0
		_ = b.Close()
		l.backend.Store(nil)
		if !l.unwatch() || !b.reused || !silent || !hungUp(err) || !x.repeatable {
			return nil, err
		}
	}
}

// appendHead writes the head that the backend gets.
func (l *lane) appendHead(out []byte, x *exchange) []byte {
	q, e, a := &l.request, x.endpoint, &x.access
	out = append(out, a.Method...)
	out = append(out, ' ')
	out = append(out, a.URI...)
	out = append(out, " HTTP/1.1\r\n"...)
	for _, s := range q.headers {
		out = append(out, l.in[s.from:s.to]...)
	}
	if q.length > 0 || a.Method == http.MethodPost || a.Method == http.MethodPut || a.Method == http.MethodPatch {
		out = appendLength(out, int64(q.length))
	}
	out = appendHeader(out, "X-Forwarded-For: ", a.ForwardedFor)
	out = appendHeader(out, "X-Forwarded-Proto: ", a.ForwardedProto)
	if !q.started {
		out = append(out, "X-Request-Start: "...)
		out = appendDecimal(out, a.Time.UnixMilli())
		out = append(out, "\r\n"...)
	}
	out = appendHeader(out, "X-Vcap-Request-Id: ", a.RequestID)
	out = x.access.trace.appendTo(out)
	out = appendHeader(out, "X-Cf-Applicationid: ", e.AppGUID)
	out = appendHeader(out, "X-Cf-Instanceid: ", e.InstanceGUID)
	out = append(out, "X-Cf-Instanceindex: "...)
	out = appendDecimal(out, int64(e.Index))
	return append(out, "\r\n\r\n"...)
}

func appendHeader(out []byte, name, value string) []byte {
	out = append(out, name...)
	out = append(out, value...)
	return append(out, "\r\n"...)
}

// fill reads more of the answer. When that takes long, the client is watched
// meanwhile; most is how long it may take altogether, 0 for ever.
func (l *lane) fill(b *backendConn, most time.Duration) error {
	if b.r == b.w && l.watch.done == nil {
		brief := briefly
		if most > 0 && most < brief {
			brief = most
		}
		b.await(time.Now(), brief)
		err := b.fill()
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return err
		}
		l.watchClient(b)
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

// readAnswer reads the head of the answer, and passes on those that come before
// it.
func (l *lane) readAnswer(p *Proxy, x *exchange, b *backendConn) error {
	for {
		end := answerEnd(b.buf[b.r:b.w])
		if end < 0 {
			if b.r > 0 {
				b.w, b.r = copy(b.buf, b.buf[b.r:b.w]), 0
			}
			if b.w == len(b.buf) {
				if b.w >= maxAnswerHead {
					return errGarbage
				}
				b.buf = append(b.buf, make([]byte, len(b.buf))...)
			}
			if b.w > 0 && !looksLikeAnswer(b.buf[:b.w]) {
				return errGarbage
			}
			if err := l.fill(b, p.options.ResponseHeaderTimeout); err != nil {
				return err
			}
			continue
		}
		var err error
		l.out, err = l.answer.parse(b.buf[b.r:b.r+end], l.out[:0])
		if err != nil {
			return err
		}
		b.r += end
		switch status := l.answer.status; {
		case status == http.StatusSwitchingProtocols:
			return errGarbage // nobody asked for it
		case status >= 200:
			l.finishHead(x)
			return nil
		case status != http.StatusContinue:
			if _, err := l.conn.Write(append(l.out, "\r\n"...)); err != nil {
				l.watch.gone.Store(true)
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

// finishHead completes the head that the client gets.
func (l *lane) finishHead(x *exchange) {
	a := &l.answer
	x.access.Status = a.status
	for _, cookie := range stickyCookies(a.cookies, x.sticky, x.endpoint.InstanceGUID, x.match.cookiePath) {
		l.out = appendHeader(l.out, "Set-Cookie: ", cookie)
	}
	l.out = appendHeader(l.out, "X-Vcap-Request-Id: ", x.access.RequestID)
	if l.bodiless(x) {
		a.chunked, a.length = false, 0
	}
	if !a.chunked && a.length < 0 {
		l.request.close = true // the end of the connection is the end of the body
	}
	if l.request.close {
		l.out = append(l.out, "Connection: close\r\n"...)
	}
	l.out = append(l.out, "\r\n"...)
}

// bodiless tells whether the answer ends with its head, whatever that says.
func (l *lane) bodiless(x *exchange) bool {
	s := l.answer.status
	return x.access.Method == http.MethodHead || s == http.StatusNoContent || s == http.StatusNotModified
}

// relay passes the answer on: the head in out, what was read of the body, and
// the rest as it comes. It returns false when the client's connection is spent.
func (l *lane) relay(p *Proxy, x *exchange, b *backendConn) bool {
	a := &l.answer
	var framing chunks
	var small []byte // the buffer of b, while it has a large one
	left := a.length
	defer func() {
		if small != nil {
			p.reverse.BufferPool.Put(b.buf)
		}
	}()
	for first := true; ; first = false {
		part, done, err := a.cut(b.buf[b.r:b.w], &left, &framing)
		b.r += len(part)
		if first {
			l.out = append(l.out, part...)
			part = l.out
		}
		if len(part) > 0 {
			if _, failed := l.conn.Write(part); failed != nil {
				_ = b.Close()
				return false
			}
		}
		if a.chunked {
			x.access.ResponseBytes = framing.data
		} else {
			x.access.ResponseBytes = a.length - left
		}
		if done && err == nil {
			clean := b.r == b.w
			if small != nil {
				p.reverse.BufferPool.Put(b.buf)
				b.buf, small = small, nil
			}
			l.release(p, x, b, clean)
			return true
		}
		if err == nil {
			if first && len(b.buf) < copyBuffer && (a.chunked || left > backendBuffer || left < 0) {
				small, b.buf = b.buf, p.reverse.BufferPool.Get()
				b.r, b.w = 0, 0
			}
			err = l.fill(b, 0)
		}
		if err != nil {
			_ = b.Close()
			// Without a length the end is the end; otherwise the client has to
			// notice that something is missing.
			return false
		}
	}
}

// cut returns what of the bytes belongs to the body, and whether that is its
// end.
func (a *plainAnswer) cut(have []byte, left *int64, framing *chunks) (part []byte, done bool, err error) {
	switch {
	case a.chunked:
		n, err := framing.follow(have)
		return have[:n], framing.state == chunksDone, err
	case a.length < 0:
		*left -= int64(len(have)) // below -1: counts what came
		return have, false, nil
	default:
		n := min(*left, int64(len(have)))
		*left -= n
		return have[:n], *left == 0, nil
	}
}

// release keeps the backend's connection, if it is fit for more. The watcher
// ends before: it would close what is another's by then.
func (l *lane) release(p *Proxy, x *exchange, b *backendConn, clean bool) {
	l.backend.Store(nil)
	if !l.unwatch() || l.answer.close || !clean {
		_ = b.Close()
		return
	}
	if len(b.buf) > backendBuffer {
		b.buf = make([]byte, backendBuffer)
	}
	b.r, b.w, b.doubtful = 0, 0, l.bodiless(x)
	p.release(x.endpoint, b, time.Now())
}

// refuse answers in the router's name, when no backend did.
func (l *lane) refuse(p *Proxy, x *exchange, err error) (again bool) {
	l.backend.Store(nil)
	if l.watch.gone.Load() || l.severed.Load() {
		x.access.Status = statusClientGone
		return false
	}
	p.options.Log.Info("no backend answered", "route", x.access.Route, "host", x.access.Host, "attempts", x.access.Attempts, "error", err)
	x.access.Status, x.access.RouterError = http.StatusBadGateway, errEndpointFailure
	body := fmt.Sprintf("%d %s: %s\n", http.StatusBadGateway, http.StatusText(http.StatusBadGateway), messageEndpointFailure)
	if x.access.Method != http.MethodHead {
		x.access.ResponseBytes = int64(len(body))
	}
	out := l.out[:0]
	out = append(out, "HTTP/1.1 502 Bad Gateway\r\nCache-Control: no-cache, no-store\r\nContent-Type: text/plain; charset=utf-8\r\nX-Content-Type-Options: nosniff\r\n"...)
	out = appendHeader(out, "X-Cf-Routererror: ", errEndpointFailure)
	out = appendHeader(out, "X-Vcap-Request-Id: ", x.access.RequestID)
	out = appendHeader(out, "Content-Length: ", strconv.Itoa(len(body)))
	out = appendHeader(out, "Date: ", time.Now().UTC().Format(http.TimeFormat))
	if l.request.close {
		out = append(out, "Connection: close\r\n"...)
	}
	out = append(out, "\r\n"...)
	if x.access.Method != http.MethodHead {
		out = append(out, body...)
	}
	l.out = out
	_, failed := l.conn.Write(out)
	return failed == nil && !l.request.close
}
