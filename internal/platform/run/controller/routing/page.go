package routing

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"unique"

	"ingot/internal/base/background"
	"ingot/internal/base/fault"
	"ingot/internal/platform"
	"ingot/internal/platform/actions"
)

// page is a part of the routes: those with given guids, those after a guid in order, or
// all (readAll).
type page struct {
	guids []string
	after string

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
	if p.guids == nil && len(routes) == pageRoutes {
		p.upTo = routes[len(routes)-1].GUID
	}
	if err := p.readRoutes(tx, routes); err != nil {
		return err
	}
	of := p.belonging()
	destinations, _, err := tx.Destinations().List(of)
	if err != nil {
		return err
	}
	p.addDestinations(destinations)
	return p.readServices(tx, of)
}

// readAll reads all routes, and their destinations at the same time. What changes meanwhile is announced, and read
// again after it.
func (p *page) readAll(ctx context.Context, store platform.Store) error {
	var destinations []*platform.Destination
	others := background.Async("read destinations", func() error {
		return store.View(ctx, func(tx platform.Tx) (err error) {
			destinations, _, err = tx.Destinations().List(platform.Query{Only: []string{"guid", "created_at", "route_guid",
				"app_guid", "process_type", "port", "weight", "protocol"}})
			return err
		})
	})
	err := store.View(ctx, func(tx platform.Tx) error {
		routes, _, err := tx.Routes().List(platform.Query{Only: []string{"guid", "domain_guid", "host", "path", "port",
			"options"}})
		if err != nil {
			return err
		}
		p.routes = make(map[string]*mapping, len(routes))
		if err := p.readRoutes(tx, routes); err != nil {
			return err
		}
		return p.readServices(tx, platform.Query{})
	})
	if err := errors.Join(err, <-others); err != nil {
		return err
	}
	p.addDestinations(destinations)
	for _, m := range p.routes {
		slices.SortFunc(m.destinations, func(a, b *platform.Destination) int { // as in lists
			return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.GUID, b.GUID))
		})
	}
	return nil
}

func (p *page) addDestinations(destinations []*platform.Destination) {
	for _, d := range destinations {
		if m := p.routes[d.RouteGUID]; m != nil {
			// The router reads these for every request. Sharing them among the routes of an
			// app saves memory and CPU cache.
			d.RouteGUID, d.AppGUID = m.route.GUID, unique.Make(d.AppGUID).Value()
			d.ProcessType, d.Protocol = unique.Make(d.ProcessType).Value(), unique.Make(d.Protocol).Value()
			m.destinations = append(m.destinations, d)
		}
	}
}

// query selects the routes.
func (p *page) query() platform.Query {
	switch {
	case p.guids != nil:
		return platform.Query{Where: []platform.Cond{platform.InStrings("guid", p.guids)}}
	}
	return platform.Query{Where: []platform.Cond{{Field: "guid", Op: platform.OpGreater, Values: []any{p.after}}},
		Order: "guid", PerPage: pageRoutes}
}

// belonging selects the rows that refer to the routes.
func (p *page) belonging() platform.Query {
	switch {
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
