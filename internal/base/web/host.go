package web

import (
	"net/netip"
	"strconv"
	"strings"
)

// HostName returns the name or address in a Host header: without port, brackets
// and trailing dot, in lower case. It reports whether the header is well-formed.
func HostName(header string) (host string, ok bool) {
	host = header
	if i := strings.LastIndexByte(host, ':'); i >= 0 && i > strings.LastIndexByte(host, ']') {
		port := host[i+1:]
		if strings.Contains(host[:i], ":") && !strings.HasSuffix(host[:i], "]") {
			// Several colons without brackets: not a valid way to write an IPv6 address here.
			return "", false
		}
		if port != "" {
			if _, err := strconv.ParseUint(port, 10, 16); err != nil {
				return "", false
			}
		}
		host = host[:i]
	}
	if strings.HasPrefix(host, "[") || strings.HasSuffix(host, "]") {
		inner, found := strings.CutPrefix(host, "[")
		inner, closed := strings.CutSuffix(inner, "]")
		addr, err := netip.ParseAddr(inner)
		return inner, found && closed && err == nil && addr.Is6()
	}
	return strings.ToLower(strings.TrimSuffix(host, ".")), true
}

// Printable returns s with control and non-ASCII characters escaped.
func Printable(s string) string {
	quoted := strconv.QuoteToASCII(s)
	return quoted[1 : len(quoted)-1]
}
