package safedial

import (
	"context"
	"net"
	"net/netip"
	"sync"
)

// OwnCalls are the open connections of a server to itself, whose forwarding headers it
// believes. The zero value has none.
type OwnCalls struct {
	mu   sync.Mutex
	open map[netip.AddrPort]bool
}

// Has reports whether a connection from this address is the server's own.
func (o *OwnCalls) Has(from netip.AddrPort) bool {
	from = plainAddr(from)
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.open[from]
}

type dialFunc = func(ctx context.Context, network, address string) (net.Conn, error)

// dialer returns dial, with connections that are known until they are closed.
func (o *OwnCalls) dialer(dial dialFunc) dialFunc {
	if o == nil {
		return dial
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		tcp, ok := c.LocalAddr().(*net.TCPAddr)
		if !ok {
			return c, nil
		}
		at := plainAddr(tcp.AddrPort())
		o.mu.Lock()
		if o.open == nil {
			o.open = map[netip.AddrPort]bool{}
		}
		o.open[at] = true
		o.mu.Unlock()
		return &ownConn{Conn: c, close: sync.OnceFunc(func() {
			o.mu.Lock()
			defer o.mu.Unlock()
			delete(o.open, at)
		})}, nil
	}
}

func plainAddr(a netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(a.Addr().Unmap().WithZone(""), a.Port())
}

type ownConn struct {
	net.Conn
	close func()
}

// Close forgets the connection first: afterwards another may have its port.
func (c *ownConn) Close() error {
	c.close()
	return c.Conn.Close()
}
