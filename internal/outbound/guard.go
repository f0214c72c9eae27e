package outbound

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"syscall"
)

// ErrPrivate is why an address is refused.
var ErrPrivate = errors.New("the address is in a private network or on this machine, where only an operator can allow connections to")

// Guard permits addresses of the internet, and those networks that it is given.
// Its zero value permits the internet only.
type Guard struct{ Networks []netip.Prefix }

// Everywhere permits all addresses.
var Everywhere = Guard{Networks: []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}}

// ParseGuard reads networks from a list such as "10.0.0.0/8,fd00::/8". "all"
// permits every address, "" the internet only.
func ParseGuard(list string) (Guard, error) {
	var g Guard
	for item := range strings.SplitSeq(list, ",") {
		switch item = strings.TrimSpace(item); item {
		case "":
		case "all":
			g.Networks = append(g.Networks, Everywhere.Networks...)
		default:
			p, err := netip.ParsePrefix(item)
			if err != nil {
				return Guard{}, fmt.Errorf("%q is not a network such as 10.0.0.0/8: %w", item, err)
			}
			g.Networks = append(g.Networks, p.Masked())
		}
	}
	return g, nil
}

// special are networks that look like the internet and are not.
var special = func() (out []netip.Prefix) {
	for _, text := range []string{
		"0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "198.18.0.0/15", "198.51.100.0/24",
		"203.0.113.0/24", "240.0.0.0/4", "2001:db8::/32", "fec0::/10", "100::/64",
		// These stand for IPv4 addresses, of which any can be written so.
		"::/96", "64:ff9b::/96", "64:ff9b:1::/48", "2001::/23", "2002::/16",
	} {
		out = append(out, netip.MustParsePrefix(text))
	}
	return out
}()

// Permits tells whether an address may be connected to.
func (g Guard) Permits(ip netip.Addr) bool {
	ip = ip.Unmap().WithZone("")
	for _, p := range g.Networks {
		if p.Contains(ip) {
			return true
		}
	}
	for _, p := range special {
		if p.Contains(ip) {
			return false
		}
	}
	return ip.IsGlobalUnicast() && !ip.IsPrivate()
}

// Control is for net.Dialer: it is asked after names were resolved, with the
// address that would be connected to, so that no name can lead elsewhere.
func (g Guard) Control(_, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil || !g.Permits(at.Addr()) {
		return ErrPrivate
	}
	return nil
}
