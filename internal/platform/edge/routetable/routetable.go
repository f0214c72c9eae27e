package routetable

import (
	"net/netip"

	"ingot/internal/platform/edge/router"
	"ingot/internal/platform/instance/dns"
	"ingot/internal/platform/run/controller/routing"
)

// Tables are those of the router and of the name server. It implements routing.Table.
type Tables struct {
	Public   *router.Table
	Internal *dns.InternalNames
}

func routerRoute(r routing.Route) router.Route {
	out := router.Route{GUID: r.GUID, Host: r.Host, Path: r.Path, Port: r.Port, Options: r.Options,
		RouteServiceURL: r.ServiceURL}
	for _, b := range r.Backends {
		out.Backends = append(out.Backends, router.Backend{
			Address: b.Address, AppGUID: b.App, ProcessGUID: b.Process, InstanceGUID: b.Instance, Index: b.Index,
			Protocol: router.Protocol(b.Protocol), Destination: b.Destination, Weight: b.Weight, Port: b.Port,
		})
	}
	return out
}

// split returns the routes of the router and those of the name server.
func split(all []routing.Route) (public []router.Route, internal []dns.InternalRoute) {
	public = make([]router.Route, 0, len(all))
	for _, r := range all {
		if !r.Internal {
			public = append(public, routerRoute(r))
			continue
		}
		one := dns.InternalRoute{GUID: r.GUID, Name: r.Host}
		for _, b := range r.Backends {
			if at, err := netip.ParseAddrPort(b.Address); err == nil {
				one.Instances = append(one.Instances, dns.InternalInstance{Index: b.Index, Address: at.Addr()})
			}
		}
		internal = append(internal, one)
	}
	return public, internal
}

// Update implements routing.Table.
func (t Tables) Update(set []routing.Route, gone []string) {
	public, internal := split(set)
	t.Public.Update(public, gone)
	if len(internal)+len(gone) > 0 {
		t.Internal.Update(internal, gone)
	}
}

// Replace implements routing.Table.
func (t Tables) Replace(all []routing.Route) {
	public, internal := split(all)
	t.Public.Replace(public)
	t.Internal.Replace(internal)
}
