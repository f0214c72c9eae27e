package proxyheader

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pires/go-proxyproto"

	"ingot/internal/base/background"
	"ingot/internal/base/connlimit"
)

const (
	// readFor is how long a header may take.
	readFor = 5 * time.Second
	// maxReading is how many headers are read at the same time. Further connections
	// wait.
	maxReading = 4096
	// maxHeader limits a header of version 2, whose extensions can be long.
	maxHeader = 4096
)

// Options say which connections have a header.
type Options struct {
	// From reports whether connections from an address begin with a header.
	From func(netip.Addr) bool
	// Optional reports whether a connection from such an address may also have none,
	// as those of this machine itself.
	Optional func(netip.Addr) bool
	Log      *slog.Logger
}

// Listen returns a listener whose connections have the addresses that their headers
// name.
func Listen(l net.Listener, o Options) net.Listener {
	return &listener{Listener: l, o: o, accepted: make(chan accepted), closing: make(chan struct{}),
		reading: make(chan struct{}, maxReading)}
}

type accepted struct {
	conn net.Conn
	err  error
}

type listener struct {
	net.Listener
	o        Options
	begin    sync.Once
	accepted chan accepted
	end      sync.Once
	closing  chan struct{}
	reading  chan struct{}
	logged   atomic.Int64 // when a refused connection was last logged
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	l.begin.Do(func() {
		background.GoLoop(context.Background(), "proxy header accept", l.acceptAll) // until the listener is closed
	})
	select {
	case a := <-l.accepted:
		return a.conn, a.err
	case <-l.closing:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l *listener) Close() error {
	l.end.Do(func() { close(l.closing) })
	return l.Listener.Close()
}

func (l *listener) acceptAll() {
	for {
		c, err := l.Listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		tcp, ok := c.(*net.TCPConn)
		if err != nil || !ok || !l.o.From(connlimit.Address(c.RemoteAddr())) {
			if !l.pass(accepted{c, err}) {
				return
			}
			continue
		}
		select {
		case l.reading <- struct{}{}:
		case <-l.closing:
			_ = c.Close()
			return
		}
		background.Go("proxy header", func() {
			defer func() { <-l.reading }()
			l.pass(accepted{conn: l.read(tcp)})
		})
	}
}

// pass gives a connection to Accept, and reports false if the listener is closed.
func (l *listener) pass(a accepted) bool {
	if a.conn == nil && a.err == nil {
		return true // refused
	}
	select {
	case l.accepted <- a:
		return true
	case <-l.closing:
		if a.conn != nil {
			_ = a.conn.Close()
		}
		return false
	}
}

// read reads the header of a connection. It returns nil if the connection is refused.
func (l *listener) read(c *net.TCPConn) net.Conn {
	_ = c.SetReadDeadline(time.Now().Add(readFor))
	h, err := header(c)
	_ = c.SetReadDeadline(time.Time{})
	if absent := errors.Is(err, errAbsent) || isTimeout(err); absent && l.o.Optional != nil &&
		l.o.Optional(connlimit.Address(c.RemoteAddr())) {
		return c
	}
	if err != nil {
		_ = c.Close()
		if connlimit.LogDue(&l.logged) {
			l.o.Log.Warn("connection refused: an address of --proxy-protocol-from has to send a PROXY header first",
				"address", l.Addr().String(), "from", c.RemoteAddr().String(), "error", err)
		}
		return nil
	}
	remote, local, ok := h.TCPAddrs()
	if !ok || h.Command.IsLocal() {
		return c // a health check of the proxy itself, or of no known protocol
	}
	return &Conn{TCPConn: c, remote: remote, local: local}
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

// Conn is a TCP connection with the addresses that its header names.
type Conn struct {
	*net.TCPConn
	remote, local net.Addr
}

// RemoteAddr returns the address of the client.
func (c *Conn) RemoteAddr() net.Addr { return c.remote }

// LocalAddr returns the address that the client has connected to.
func (c *Conn) LocalAddr() net.Addr { return c.local }

// TCP returns the connection to the proxy.
func (c *Conn) TCP() *net.TCPConn { return c.TCPConn }

// errAbsent means that a connection begins with something else.
var errAbsent = errors.New("there is no PROXY header")

// header reads the header at the beginning of a connection, and nothing else. With
// errAbsent and after a timeout nothing was read.
func header(c *net.TCPConn) (*proxyproto.Header, error) {
	buffer := make([]byte, maxHeader)
	var n int
	if err := peek(c, buffer, func(b []byte) (enough bool, err error) {
		n, err = length(b)
		return n > 0, err
	}); err != nil {
		return nil, err
	}
	if _, err := io.ReadFull(c, buffer[:n]); err != nil {
		return nil, err
	}
	h, err := proxyproto.Read(bufio.NewReader(bytes.NewReader(buffer[:n])))
	if err != nil {
		return nil, fmt.Errorf("its PROXY header is not valid: %w", err)
	}
	return h, nil
}

const (
	signature1 = "PROXY "
	signature2 = "\r\n\r\n\x00\r\nQUIT\n"
	// maxHeader1 is the longest header of version 1.
	maxHeader1 = 107
	// fixed2 is the length of the part of version 2 that every header has.
	fixed2 = 16
)

var errLong = errors.New("its PROXY header is too long")

// length returns the length of the header that b begins with; 0 means that more bytes
// are needed to tell.
func length(b []byte) (int, error) {
	starts := func(s string) bool { return string(b[:min(len(b), len(s))]) == s[:min(len(b), len(s))] }
	switch {
	case starts(signature2):
		if len(b) < fixed2 {
			return 0, nil
		}
		n := fixed2 + int(b[14])<<8 + int(b[15])
		if n > maxHeader {
			return 0, errLong
		}
		if len(b) < n {
			return 0, nil
		}
		return n, nil
	case starts(signature1):
		if i := bytes.IndexByte(b[:min(len(b), maxHeader1)], '\n'); i >= 0 {
			return i + 1, nil
		}
		if len(b) >= maxHeader1 {
			return 0, errLong
		}
		return 0, nil
	}
	return 0, errAbsent
}
