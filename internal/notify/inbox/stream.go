package inbox

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"
	"time"

	"ingot/internal/notify"
)

// stream is an open response with events.
type stream struct {
	of      notify.Owner
	expires time.Time

	mu sync.Mutex
	// last is the number of the last change that the client has; -1 means that it needs none.
	last int64
	// begun reports that the head of the response was sent, ready that the first event was.
	begun, ready bool
	wrote        int64
	closed       bool
	to           sink
}

// sink is the connection of a stream.
type sink interface {
	write(b []byte) error
	// gone reports whether the client has certainly gone away.
	gone() bool
	close()
}

func (s *stream) position() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last < 0 {
		return 1<<63 - 1
	}
	return s.last
}

// Events of a stream.
const (
	// eventReady begins a stream whose client has everything, or has not asked for earlier changes.
	eventReady = "ready"
	// eventReset tells the client to load its list again.
	eventReset = "reset"
	// eventNotification has a new or changed notification.
	eventNotification = "notification"
)

// events writes what the client does not have yet. It reports whether the stream is still usable.
func (s *stream) events(state notify.InboxState, changes []notify.Notification,
	encode func(notify.Notification, int) []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.begun {
		return true // there is another call when it has
	}
	var b bytes.Buffer
	count := fmt.Appendf(nil, `{"unread_count":%d}`, state.Unread)
	switch {
	case s.last < 0:
	case s.last > state.Change, s.last < state.Reset, pending(changes, s.last) > changesAtOnce:
		event(&b, eventReset, state.Change, count)
		s.ready = true
	default:
		for _, n := range changes {
			if n.Change > s.last {
				event(&b, eventNotification, n.Change, encode(n, state.Unread))
			}
		}
	}
	if !s.ready {
		event(&b, eventReady, state.Change, count)
		s.ready = true
	}
	s.last = max(state.Change, 0)
	return s.writeLocked(b.Bytes())
}

func pending(changes []notify.Notification, after int64) (n int) {
	for i := range changes {
		if changes[i].Change > after {
			n++
		}
	}
	return n
}

// event writes one event. Data is JSON and so has no line breaks.
func event(b *bytes.Buffer, name string, id int64, data []byte) {
	b.WriteString("event: " + name + "\nid: " + strconv.FormatInt(id, 10) + "\ndata: ")
	b.Write(data)
	b.WriteString("\n\n")
}

func (s *stream) due(now time.Time, beat time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !now.Before(s.expires) || now.UnixNano()-s.wrote >= int64(beat)
}

// beat writes a comment.
func (s *stream) beat() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.writeLocked([]byte(":\n\n"))
}

func (s *stream) writeLocked(b []byte) bool {
	if s.closed {
		return false
	}
	if len(b) == 0 || !s.begun {
		return true
	}
	s.wrote = time.Now().UnixNano()
	return s.to.write(b) == nil
}

func (s *stream) gone() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed || s.to.gone()
}

func (s *stream) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.closed = true
		s.to.close()
	}
}

// Serve answers a request with the events of an inbox, until the client goes away, the token expires or closing is
// done. last is what the client sent as Last-Event-ID, -1 if it sent none. On HTTP/1.1 it returns when the head was
// sent.
func (h *Hub) Serve(w http.ResponseWriter, r *http.Request, of notify.Owner, expires time.Time, last int64,
	closing <-chan struct{}) error {
	s := &stream{of: of, expires: expires, last: last, wrote: time.Now().UnixNano()}
	s.to = &responseSink{done: make(chan struct{})}
	if err := h.add(s); err != nil {
		return err
	}
	header := w.Header()
	header.Set("Content-Type", "text/event-stream; charset=utf-8")
	header.Set("Cache-Control", "no-store")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("X-Accel-Buffering", "no")                // nginx in front would hold events back
	if r.ProtoMajor == 1 && r.Method == http.MethodGet { // HEAD ends by itself
		conn, buffered, err := http.NewResponseController(w).Hijack()
		if err == nil {
			header.Set("Connection", "close")
			h.hijacked(s, conn, buffered.Reader.Buffered() > 0, header)
			return nil
		}
		if !errors.Is(err, http.ErrNotSupported) {
			h.remove(s)
			return fmt.Errorf("take the connection of a stream: %w", err)
		}
	}
	return h.waiting(s, w, r, closing)
}

// hijacked uses the connection itself.
func (h *Hub) hijacked(s *stream, conn net.Conn, more bool, header http.Header) {
	var head bytes.Buffer
	head.WriteString("HTTP/1.1 200 OK\r\n")
	_ = header.Write(&head)
	head.WriteString("\r\n")
	to := &connSink{conn: conn}
	// A pipelined request would never be answered.
	if more || to.write(head.Bytes()) != nil {
		_ = conn.Close()
		h.remove(s)
		return
	}
	s.mu.Lock()
	closed := s.closed
	s.to, s.begun = to, true
	s.mu.Unlock()
	if closed { // the hub was stopped meanwhile
		_ = conn.Close()
		return
	}
	h.changed(s.of)
}

// connSink is a connection that was taken from net/http. It keeps nothing else of the request.
type connSink struct{ conn net.Conn }

func (c *connSink) write(b []byte) error {
	if err := c.conn.SetWriteDeadline(time.Now().Add(writeTime)); err != nil {
		return err
	}
	_, err := c.conn.Write(b)
	return err
}

func (c *connSink) gone() bool {
	if c.conn.SetReadDeadline(time.Now().Add(time.Millisecond)) != nil {
		return true
	}
	var b [1]byte
	_, err := c.conn.Read(b[:])
	return err != nil && !errors.Is(err, os.ErrDeadlineExceeded)
}

func (c *connSink) close() { _ = c.conn.Close() }

// waiting keeps the handler, for HTTP/2, where streams share a connection.
func (h *Hub) waiting(s *stream, w http.ResponseWriter, r *http.Request, closing <-chan struct{}) error {
	defer h.remove(s)
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Time{})
	w.WriteHeader(http.StatusOK)
	s.mu.Lock()
	to, _ := s.to.(*responseSink)
	to.w, to.control, s.begun = w, control, true
	s.mu.Unlock()
	h.changed(s.of)
	select {
	case <-r.Context().Done():
	case <-closing:
	case <-to.done:
	}
	return nil
}

// responseSink is a response of net/http, or one that has not begun.
type responseSink struct {
	w       http.ResponseWriter
	control *http.ResponseController
	done    chan struct{}
}

func (c *responseSink) write(b []byte) error {
	_ = c.control.SetWriteDeadline(time.Now().Add(writeTime))
	if _, err := c.w.Write(b); err != nil {
		return err
	}
	return c.control.Flush()
}

func (c *responseSink) gone() bool { return false }
func (c *responseSink) close()     { close(c.done) }
