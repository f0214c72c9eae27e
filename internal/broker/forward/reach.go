package forward

import (
	"context"
	"net"
	"net/netip"
	"strconv"
	"time"
)

// Reach is how apps in containers connect to servers on this machine.
type Reach struct {
	// Host is this machine's address in their network. Credentials contain it.
	Host netip.Addr
	// From is their network. Host accepts connections only from there and from
	// this machine.
	From netip.Prefix
	// Owner returns the app whose instance has an address. Connections are
	// counted per app, or per address if Owner is nil or returns "".
	Owner func(netip.Addr) string
	// Listen opens a port of Host or of loopback; nil means to listen there.
	Listen func(ctx context.Context, at netip.AddrPort) (net.Listener, error)
}

// Endpoint is a TCP address.
type Endpoint struct {
	Host string
	Port int
}

func (e Endpoint) String() string { return net.JoinHostPort(e.Host, strconv.Itoa(e.Port)) }

// loopback reports whether the address is reachable from this machine only.
func (e Endpoint) loopback() bool {
	ip, err := netip.ParseAddr(e.Host)
	return e.Host == "localhost" || err == nil && ip.IsLoopback()
}

// Loopback is where servers of this machine listen.
var Loopback = netip.MustParseAddr("127.0.0.1")

// Local returns a port of Loopback.
func Local(port int) Endpoint { return Endpoint{Loopback.String(), port} }

// DialTime limits a connection to a server that is running.
const DialTime = 10 * time.Second
