package safedial

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"syscall"
)

// ErrPrivate means that a Guard does not permit an address.
var ErrPrivate = errors.New("the address is in a private network or on this machine; an operator can allow it with " +
	"--allow-networks")

// Guard permits public internet addresses, and the given networks. The zero
// value permits public addresses only.
type Guard struct{ Networks []netip.Prefix }

// Everywhere permits all addresses.
var Everywhere = Guard{Networks: []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}}

// ParseGuard parses a list of networks such as "10.0.0.0/8,fd00::/8". "all"
// permits every address, "" only public ones.
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

// refused are the networks that are not public: private networks, those of this
// machine and its links, and reserved ranges.
var refused = prefixes(
	"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24",
	"192.0.2.0/24",
	"192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
	// Azure's metadata service and agent: a public address that is routed to
	// the host of the virtual machine.
	"168.63.129.16/32",
	"::1/128", "2001:db8::/32", "fc00::/7", "fe80::/10", "fec0::/10", "ff00::/8", "100::/64",
	// These embed arbitrary IPv4 addresses.
	"::/96", "64:ff9b::/96", "64:ff9b:1::/48", "2001::/23", "2002::/16",
)

func prefixes(texts ...string) (out []netip.Prefix) {
	for _, text := range texts {
		out = append(out, netip.MustParsePrefix(text))
	}
	return out
}

// RefusedIPv4 returns the IPv4 networks that are not public, for a firewall.
func RefusedIPv4() (out []netip.Prefix) {
	for _, p := range refused {
		if p.Addr().Is4() {
			out = append(out, p)
		}
	}
	return out
}

// Permits reports whether connecting to an address is allowed. This machine's
// own addresses are refused like those of private networks, even if they are
// public.
func (g Guard) Permits(ip netip.Addr) bool {
	ip = ip.Unmap().WithZone("")
	if g.Lists(ip) {
		return true
	}
	contains := func(p netip.Prefix) bool { return p.Contains(ip) }
	return ip.IsGlobalUnicast() && !slices.ContainsFunc(refused, contains) && !Own(ip)
}

// Lists reports whether an address is in one of the networks that an operator allows.
func (g Guard) Lists(ip netip.Addr) bool {
	ip = ip.Unmap().WithZone("")
	return slices.ContainsFunc(g.Networks, func(p netip.Prefix) bool { return p.Contains(ip) })
}

// With returns a guard that also permits the addresses of other.
func (g Guard) With(other Guard) Guard {
	return Guard{Networks: slices.Concat(g.Networks, other.Networks)}
}

// Control is a net.Dialer.Control function: it is called after name resolution
// with the actual address, so that a DNS name cannot bypass the guard.
func (g Guard) Control(_, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil || !g.Permits(at.Addr()) {
		return ErrPrivate
	}
	return nil
}
