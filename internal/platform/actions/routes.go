package actions

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"ingot/internal/base/fault"
	"ingot/internal/platform"
)

func routeTarget(tx platform.Tx, r *platform.Route) (Target, error) {
	s, err := tx.Spaces().Get(r.SpaceGUID)
	if err != nil {
		return Target{}, err
	}
	return Target{GUID: r.GUID, Type: "route", Name: r.Host, SpaceGUID: s.GUID, OrgGUID: s.OrgGUID}, nil
}

// CreateDomain stores a domain and shares it with orgs. It refuses a name that
// another domain has, or that would take over the names of another organization.
func (p *Platform) CreateDomain(tx platform.Tx, by Actor, d *platform.Domain, orgs ...string) error {
	if err := shareDomain(d, orgs); err != nil {
		return err
	}
	d.Name = strings.ToLower(d.Name)
	if err := platform.CheckDomainName(d.Name); err != nil {
		return err
	}
	if d.RouterGroup != "" && d.RouterGroup != p.TCP.GUID {
		return fault.New(fault.Unprocessable, "Router group with guid '%s' not found.", d.RouterGroup)
	}
	if err := p.checkSystemNames(by, d.Name); err != nil {
		return err
	}
	all, _, err := tx.Domains().List(platform.Query{})
	if err != nil {
		return err
	}
	for _, other := range all {
		if other.Name == d.Name {
			return fault.New(fault.Unprocessable, "The domain name \"%s\" is already in use", d.Name)
		}
		// A private domain must not lie below or above one that others use: its
		// routes would take their requests.
		foreign := other.OrgGUID != "" && other.OrgGUID != d.OrgGUID || other.OrgGUID == "" && d.OrgGUID != "" && !by.Admin
		if foreign && nested(d.Name, other.Name) {
			return fault.New(fault.Unprocessable,
				"The domain name \"%s\" cannot be created because \"%s\" is already reserved by another domain", d.Name, other.Name)
		}
	}
	taken, err := isRoute(tx, d.Name)
	if err != nil {
		return err
	}
	if taken {
		return fault.New(fault.Unprocessable,
			"The domain name \"%s\" cannot be created because it is already in use by a route", d.Name)
	}
	if err := tx.Domains().Insert(d); err != nil || d.OrgGUID == "" {
		return err
	}
	return domainFits(tx, d.OrgGUID)
}

// checkSystemNames refuses domains whose routes would take requests that are
// meant for the server. An administrator may let apps have other names of the
// system domain.
func (p *Platform) checkSystemNames(by Actor, name string) error {
	for _, own := range p.Reserved {
		if name == own || strings.HasSuffix(name, "."+own) {
			return fault.New(fault.Unprocessable,
				"The domain name \"%s\" cannot be created because \"%s\" is reserved for the platform", name, own)
		}
		if !by.Admin && nested(name, own) {
			return reservedDomain(name, own)
		}
	}
	if !by.Admin && p.SystemDomain != "" && nested(name, p.SystemDomain) {
		return reservedDomain(name, p.SystemDomain)
	}
	return nil
}

func reservedDomain(name, own string) error {
	return fault.New(fault.Unprocessable,
		"The domain name \"%s\" cannot be created because \"%s\" is reserved for the platform; an "+
			"administrator can create it", name, own)
}

// isReserved reports whether an address belongs to the server itself.
func (p *Platform) isReserved(address string) bool {
	address = strings.ToLower(address)
	return address != "" && (address == p.SystemDomain || slices.ContainsFunc(p.Reserved, func(own string) bool {
		return address == own || strings.HasSuffix(address, "."+own)
	}))
}

// isRoute reports whether a route without a path has this name. A
// domain of the same name would receive its requests.
func isRoute(tx platform.Tx, name string) (bool, error) {
	host, rest, _ := strings.Cut(name, ".")
	d, err := tx.Domains().First(platform.Where("name", rest))
	if fault.Is(err, fault.NotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	n, err := tx.Routes().Count(platform.Where("domain_guid", d.GUID).And(platform.In("host", host)))
	return n > 0, err
}

// nested reports whether one name is the other or lies below it.
func nested(a, b string) bool {
	return a == b || strings.HasSuffix(a, "."+b) || strings.HasSuffix(b, "."+a)
}

// DeleteDomain removes a domain with its routes.
func (p *Platform) DeleteDomain(tx platform.Tx, by Actor, d *platform.Domain) error {
	routes, _, err := tx.Routes().List(platform.Where("domain_guid", d.GUID))
	if err != nil {
		return err
	}
	for _, r := range routes {
		if err := p.DeleteRoute(tx, by, r); err != nil {
			return err
		}
	}
	return tx.Domains().Delete(d.GUID)
}

// ShareDomain shares a private domain with more organizations.
func (p *Platform) ShareDomain(tx platform.Tx, d *platform.Domain, orgs []string) error {
	if d.OrgGUID == "" {
		return fault.Invalid("Domains can not be shared with other organizations unless they are scoped to an organization.")
	}
	if err := shareDomain(d, orgs); err != nil {
		return err
	}
	return tx.Domains().Update(d)
}

func shareDomain(d *platform.Domain, orgs []string) error {
	for _, org := range orgs {
		if org == d.OrgGUID {
			return fault.Invalid("Domain cannot be shared with owning organization.")
		}
		if !slices.Contains(d.SharedOrgs, org) {
			d.SharedOrgs = append(d.SharedOrgs, org)
		}
	}
	return nil
}

// UnshareDomain stops sharing a domain with an organization, which must have no
// routes of it.
func (p *Platform) UnshareDomain(tx platform.Tx, d *platform.Domain, org string) error {
	n, err := tx.Routes().Count(platform.Where("domain_guid", d.GUID).And(platform.In("organization_guid", org)))
	if err != nil {
		return err
	}
	if n > 0 {
		return fault.Invalid("This domain has associated routes in this organization. Delete the routes before unsharing.")
	}
	d.SharedOrgs = slices.DeleteFunc(d.SharedOrgs, func(o string) bool { return o == org })
	return tx.Domains().Update(d)
}

// DefaultDomain returns the domain for routes of apps of an organization that name none: the
// one that belongs to the server's, or else the first that they can use. After a change of
// the server's domain, that of the previous one may be older.
func (p *Platform) DefaultDomain(tx platform.Tx, orgGUID string) (*platform.Domain, error) {
	all, _, err := tx.Domains().List(platform.Query{})
	if err != nil {
		return nil, err
	}
	var shared, own *platform.Domain
	for _, d := range all {
		switch {
		case d.Internal || d.RouterGroup != "":
		case d.OrgGUID == "" && d.Name == appsDomain(p.SystemDomain):
			return d, nil
		case d.OrgGUID == "" && shared == nil:
			shared = d
		case d.OrgGUID != "" && own == nil && platform.UsableIn(d, orgGUID):
			own = d
		}
	}
	if found := cmp.Or(shared, own); found != nil {
		return found, nil
	}
	return nil, fault.New(fault.NotFound, "Domain not found")
}

// appsDomain returns the name of the domain for apps of a server.
func appsDomain(system string) string { return "apps." + system }

// CreateRoute stores a route; an equal one anywhere is an error. Its host stays
// as it is written; wherever hosts are compared, A is a.
func (p *Platform) CreateRoute(tx platform.Tx, by Actor, r *platform.Route, d *platform.Domain) error {
	if r.Protocol = d.Protocol(); r.Protocol == platform.ProtocolTCP {
		if err := p.reservePort(tx, r, d); err != nil {
			return err
		}
	} else if err := p.httpAddress(tx, by, r, d); err != nil {
		return err
	}
	err := tx.Routes().Insert(r)
	if fault.Is(err, fault.Conflict) {
		return fault.Wrap(err, fault.Unprocessable, "%s", routeTaken(r, d))
	}
	if err != nil {
		return err
	}
	announceRoute(tx, r.GUID)
	if err := p.routeFits(tx, r); err != nil {
		return err
	}
	target, err := routeTarget(tx, r)
	if err != nil {
		return err
	}
	request := map[string]any{"host": r.Host, "path": r.Path, "domain": d.Name}
	if r.Port != 0 {
		request["port"] = r.Port
	}
	return p.Record(tx, "audit.route.create", by, target, map[string]any{"request": request})
}

// httpAddress returns an error if an HTTP route cannot have its address.
func (p *Platform) httpAddress(tx platform.Tx, by Actor, r *platform.Route, d *platform.Domain) error {
	if err := platform.CheckRoute(r, d); err != nil {
		return err
	}
	if p.isReserved(strings.TrimSuffix(platform.RouteURL(r, d), r.Path)) {
		return fault.Invalid("Route conflicts with a reserved system route.")
	}
	if r.Host != "" {
		switch n, err := tx.Domains().Count(platform.Where("name", strings.ToLower(r.Host)+"."+d.Name)); {
		case err != nil:
			return err
		case n > 0:
			return fault.Invalid("Route conflicts with domain '" + r.Host + "." + d.Name + "'.")
		}
	}
	if r.Host == "*" && d.OrgGUID == "" && !by.Admin {
		return fault.Invalid(
			"Wildcard hosts on shared domains are for administrators: they would take the requests of others")
	}
	return p.sameAddress(tx, r, d)
}

// announceRoute makes the route table read routes again.
func announceRoute(tx platform.Tx, guids ...string) { tx.Announce(platform.Changes{Routes: guids}) }

// sameAddress refuses a route that the router could not tell from another: on
// the same domain, or on another, for www.example.org is host www of example.org
// and no host of www.example.org. On shared domains a host belongs to the space
// that has a route of it: another space with a path of it would receive requests
// that are meant for that space.
func (p *Platform) sameAddress(tx platform.Tx, r *platform.Route, d *platform.Domain) error {
	address := strings.ToLower(strings.TrimSuffix(platform.RouteURL(r, d), r.Path))
	all, _, err := tx.Domains().List(platform.Query{})
	if err != nil {
		return err
	}
	for _, other := range all {
		host, below := strings.CutSuffix(address, "."+other.Name)
		if other.RouterGroup != "" || !below && address != other.Name || strings.Contains(host, ".") {
			continue
		}
		if !below {
			host = ""
		}
		routes, _, err := tx.Routes().List(platform.Where("domain_guid", other.GUID).And(platform.In("host", host)))
		if err != nil {
			return err
		}
		for _, o := range routes {
			if platform.PathKey(o.Path) == platform.PathKey(r.Path) {
				return fault.New(fault.Unprocessable, "%s", routeTaken(o, other))
			}
			if o.SpaceGUID != r.SpaceGUID && other.OrgGUID == "" {
				return fault.Invalid("Routes for this host and domain have been reserved for another space.")
			}
		}
	}
	return nil
}

func routeTaken(r *platform.Route, d *platform.Domain) string {
	switch {
	case r.Port != 0:
		return fmt.Sprintf("Route already exists with port '%d' for domain '%s'.", r.Port, d.Name)
	case r.Host != "" && r.Path != "":
		return fmt.Sprintf("Route already exists with host '%s' and path '%s' for domain '%s'.", r.Host, r.Path, d.Name)
	case r.Host != "":
		return fmt.Sprintf("Route already exists with host '%s' for domain '%s'.", r.Host, d.Name)
	case r.Path != "":
		return fmt.Sprintf("Route already exists with path '%s' for domain '%s'.", r.Path, d.Name)
	}
	return fmt.Sprintf("Route already exists for domain '%s'.", d.Name)
}

// UpdateRoute stores changed options or metadata of a route.
func (p *Platform) UpdateRoute(tx platform.Tx, by Actor, r *platform.Route) error {
	if err := platform.CheckOptionsFor(r.Options, r.Protocol); err != nil {
		return err
	}
	if err := tx.Routes().Update(r); err != nil {
		return err
	}
	announceRoute(tx, r.GUID)
	target, err := routeTarget(tx, r)
	if err != nil {
		return err
	}
	return p.Record(tx, "audit.route.update", by, target, map[string]any{"request": map[string]any{"options": r.Options}})
}

// DeleteRoute removes a route with its destinations.
func (p *Platform) DeleteRoute(tx platform.Tx, by Actor, r *platform.Route) error {
	target, err := routeTarget(tx, r)
	if err != nil {
		return err
	}
	if err := p.dropBindings(tx, by, "route_guid", r.GUID); err != nil {
		return err
	}
	if _, err := tx.Destinations().DeleteAll(platform.Where("route_guid", r.GUID)); err != nil {
		return err
	}
	if err := tx.Routes().Delete(r.GUID); err != nil {
		return err
	}
	announceRoute(tx, r.GUID)
	return p.Record(tx, "audit.route.delete-request", by, target, nil)
}

// maxDestinations is how many a route may have.
const maxDestinations = 100

// AddDestinations maps a route to more processes. An existing one is
// skipped.
func (p *Platform) AddDestinations(tx platform.Tx, by Actor, r *platform.Route, more []*platform.Destination) error {
	have, err := destinationsFor(tx, r, more)
	if err != nil {
		return err
	}
	for _, d := range have {
		if d.Weight != 0 && len(more) > 0 {
			return fault.Invalid("Destinations cannot be inserted when there are weighted destinations already configured.")
		}
	}
	for _, d := range more {
		same := slices.IndexFunc(have, func(h *platform.Destination) bool { return sameDestination(h, d) })
		if same >= 0 {
			if have[same].Protocol != d.Protocol {
				return fault.Invalid("Cannot add destination with a different protocol to the same app, process and port")
			}
			continue
		}
		if err := p.insertDestination(tx, by, r, d); err != nil {
			return err
		}
		have = append(have, d)
	}
	if len(have) > maxDestinations {
		return fault.Invalid(fmt.Sprintf("Routes can be mapped to at most %d destinations.", maxDestinations))
	}
	return nil
}

// ReplaceDestinations sets the destinations of a route. Those that stay keep their
// guids.
func (p *Platform) ReplaceDestinations(tx platform.Tx, by Actor, r *platform.Route,
	want []*platform.Destination) error {
	have, err := destinationsFor(tx, r, want)
	if err != nil {
		return err
	}
	for _, h := range have {
		if !slices.ContainsFunc(want, func(w *platform.Destination) bool {
			return sameDestination(h, w) && h.Protocol == w.Protocol && h.Weight == w.Weight
		}) {
			if err := p.RemoveDestination(tx, by, r, h); err != nil {
				return err
			}
		}
	}
	for _, w := range want {
		if !slices.ContainsFunc(have, func(h *platform.Destination) bool {
			return sameDestination(h, w) && h.Protocol == w.Protocol && h.Weight == w.Weight
		}) {
			if err := p.insertDestination(tx, by, r, w); err != nil {
				return err
			}
		}
	}
	return nil
}

// destinationsFor sets the protocols of more destinations of a route, and returns
// those that it has.
func destinationsFor(tx platform.Tx, r *platform.Route, more []*platform.Destination) (have []*platform.Destination,
	err error) {
	for _, d := range more {
		if d.Protocol, err = platform.DestinationProtocol(r, d.Protocol); err != nil {
			return nil, err
		}
	}
	have, _, err = tx.Destinations().List(platform.Where("route_guid", r.GUID))
	return have, err
}

func sameDestination(a, b *platform.Destination) bool {
	return a.AppGUID == b.AppGUID && a.ProcessType == b.ProcessType && a.Port == b.Port
}

func (p *Platform) insertDestination(tx platform.Tx, by Actor, r *platform.Route, d *platform.Destination) error {
	d.RouteGUID = r.GUID
	if err := tx.Destinations().Insert(d); err != nil {
		return err
	}
	announceRoute(tx, r.GUID)
	return p.recordMapping(tx, "audit.app.map-route", by, r, d)
}

// UpdateDestination changes the protocol of a destination.
func (p *Platform) UpdateDestination(tx platform.Tx, r *platform.Route, d *platform.Destination,
	protocol string) error {
	switch {
	case r.Protocol == platform.ProtocolTCP && protocol != platform.ProtocolTCP:
		return fault.Invalid("Destination protocol must be 'tcp' if the parent route's protocol is 'tcp'")
	case r.Protocol != platform.ProtocolTCP && protocol != "http1" && protocol != "http2":
		return fault.Invalid("Destination protocol must be 'http1' or 'http2' if the parent route's protocol is 'http'")
	}
	d.Protocol = protocol
	announceRoute(tx, d.RouteGUID)
	return tx.Destinations().Update(d)
}

// RemoveDestination removes one destination from a route.
func (p *Platform) RemoveDestination(tx platform.Tx, by Actor, r *platform.Route, d *platform.Destination) error {
	if err := tx.Destinations().Delete(d.GUID); err != nil {
		return err
	}
	announceRoute(tx, d.RouteGUID)
	return p.recordMapping(tx, "audit.app.unmap-route", by, r, d)
}

func (p *Platform) recordMapping(tx platform.Tx, kind string, by Actor, r *platform.Route,
	d *platform.Destination) error {
	app, err := tx.Apps().Get(d.AppGUID)
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	target, err := appTarget(tx, app)
	if err != nil {
		return err
	}
	data := map[string]any{
		"route_guid": r.GUID, "app_port": d.Port, "destination_guid": d.GUID, "process_type": d.ProcessType, "weight": nil,
		"protocol": d.Protocol,
	}
	if d.Port == 0 {
		data["app_port"] = platform.DefaultPort
	}
	if d.Weight != 0 {
		data["weight"] = d.Weight
	}
	return p.Record(tx, kind, by, target, data)
}
