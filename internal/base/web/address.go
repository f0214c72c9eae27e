package web

import (
	"fmt"
	"net/http"
	"net/netip"
	"strings"
)

// Proxies are the networks of trusted proxies in front of the server. Only
// their X-Forwarded-For header is used, because a client could send any
// address.
type Proxies []netip.Prefix

// ParseProxies parses a comma-separated list of addresses and networks.
func ParseProxies(list string) (Proxies, error) {
	var out Proxies
	for word := range strings.SplitSeq(list, ",") {
		word = strings.TrimSpace(word)
		if word == "" {
			continue
		}
		if addr, err := netip.ParseAddr(word); err == nil {
			addr = addr.Unmap().WithZone("")
			out = append(out, netip.PrefixFrom(addr, addr.BitLen()))
			continue
		}
		prefix, err := netip.ParsePrefix(word)
		if err != nil {
			return nil, fmt.Errorf("%q is neither an address nor a network such as 10.0.0.0/8", word)
		}
		out = append(out, prefix.Masked())
	}
	return out, nil
}

// Has reports whether an address is that of a trusted proxy.
func (p Proxies) Has(a netip.Addr) bool {
	for _, prefix := range p {
		if prefix.Contains(a) {
			return true
		}
	}
	return false
}

// Client returns the client address of a request: that of the connection, or,
// when a trusted proxy made it, the last address in X-Forwarded-For that is not
// a trusted proxy itself. It is the zero Addr when the connection has none.
func (p Proxies) Client(r *http.Request) netip.Addr {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	from := peer.Addr().Unmap().WithZone("")
	if !p.Has(from) {
		return from
	}
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for i := len(hops) - 1; i >= 0 && p.Has(from); i-- {
		hop, err := netip.ParseAddr(strings.Trim(strings.TrimSpace(hops[i]), "[]"))
		if err != nil {
			break
		}
		from = hop.Unmap().WithZone("")
	}
	return from
}

// AddressKey returns the part of an address that a client cannot change at
// will: for IPv6 the /64 prefix.
func AddressKey(a netip.Addr) string {
	if a.Is6() {
		if prefix, err := a.Prefix(64); err == nil {
			return prefix.String()
		}
	}
	return a.String()
}
