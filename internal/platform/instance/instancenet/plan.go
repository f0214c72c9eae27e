package instancenet

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// A Plan is how instances reach the platform. In containers they use the address
// of the host in their network, because loopback is their own there.
//
//	instance ── a name of the platform ──▶ name server on the gateway ──▶ the gateway
//	         ── gateway:8080 ──▶ API, authorization server, routes of apps
//	         ── gateway:8081 ──▶ notification service
//	         ── gateway:443  ──▶ the proxy of --public-url, where there is one
//
// The operator's port, ssh and everything else of the host are not reachable.
type Plan struct {
	API, Auth, Notifications string // URLs for instances
	Router                   string // host:port that serves the routes of apps

	// Forwarded are the ports of the gateway that are forwarded, with their targets.
	Forwarded map[uint16]Target
	// Names are names of the platform, beside those of its domain.
	Names []string

	gateway netip.Addr // not valid where instances share the host's network
}

// Target is a host and a port to connect to.
type Target struct{ Host, Port string }

// Address is where a service of the platform is.
type Address struct {
	Public string // the URL for clients, if the operator set one
	Local  string // the URL on this machine
}

// Services are the services of the platform. Auth has no local URL: it is part of
// the API if the operator did not set another one.
type Services struct {
	API, Auth, Notifications Address
	TLS                      string // URL of the port with TLS on this machine, if there is one
}

// New returns the plan for instances in a network with this gateway. An invalid
// gateway means that they share the host's network.
func New(s Services, gateway netip.Addr) (*Plan, error) {
	p := &Plan{gateway: gateway, Forwarded: map[uint16]Target{}}
	public, err := url.Parse(s.API.Local)
	if err != nil {
		return nil, err
	}
	p.Router = public.Host
	if gateway.IsValid() {
		p.Router = net.JoinHostPort(gateway.String(), public.Port())
	}
	for _, one := range []struct {
		into *string
		Address
	}{{&p.API, s.API}, {&p.Auth, s.Auth}, {&p.Notifications, s.Notifications}} {
		if *one.into, err = p.rewrite(cmp.Or(one.Public, one.Local), s); err != nil {
			return nil, err
		}
	}
	p.Auth = cmp.Or(p.Auth, p.API)
	return p, nil
}

// rewrite turns a URL of the platform that works on this machine into one that
// works inside an instance.
func (p *Plan) rewrite(address string, s Services) (string, error) {
	if !p.gateway.IsValid() || address == "" {
		return address, nil
	}
	u, err := url.Parse(address)
	if err != nil {
		return "", err
	}
	port := cmp.Or(u.Port(), map[string]string{"http": "80", "https": "443"}[u.Scheme])
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return "", fmt.Errorf("the port of %s: %w", address, err)
	}
	host := strings.ToLower(u.Hostname())
	if a, err := netip.ParseAddr(host); err == nil || host == "localhost" {
		if host != "localhost" && !a.IsLoopback() && !a.IsUnspecified() && address != s.API.Local &&
			address != s.Notifications.Local {
			return address, nil // another machine: the firewall decides
		}
		u.Host = net.JoinHostPort(p.gateway.String(), port)
	} else {
		p.Names = append(p.Names, host)
	}
	if !slices.Contains(p.ports(s), uint16(number)) {
		p.Forwarded[uint16(number)] = Target{u.Hostname(), port}
		if u.Hostname() == p.gateway.String() {
			p.Forwarded[uint16(number)] = Target{host, port}
		}
	}
	return u.String(), nil
}

// ports returns the ports of the server itself that instances can reach.
func (p *Plan) ports(s Services) (list []uint16) {
	for _, address := range []string{s.API.Local, s.Notifications.Local, s.TLS} {
		if u, err := url.Parse(address); err == nil {
			if n, err := strconv.ParseUint(u.Port(), 10, 16); err == nil {
				list = append(list, uint16(n))
			}
		}
	}
	return list
}

// Variables returns the environment variables that all instances and builds get.
func (p *Plan) Variables() map[string]string {
	return map[string]string{
		"INGOT_API_URL": p.API, "INGOT_AUTH_URL": p.Auth, "INGOT_NOTIFICATIONS_URL": p.Notifications,
		"INGOT_ROUTER": p.Router,
	}
}
