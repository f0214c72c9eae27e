package connlimit

import (
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"ingot/internal/base/clock"
)

// Pauses after a failed accept, which usually means too many open files.
const (
	firstPause   = 5 * time.Millisecond
	longestPause = time.Second
	// logInterval limits how often a flood is logged.
	logInterval = 10 * time.Second
)

// Accept calls handle for every connection until the listener is closed. It
// continues after accept errors. handle must not block.
func Accept(l net.Listener, log *slog.Logger, handle func(net.Conn)) {
	pause := firstPause
	for {
		c, err := l.Accept()
		switch {
		case err == nil:
			pause = firstPause
			handle(c)
			continue
		case errors.Is(err, net.ErrClosed):
			return
		}
		log.Warn("accept failed, retrying", "address", l.Addr().String(), "error", err, "pause", pause.String())
		time.Sleep(pause)
		pause = min(2*pause, longestPause)
	}
}

// Listener limits the connections of a TCP listener. Connections over the
// limits are closed immediately.
type Listener struct {
	net.Listener
	limiter    *Limiter
	source     func(netip.Addr) (name string, limited bool)
	log        *slog.Logger
	lastLogged atomic.Int64 // when a rejected connection was last logged
}

// Listen wraps l. source returns the name under which the connections of an
// address are counted, or false if they are not limited; nil counts each
// address separately.
func Listen(l net.Listener, limits Limits, source func(netip.Addr) (string, bool), log *slog.Logger) *Listener {
	if source == nil {
		source = func(a netip.Addr) (string, bool) { return a.String(), true }
	}
	return &Listener{Listener: l, limiter: New(limits), source: source, log: log}
}

// Accept implements net.Listener.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		tcp, ok := TCP(c)
		name, limited := l.source(Address(c.RemoteAddr()))
		if !limited || !ok {
			return c, nil
		}
		slot := l.limiter.Take(name, func() { c.Close() })
		if slot != nil {
			counted := &countedConn{TCPConn: tcp, slot: slot}
			if c != net.Conn(tcp) {
				counted.named = c
			}
			return counted, nil
		}
		c.Close()
		if LogDue(&l.lastLogged) {
			l.log.Warn("connection rejected: too many from one source", "address", l.Addr().String(), "source", name)
		}
	}
}

// TCP returns the TCP connection that c is, or that carries what a proxy forwards.
func TCP(c net.Conn) (*net.TCPConn, bool) {
	if forwarded, ok := c.(interface{ TCP() *net.TCPConn }); ok {
		return forwarded.TCP(), true
	}
	tcp, ok := c.(*net.TCPConn)
	return tcp, ok
}

// LogDue reports whether a repeated message may be logged again, and if so,
// sets lastLogged to the current time.
func LogDue(lastLogged *atomic.Int64) bool {
	now, last := clock.Steady().UnixNano(), lastLogged.Load()
	return now-last > int64(logInterval) && lastLogged.CompareAndSwap(last, now)
}

// Address returns the IP address of a TCP or UDP peer; it is invalid for
// others.
func Address(a net.Addr) netip.Addr {
	switch a := a.(type) {
	case *net.TCPAddr:
		return a.AddrPort().Addr().Unmap()
	case *net.UDPAddr:
		return a.AddrPort().Addr().Unmap()
	}
	return netip.Addr{}
}

// countedConn is a connection that holds a slot until it is closed. It keeps
// the methods that TCP connections have beyond net.Conn.
type countedConn struct {
	*net.TCPConn
	slot  *Slot
	once  sync.Once
	named net.Conn // has the addresses, unless it is nil
}

func (c *countedConn) RemoteAddr() net.Addr {
	if c.named != nil {
		return c.named.RemoteAddr()
	}
	return c.TCPConn.RemoteAddr()
}

func (c *countedConn) LocalAddr() net.Addr {
	if c.named != nil {
		return c.named.LocalAddr()
	}
	return c.TCPConn.LocalAddr()
}

func (c *countedConn) Read(p []byte) (int, error) {
	n, err := c.TCPConn.Read(p)
	if n > 0 {
		c.slot.Touch()
	}
	return n, err
}

func (c *countedConn) Close() error {
	c.once.Do(c.slot.Release)
	return c.TCPConn.Close()
}
