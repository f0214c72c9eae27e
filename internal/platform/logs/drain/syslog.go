package drain

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/base/safedial"
)

const (
	dialTimeout  = 10 * time.Second
	writeTimeout = 30 * time.Second
)

// syslogConn is a connection to a syslog server.
type syslogConn struct {
	conn    net.Conn // written to, TLS or not
	raw     *countingConn
	settle  time.Duration
	buf     []byte
	marks   []mark // sent but not known to be received, oldest first
	done    uint64 // number of the last line that was received
	ended   chan struct{}
	failure error // why it ended
}

// mark is a position in the connection: lines up to a number had been written.
type mark struct {
	number uint64
	bytes  int64
	at     time.Time
}

// countingConn counts the bytes written to the network, below TLS.
type countingConn struct {
	*net.TCPConn
	written atomic.Int64
}

func (c *countingConn) Write(b []byte) (int, error) {
	n, err := c.TCPConn.Write(b)
	c.written.Add(int64(n))
	return n, err
}

func newDialer(g safedial.Guard) *net.Dialer {
	return &net.Dialer{
		Timeout: dialTimeout, Control: g.Control,
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 4},
	}
}

func dialSyslog(ctx context.Context, t *target, g safedial.Guard, settle time.Duration) (sender, error) {
	c, err := newDialer(g).DialContext(ctx, "tcp", t.address)
	if err != nil {
		return nil, err
	}
	raw, ok := c.(*net.TCPConn)
	if !ok {
		c.Close()
		return nil, fmt.Errorf("not a TCP connection: %T", c)
	}
	s := &syslogConn{raw: &countingConn{TCPConn: raw}, settle: settle, ended: make(chan struct{})}
	s.conn = s.raw
	if t.tls != nil {
		secure := tls.Client(s.raw, t.tls)
		shaking, cancel := context.WithTimeout(ctx, dialTimeout)
		defer cancel()
		if err := secure.HandshakeContext(shaking); err != nil {
			c.Close()
			return nil, err
		}
		s.conn = secure
	}
	// A syslog server sends nothing: a read returns only at the end.
	background.Go("log drain", func() {
		defer close(s.ended)
		s.failure = errGone
		if _, err := io.Copy(io.Discard, s.conn); err != nil {
			s.failure = err
		}
	})
	return s, nil
}

func (s *syslogConn) send(ctx context.Context, messages []message) error {
	s.buf = s.buf[:0]
	for _, p := range messages {
		s.buf = appendCounted(s.buf, p.text)
	}
	if err := s.conn.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return err
	}
	// What is being sent may arrive, so that it need not be sent again.
	stop := background.OnDone(ctx, "log drain", func() { _ = s.conn.SetWriteDeadline(time.Now().Add(finishFor)) })
	defer stop()
	if _, err := s.conn.Write(s.buf); err != nil {
		return err
	}
	s.marks = append(s.marks, mark{messages[len(messages)-1].number, s.raw.written.Load(), time.Now()})
	return nil
}

func (s *syslogConn) taken(now time.Time) uint64 {
	select {
	case <-s.ended: // unacknowledged lines may never have been read
		return s.done
	default:
	}
	unread, alive := unacknowledged(s.raw.TCPConn)
	if !alive {
		return s.done
	}
	acknowledged := s.raw.written.Load() - unread
	n := 0
	for ; n < len(s.marks); n++ {
		if m := s.marks[n]; now.Sub(m.at) < s.settle || m.bytes > acknowledged {
			break
		}
		s.done = s.marks[n].number
	}
	s.marks = append(s.marks[:0], s.marks[n:]...)
	return s.done
}

// finish closes the connection for writing once everything sent is acknowledged. A receiver
// that then closes it too, without a reset, has read everything.
func (s *syslogConn) finish(patience time.Duration) uint64 {
	late := time.NewTimer(patience)
	defer late.Stop()
	tick := time.NewTicker(finishPoll)
	defer tick.Stop()
	done := s.taken(time.Now())
	if len(s.marks) == 0 {
		return done
	}
	for {
		unread, alive := unacknowledged(s.raw.TCPConn)
		if !alive {
			return done
		}
		if unread == 0 {
			break
		}
		select {
		case <-s.ended:
			return done
		case <-late.C:
			return done
		case <-tick.C:
		}
	}
	if secure, ok := s.conn.(*tls.Conn); ok {
		_ = secure.SetWriteDeadline(time.Now().Add(patience)) // else CloseWrite fails
		if secure.CloseWrite() != nil {
			return done
		}
	}
	if s.raw.CloseWrite() != nil {
		return done
	}
	select {
	case <-s.ended:
		if s.failure == errGone { //nolint:errorlint // not wrapped: the end of the stream
			s.done, s.marks = s.marks[len(s.marks)-1].number, nil
		}
	case <-late.C:
	}
	return s.done
}

// finishPoll is how often it is checked whether everything is acknowledged.
const finishPoll = 5 * time.Millisecond

func (s *syslogConn) broken() <-chan struct{} { return s.ended }

func (s *syslogConn) reason() error {
	select {
	case <-s.ended:
		if errors.Is(s.failure, net.ErrClosed) {
			return nil
		}
		return s.failure
	default:
		return nil
	}
}

func (s *syslogConn) close() {
	s.conn.Close()
	<-s.ended
}
