package routing

import (
	"cmp"
	"slices"
	"unique"

	"ingot/internal/base/fault"
	"ingot/internal/platform"
	"ingot/internal/platform/actions"
)

// page is a part of the routes: those with given guids, those after a guid in order, or
// all.
type page struct {
	guids []string
	after string
	all   bool

	// upTo is the last guid of a page in order; "" if the page reaches the end.
	upTo string
	// routes are those of the HTTP router, of TCP ports and of the name server.
	routes map[string]*mapping
}

// covers reports whether an existing route would be on the page.
func (p *page) covers(guid string) bool {
	return guid > p.after && (p.upTo == "" || guid <= p.upTo)
}

// read reads the routes and their destinations.
func (p *page) read(tx platform.Tx) error {
	p.upTo, p.routes = "", map[string]*mapping{}
	routes, _, err := tx.Routes().List(p.query())
	if err != nil {
		return err
	}
	if p.guids == nil && !p.all && len(routes) == pageRoutes {
		p.upTo = routes[len(routes)-1].GUID
	}
	if err := p.readRoutes(tx, routes); err != nil {
		return err
	}
	of := p.belonging()
	wanted := of
	if p.all {
		wanted.Only = []string{"guid", "created_at", "route_guid", "app_guid", "process_type", "port", "weight", "protocol"}
	}
	destinations, _, err := tx.Destinations().List(wanted)
	if err != nil {
		return err
	}
	for _, d := range destinations {
		if m := p.routes[d.RouteGUID]; m != nil {
			// The router reads these for every request. Sharing them among the routes of an
			// app saves memory and CPU cache.
			d.RouteGUID, d.AppGUID = m.route.GUID, unique.Make(d.AppGUID).Value()
			d.ProcessType, d.Protocol = unique.Make(d.ProcessType).Value(), unique.Make(d.Protocol).Value()
			m.destinations = append(m.destinations, d)
			if n := len(m.destinations); p.all && n > 1 && before(d, m.destinations[n-2]) {
				slices.SortFunc(m.destinations, func(a, b *platform.Destination) int {
					if before(a, b) {
						return -1
					}
					return 1
				})
			}
		}
	}
	return p.readServices(tx, of)
}

// before is the order of lists: by creation.
func before(a, b *platform.Destination) bool {
	return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.GUID, b.GUID)) < 0
}

// query selects the routes.
func (p *page) query() platform.Query {
	switch {
	case p.all:
		return platform.Query{Only: []string{"guid", "domain_guid", "host", "path", "port", "options"}}
	case p.guids != nil:
		return platform.Query{Where: []platform.Cond{platform.InStrings("guid", p.guids)}}
	}
	return platform.Query{Where: []platform.Cond{{Field: "guid", Op: platform.OpGreater, Values: []any{p.after}}},
		Order: "guid", PerPage: pageRoutes}
}

// belonging selects the rows that refer to the routes.
func (p *page) belonging() platform.Query {
	switch {
	case p.all:
		return platform.Query{}
	case p.guids != nil:
		return platform.Query{Where: []platform.Cond{platform.InStrings("route_guid", p.guids)}}
	}
	q := platform.Query{Where: []platform.Cond{{Field: "route_guid", Op: platform.OpGreater, Values: []any{p.after}}}}
	if p.upTo != "" {
		q = q.And(platform.Cond{Field: "route_guid", Op: platform.OpLessEqual, Values: []any{p.upTo}})
	}
	return q
}

func (p *page) readRoutes(tx platform.Tx, routes []*platform.Route) error {
	domains := map[string]*platform.Domain{}
	for _, r := range routes {
		d := domains[r.DomainGUID]
		if d == nil {
			var err error
			d, err = tx.Domains().Get(r.DomainGUID)
			if fault.Is(err, fault.NotFound) {
				continue // being deleted
			}
			if err != nil {
				return err
			}
			domains[r.DomainGUID] = d
		}
		host := d.Name
		if r.Host != "" {
			host = r.Host + "." + d.Name
		}
		p.routes[r.GUID] = &mapping{route: Route{GUID: r.GUID, Host: host, Path: r.Path, Port: r.Port, Options: r.Options,
			Internal: d.Internal}}
	}
	return nil
}

// readServices adds the route services of routes.
func (p *page) readServices(tx platform.Tx, of platform.Query) error {
	bound, _, err := tx.ServiceBindings().List(of.And(platform.In("type", platform.BindingRoute)))
	if err != nil {
		return err
	}
	for _, b := range bound {
		m := p.routes[b.RouteGUID]
		if m == nil || !b.Last.Exists() {
			continue
		}
		i, err := tx.ServiceInstances().Get(b.InstanceGUID)
		if fault.Is(err, fault.NotFound) {
			continue
		}
		if err != nil {
			return err
		}
		m.route.ServiceURL = actions.Effective(b, i).RouteServiceURL
	}
	return nil
}
