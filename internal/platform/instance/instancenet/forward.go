package instancenet

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/base/connlimit"
)

const (
	perApp         = 256              // connections of one app to one port
	connectTimeout = 10 * time.Second // for the target of a Forwarder
)

// Limits returns the limits for the connections of instances to one port.
func Limits() connlimit.Limits {
	return connlimit.Limits{PerSource: perApp, Total: connlimit.Share(2)}
}

// A Forwarder forwards connections of instances from a port to another address.
type Forwarder struct {
	background.Part
	At netip.AddrPort
	To Target
	// Owner returns the app of an address, and false if it is not an instance's;
	// connections of others are closed.
	Owner func(netip.Addr) (string, bool)
	// Listen opens the port; nil means to listen on At.
	Listen func(ctx context.Context, address string) (net.Listener, error)
	Log    *slog.Logger
	l      net.Listener
}

// Start starts listening.
func (f *Forwarder) Start(ctx context.Context) error {
	return f.Launch(ctx, func(work context.Context, spawn func(func())) error {
		listen := f.Listen
		if listen == nil {
			listen = func(ctx context.Context, at string) (net.Listener, error) {
				return (&net.ListenConfig{}).Listen(ctx, "tcp", at)
			}
		}
		l, err := listen(ctx, f.At.String())
		if err != nil {
			return err
		}
		f.l = connlimit.Listen(l, Limits(), f.Owner, f.Log)
		spawn(func() {
			connlimit.Accept(f.l, f.Log, func(c net.Conn) { spawn(func() { f.forward(work, c) }) })
		})
		return nil
	})
}

// Stop closes all connections.
func (f *Forwarder) Stop() { f.Halt(func() { f.l.Close() }) }

func (f *Forwarder) forward(ctx context.Context, c net.Conn) {
	defer c.Close()
	if _, known := f.Owner(connlimit.Address(c.RemoteAddr())); !known {
		return
	}
	dialer := net.Dialer{Timeout: connectTimeout}
	to, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(f.To.Host, f.To.Port))
	if err != nil {
		return // the instance sees its connection closed
	}
	defer to.Close()
	stop := background.OnDone(ctx, "forward to the platform", func() { c.Close(); to.Close() })
	defer stop()
	var both background.WaitGroup
	for _, pair := range [][2]net.Conn{{c, to}, {to, c}} {
		both.Go("forward to the platform", func() {
			_, err := io.Copy(pair[0], pair[1])
			half, ok := pair[0].(interface{ CloseWrite() error })
			if err != nil || !ok || half.CloseWrite() != nil {
				pair[0].Close()
				pair[1].Close()
			}
		})
	}
	both.Wait()
}
