package system

import (
	"net"

	"ingot/internal/platform"
	"ingot/internal/platform/edge/router"
)

// openTCP connects the router of TCP routes, which listens where the API does.
func (s *System) openTCP(r *runtime) error {
	c := s.config
	ports, err := platform.ParsePorts(c.TCPPorts)
	if err != nil {
		return err
	}
	host, _, err := net.SplitHostPort(c.Listen)
	if err != nil {
		return err
	}
	r.tcp = router.NewTCP(r.table, r.proxy, router.TCPOptions{
		Host: host, May: ports.Contains, Unlimited: c.proxies().Has, Listen: s.handover.sockets.Listen, Wrap: s.built.Load().
			proxied, Log: c.Log,
	})
	r.platform.TCP, r.platform.PortFree = platform.DefaultTCPGroup(ports), r.tcp.Free
	return nil
}
