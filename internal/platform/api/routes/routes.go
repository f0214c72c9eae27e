package routes

import (
	"net/http"
	"slices"
	"strings"

	"ingot/internal/base/fault"
	"ingot/internal/base/web"
	"ingot/internal/platform"
	"ingot/internal/platform/actions"
	"ingot/internal/platform/api/listing"
	"ingot/internal/platform/api/orgs"
	"ingot/internal/platform/api/rest"
)

// Routes are the routes; bindings include them.
var Routes = rest.Resource[platform.Route, routeBody]{
	Noun: "Route", Repo: platform.Tx.Routes, Present: presentRoutes,
	List: listing.Params{
		Filters: listing.Filters{
			"hosts": listing.Text("host"), "paths": listing.Text("path"), "domain_guids": listing.Text("domain_guid"),
			"space_guids":        listing.Text("space_guid"),
			"organization_guids": listing.Text("organization_guid"), "app_guids": listing.Text("app_guid"),
			"ports": listing.Number("port"),
		},
		Includes: []string{"domain", "space", "space.organization"},
		Extra:    []string{"service_instance_guids"},
	},
	Include: rest.IncludeBy(orgs.Places(spaceOfRoute), map[string]rest.Includer[platform.Route]{
		"domain": rest.Referred("domains", domains, func(r *platform.Route) string { return r.DomainGUID }),
	}),
}

func spaceOfRoute(r *platform.Route) string { return r.SpaceGUID }

func (a *API) routeRoutes(g *web.Group) {
	g.Handle(http.MethodGet, "/v3/routes", rest.Read, Routes.Lister(a.Server))
	g.Handle(http.MethodPost, "/v3/routes", rest.Write, rest.Creator(a.Server, Routes, a.createRoute))
	g.Handle(http.MethodGet, "/v3/routes/{guid}", rest.Read, Routes.Getter(a.Server))
	g.Handle(http.MethodPatch, "/v3/routes/{guid}", rest.Write, rest.Updater(a.Server, Routes, a.updateRoute))
	g.Handle(http.MethodDelete, "/v3/routes/{guid}", rest.Write,
		rest.JobDeleter(a.Server, "route.delete", routeFor, a.Services.DeleteRoute))
	g.Handle(http.MethodGet, "/v3/apps/{guid}/routes", rest.Read, rest.ListerOf(a.Server, Routes, platform.Tx.Apps, "App",
		"app_guid"))
	g.Handle(http.MethodDelete, "/v3/spaces/{guid}/routes", rest.Write, a.deleteUnmappedRoutes)

	g.Handle(http.MethodGet, "/v3/routes/{guid}/destinations", rest.Read, a.listDestinations)
	g.Handle(http.MethodPost, "/v3/routes/{guid}/destinations", rest.Write, a.setDestinations(false))
	g.Handle(http.MethodPatch, "/v3/routes/{guid}/destinations", rest.Write, a.setDestinations(true))
	g.Handle(http.MethodPatch, "/v3/routes/{guid}/destinations/{destination}", rest.Write, a.updateDestination)
	g.Handle(http.MethodDelete, "/v3/routes/{guid}/destinations/{destination}", rest.Write, a.removeDestination)
}

type routeRequest struct {
	Host          *string                `json:"host"`
	Path          *string                `json:"path"`
	Port          *int                   `json:"port"`
	Options       map[string]any         `json:"options"`
	Metadata      *actions.MetadataPatch `json:"metadata"`
	Relationships struct {
		Space  rest.Relation `json:"space"`
		Domain rest.Relation `json:"domain"`
	} `json:"relationships"`
}

// mergeOptions sets route options; null removes an option.
func (a *API) mergeOptions(req *rest.Request, have map[string]string, patch map[string]any) (map[string]string, error) {
	hash, err := rest.FlagOn(req.Tx, rest.FlagHashRouting)
	if err != nil {
		return nil, err
	}
	var problems []string
	if unknown := platform.UnknownRouteOptions(patch, hash); len(unknown) > 0 {
		problems = append(problems, "Unknown field(s): '"+strings.Join(unknown, "', '")+"'")
	}
	allowed := platform.LoadBalancings(hash)
	if v := patch[platform.OptionLoadBalancing]; v != nil {
		if text, ok := v.(string); !ok || !slices.Contains(allowed, text) {
			problems = append(problems, "Loadbalancing must be one of '"+strings.Join(allowed, ", ")+"' if present")
		}
	}
	if len(problems) == 0 {
		problems = platform.CheckRouteOptions(patch)
	}
	for i := range problems {
		problems[i] = "Options " + problems[i]
	}
	if err := fault.Invalid(problems...); err != nil {
		return nil, err
	}
	return platform.MergeRouteOptions(have, patch)
}

func (a *API) createRoute(req *rest.Request, body *routeRequest) (*platform.Route, error) {
	space, domain := body.Relationships.Space.Data, body.Relationships.Domain.Data
	if space == nil || domain == nil {
		return nil, fault.Invalid("Relationships 'relationships' must include 'space' and 'domain'")
	}
	s, err := req.SpaceNamed(space.GUID, platform.Operate)
	if err != nil {
		return nil, err
	}
	if err := req.NeedFlag("route_creation"); err != nil {
		return nil, err
	}
	d, err := rest.Find(req.Caller, req.Tx.Domains(), domain.GUID, "Domain")
	if err != nil {
		return nil, rest.NotAccessible(err, "Invalid domain. Ensure that the domain exists and you have access to it.")
	}
	if !platform.UsableIn(d, s.OrgGUID) {
		return nil, fault.Invalid("Invalid domain. Domain '" + d.Name + "' is not available in organization.")
	}
	route := &platform.Route{SpaceGUID: s.GUID, DomainGUID: d.GUID}
	web.Set(&route.Host, body.Host)
	web.Set(&route.Path, body.Path)
	if body.Port != nil {
		if route.Port = *body.Port; route.Port < 0 || route.Port > 65535 {
			return nil, fault.Invalid("Port must be greater than or equal to 0 and less than or equal to 65535")
		}
	}
	if route.Options, err = a.mergeOptions(req, nil, body.Options); err != nil {
		return nil, err
	}
	if err := body.Metadata.Apply(&route.Metadata); err != nil {
		return nil, err
	}
	return route, a.Platform.CreateRoute(req.Tx, req.Caller.Actor(), route, d)
}

// routeFor returns the route of the path if the caller may change it.
var routeFor = rest.InSpace(Routes.Find, spaceOfRoute, platform.Operate)

type routeChange struct {
	Options  map[string]any         `json:"options"`
	Metadata *actions.MetadataPatch `json:"metadata"`
}

func (a *API) updateRoute(req *rest.Request, body *routeChange) (*platform.Route, error) {
	route, err := routeFor(req)
	if err != nil {
		return nil, err
	}
	if len(body.Options) > 0 {
		if route.Options, err = a.mergeOptions(req, route.Options, body.Options); err != nil {
			return nil, err
		}
	}
	if err := body.Metadata.Apply(&route.Metadata); err != nil {
		return nil, err
	}
	return route, a.Platform.UpdateRoute(req.Tx, req.Caller.Actor(), route)
}

func (a *API) deleteUnmappedRoutes(w http.ResponseWriter, r *http.Request) error {
	if r.URL.Query().Get("unmapped") != "true" {
		return fault.Invalid("Mass delete not supported for mapped routes. Use 'unmapped=true' parameter to delete all " +
			"unmapped routes.")
	}
	return a.Finish(w, r, "space.delete_unmapped_routes", func(req *rest.Request) error {
		space, err := req.Space(platform.Operate)
		if err != nil {
			return err
		}
		unmapped, _, err := req.Tx.Routes().List(platform.Where("space_guid", space.GUID).And(platform.In("unmapped", true)))
		if err != nil {
			return err
		}
		for _, route := range unmapped {
			if err := a.Platform.DeleteRoute(req.Tx, req.Caller.Actor(), route); err != nil {
				return err
			}
		}
		return nil
	})
}

type routeBody struct {
	rest.ResourceBody
	Protocol      string            `json:"protocol"`
	Host          string            `json:"host"`
	Path          string            `json:"path"`
	Port          *int              `json:"port"`
	URL           string            `json:"url"`
	Destinations  []destinationBody `json:"destinations"`
	Options       map[string]string `json:"options"`
	Metadata      rest.Metadata     `json:"metadata"`
	Relationships map[string]any    `json:"relationships"`
	Links         rest.Links        `json:"links"`
}

// presentRoutes reads the domains and destinations of all routes of the page at once.
func presentRoutes(req *rest.Request, items []*platform.Route) ([]routeBody, error) {
	byGUID, err := rest.ByGUID(req.Tx.Domains(), items, func(r *platform.Route) string { return r.DomainGUID })
	if err != nil {
		return nil, err
	}
	mapped, _, err := req.Tx.Destinations().
		List(platform.Query{Where: []platform.Cond{
			platform.InStrings("route_guid", rest.GUIDsOf(items, func(r *platform.Route) string { return r.GUID }))}})
	if err != nil {
		return nil, err
	}
	shown, err := presenterOf(req.Tx, mapped)
	if err != nil {
		return nil, err
	}
	byRoute := map[string][]destinationBody{}
	for _, d := range mapped {
		byRoute[d.RouteGUID] = append(byRoute[d.RouteGUID], shown.present(d))
	}
	return rest.PresentAll(items, func(r *platform.Route) routeBody {
		self := "/routes/" + rest.Escape(r.GUID)
		b := routeBody{
			ResourceBody: rest.PresentResource(&r.Resource), Protocol: r.Protocol, Host: r.Host, Path: r.Path,
			Destinations: byRoute[r.GUID],
			Options:      rest.NonNil(r.Options), Metadata: rest.PresentMetadata(&r.Metadata),
			Relationships: map[string]any{"space": rest.ToOne(r.SpaceGUID), "domain": rest.ToOne(r.DomainGUID)},
			Links: rest.Links{
				"self": req.Link(self), "space": req.Link("/spaces/", rest.Escape(r.SpaceGUID)),
				"domain":       req.Link("/domains/", rest.Escape(r.DomainGUID)),
				"destinations": req.Link(self, "/destinations"),
			},
		}
		if b.Destinations == nil {
			b.Destinations = []destinationBody{}
		}
		if r.Port != 0 {
			b.Port = &r.Port
		}
		if d := byGUID[r.DomainGUID]; d != nil {
			b.URL = platform.RouteURL(r, d)
		}
		return b
	}), nil
}
