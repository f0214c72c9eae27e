//go:build linux

package network

import (
	"net/netip"
	"os"
	"strings"
)

// ResolvConf returns the resolv.conf of instances: those of the host's name servers that
// they can reach, which excludes servers on the host's loopback.
func ResolvConf(egress bool) string {
	if !egress {
		return "# no way out: see the engine's egress option\n"
	}
	b, err := os.ReadFile("/etc/resolv.conf")
	if err != nil {
		return ""
	}
	var out strings.Builder
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if len(f) < 2 {
			continue
		}
		switch f[0] {
		case "nameserver":
			if a, err := netip.ParseAddr(f[1]); err != nil || a.IsLoopback() || !a.Is4() {
				continue
			}
		case "search", "options":
		default:
			continue
		}
		out.WriteString(strings.Join(f, " ") + "\n")
	}
	return out.String()
}

// nameServers returns the name servers of ResolvConf.
func nameServers() []netip.Addr {
	var out []netip.Addr
	for line := range strings.Lines(ResolvConf(true)) {
		if server, ok := strings.CutPrefix(line, "nameserver "); ok {
			if a, err := netip.ParseAddr(strings.TrimSpace(server)); err == nil {
				out = append(out, a)
			}
		}
	}
	return out
}
