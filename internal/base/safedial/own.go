package safedial

import (
	"net"
	"net/netip"
	"sync"
	"time"
)

// ownKept is how long the addresses of this machine are cached.
const ownKept = time.Second

var own struct {
	sync.Mutex
	read  time.Time
	known map[netip.Addr]bool
}

// Own reports whether the address belongs to an interface of this machine. If
// the interfaces cannot be read, it returns true for every address.
func Own(ip netip.Addr) bool {
	ip = ip.Unmap().WithZone("")
	if ip.IsLoopback() {
		return true
	}
	own.Lock()
	defer own.Unlock()
	if time.Since(own.read) > ownKept {
		addrs, err := net.InterfaceAddrs()
		if err != nil {
			return true
		}
		known := make(map[netip.Addr]bool, len(addrs))
		for _, a := range addrs {
			if n, ok := a.(*net.IPNet); ok {
				if at, ok := netip.AddrFromSlice(n.IP); ok {
					known[at.Unmap()] = true
				}
			}
		}
		own.read, own.known = time.Now(), known
	}
	return own.known[ip]
}
