package connlimit

import (
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// The pauses when a connection cannot be accepted: usually because there are too
// many open files.
const (
	firstPause   = 5 * time.Millisecond
	longestPause = time.Second
	// toldEvery bounds what a flood writes to the log.
	toldEvery = 10 * time.Second
)

// Accept calls handle for every connection until the listener is closed. Errors
// of accepting never end it. handle must not block.
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
		log.Warn("a connection could not be accepted; it is tried again", "address", l.Addr().String(), "error", err, "pause", pause.String())
		time.Sleep(pause)
		pause = min(2*pause, longestPause)
	}
}

// Listener limits the connections of a TCP listener. Those beyond the limits are
// closed at once.
type Listener struct {
	net.Listener
	limiter *Limiter
	source  func(netip.Addr) (name string, limited bool)
	log     *slog.Logger
	told    atomic.Int64 // when a refusal was last logged
}

// Listen wraps l. source names where a connection comes from, or says that its
// sources are not limited; nil means each address by itself.
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
		tcp, ok := c.(*net.TCPConn)
		name, limited := l.source(Address(c.RemoteAddr()))
		if !limited || !ok {
			return c, nil
		}
		slot := l.limiter.Take(name, func() { c.Close() })
		if slot != nil {
			return &counted{TCPConn: tcp, slot: slot}, nil
		}
		c.Close()
		if Seldom(&l.told) {
			l.log.Warn("too many connections of one source: one was refused", "address", l.Addr().String(), "source", name)
		}
	}
}

// Seldom reports whether something was not said for a while. told is when it was
// said last.
func Seldom(told *atomic.Int64) bool {
	now, last := time.Now().UnixNano(), told.Load()
	return now-last > int64(toldEvery) && told.CompareAndSwap(last, now)
}

// Address is the address of a TCP or UDP peer; it is not valid for others.
func Address(a net.Addr) netip.Addr {
	switch a := a.(type) {
	case *net.TCPAddr:
		return a.AddrPort().Addr().Unmap()
	case *net.UDPAddr:
		return a.AddrPort().Addr().Unmap()
	}
	return netip.Addr{}
}

// counted is a connection that has a slot until it is closed. It keeps what TCP
// connections can do beyond others.
type counted struct {
	*net.TCPConn
	slot *Slot
	once sync.Once
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.TCPConn.Read(p)
	if n > 0 {
		c.slot.Touch()
	}
	return n, err
}

func (c *counted) Close() error {
	c.once.Do(c.slot.Release)
	return c.TCPConn.Close()
}
