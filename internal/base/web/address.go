package web

import (
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/google/uuid"
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

// Has reports whether an address is a trusted proxy's.
func (p Proxies) Has(a netip.Addr) bool {
	return slices.ContainsFunc(p, func(prefix netip.Prefix) bool { return prefix.Contains(a) })
}

// forwarded are the headers in which a proxy says what it knows of a request.
var forwarded = []string{"X-Forwarded-For", "X-Forwarded-Proto", "X-Forwarded-Host", "X-Forwarded-Port", "Forwarded"}

// Trust decides from which connections X-Forwarded headers and request ids are believed.
// A client could send anything.
type Trust struct {
	Proxies Proxies
	// Own reports whether a connection is the server's own; nil means that none is.
	Own func(netip.AddrPort) bool
}

// Has reports whether what comes from an address is believed.
func (t Trust) Has(from netip.AddrPort) bool {
	return t.Proxies.Has(from.Addr().Unmap().WithZone("")) || t.Own != nil && t.Own(from)
}

func (t Trust) of(r *http.Request) bool {
	if len(t.Proxies) == 0 && t.Own == nil {
		return false
	}
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	return err == nil && t.Has(from)
}

// ForwardsTLS reports whether a trusted proxy has terminated TLS for a request.
func (t Trust) ForwardsTLS(r *http.Request) bool {
	return strings.EqualFold(r.Header.Get("X-Forwarded-Proto"), "https") && t.of(r)
}

// DropForwarded removes the headers of a request that only a trusted proxy may set, and
// reports whether there were any.
func (t Trust) DropForwarded(r *http.Request) (dropped bool) {
	for _, name := range forwarded {
		if _, ok := r.Header[name]; ok && !dropped {
			if t.of(r) {
				return false
			}
			dropped = true
		}
		if dropped {
			delete(r.Header, name)
		}
	}
	return dropped
}

// RequestIDs returns a handler that lets only trusted proxies choose the id of a request.
func (t Trust) RequestIDs(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// A new one, because the X-Request-Id of a client is passed to apps, too.
		if (r.Header.Get(RequestIDHeader) != "" || r.Header.Get(otherIDHeader) != "") && !t.of(r) {
			r.Header.Set(RequestIDHeader, uuid.NewString())
		}
		next.ServeHTTP(w, r)
	})
}

// Client returns the client address of a request: the connection's, or,
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
