package api

import (
	"maps"
	"net/http"
	"slices"
	"strings"

	"ingot/internal/base/fault"
	"ingot/internal/base/web"
	"ingot/internal/platform"
	"ingot/internal/platform/actions"
	"ingot/internal/platform/api/listing"
)

var routes = resource[platform.Route, routeBody]{
	noun: "Route", repo: platform.Tx.Routes, present: presentRoutes,
	list: listing.Params{
		Filters: listing.Filters{
			"hosts": listing.Text("host"), "paths": listing.Text("path"), "domain_guids": listing.Text("domain_guid"), "space_guids": listing.Text("space_guid"),
			"organization_guids": listing.Text("organization_guid"), "app_guids": listing.Text("app_guid"), "ports": listing.Number("port"),
		},
		Includes: []string{"domain", "space", "space.organization"},
		Extra:    []string{"service_instance_guids"},
	},
	include: includeOfRoutes,
}

func includeOfRoutes(req *request, l *listing.Request, items []*platform.Route) (map[string]any, error) {
	if len(l.Include) == 0 {
		return nil, nil
	}
	out, err := includePlaces(req, l, guidsOf(items, func(r *platform.Route) string { return r.SpaceGUID }))
	if err != nil || !slices.Contains(l.Include, "domain") {
		return out, err
	}
	more, err := included(req, "domains", domains, guidsOf(items, func(r *platform.Route) string { return r.DomainGUID }))
	maps.Copy(out, more)
	return out, err
}

func (a *API) routeRoutes(g *web.Group) {
	g.Handle(http.MethodGet, "/v3/routes", web.Scope(readers...), routes.lister(a))
	g.Handle(http.MethodPost, "/v3/routes", web.Scope(writers...), a.createRoute)
	g.Handle(http.MethodGet, "/v3/routes/{guid}", web.Scope(readers...), routes.getter(a))
	g.Handle(http.MethodPatch, "/v3/routes/{guid}", web.Scope(writers...), a.updateRoute)
	g.Handle(http.MethodDelete, "/v3/routes/{guid}", web.Scope(writers...), a.deleteRoute)
	g.Handle(http.MethodGet, "/v3/apps/{guid}/routes", web.Scope(readers...), listerOf(a, routes, platform.Tx.Apps, "App", "app_guid"))
	g.Handle(http.MethodDelete, "/v3/spaces/{guid}/routes", web.Scope(writers...), a.deleteUnmappedRoutes)

	g.Handle(http.MethodGet, "/v3/routes/{guid}/destinations", web.Scope(readers...), a.listDestinations)
	g.Handle(http.MethodPost, "/v3/routes/{guid}/destinations", web.Scope(writers...), a.addDestinations)
	g.Handle(http.MethodPatch, "/v3/routes/{guid}/destinations", web.Scope(writers...), a.replaceDestinations)
	g.Handle(http.MethodPatch, "/v3/routes/{guid}/destinations/{destination}", web.Scope(writers...), a.updateDestination)
	g.Handle(http.MethodDelete, "/v3/routes/{guid}/destinations/{destination}", web.Scope(writers...), a.removeDestination)
}

type routeRequest struct {
	Host          *string                `json:"host"`
	Path          *string                `json:"path"`
	Port          *int                   `json:"port"`
	Options       map[string]any         `json:"options"`
	Metadata      *actions.MetadataPatch `json:"metadata"`
	Relationships struct {
		Space  relation `json:"space"`
		Domain relation `json:"domain"`
	} `json:"relationships"`
}

// mergeOptions sets route options; null removes an option.
func (a *API) mergeOptions(req *request, have map[string]string, patch map[string]any) (map[string]string, error) {
	hash, err := flagOn(req.tx, flagHashRouting)
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

func (a *API) createRoute(w http.ResponseWriter, r *http.Request) error {
	var body routeRequest
	if err := web.DecodeStrict(r, &body); err != nil {
		return err
	}
	space, domain := body.Relationships.Space.Data, body.Relationships.Domain.Data
	if space == nil || domain == nil {
		return fault.Invalid("Relationships 'relationships' must include 'space' and 'domain'")
	}
	return answer(a, w, r, routes, http.StatusCreated, func(req *request) (*platform.Route, error) {
		if _, err := find(req.caller, req.tx.Spaces(), space.GUID, "Space"); err != nil {
			return nil, notAccessible(err, "Invalid space. Ensure that the space exists and you have access to it.")
		}
		s, err := req.caller.mayInSpace(req.tx, space.GUID, platform.Operate)
		if err != nil {
			return nil, err
		}
		if err := req.needFlag("route_creation"); err != nil {
			return nil, err
		}
		d, err := find(req.caller, req.tx.Domains(), domain.GUID, "Domain")
		if err != nil {
			return nil, notAccessible(err, "Invalid domain. Ensure that the domain exists and you have access to it.")
		}
		if !platform.UsableIn(d, s.OrgGUID) {
			return nil, fault.Invalid("Invalid domain. Domain '" + d.Name + "' is not available in organization.")
		}
		route := &platform.Route{SpaceGUID: s.GUID, DomainGUID: d.GUID}
		if body.Host != nil {
			route.Host = *body.Host
		}
		if body.Path != nil {
			route.Path = *body.Path
		}
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
		return route, a.platform.CreateRoute(req.tx, req.caller.actor(), route, d)
	})
}

// routeFor returns the route of the path if the caller may change it.
func (a *API) routeFor(req *request) (*platform.Route, error) {
	route, err := find(req.caller, req.tx.Routes(), web.Param(req.r, "guid"), "Route")
	if err != nil {
		return nil, err
	}
	_, err = req.caller.mayInSpace(req.tx, route.SpaceGUID, platform.Operate)
	return route, err
}

func (a *API) updateRoute(w http.ResponseWriter, r *http.Request) error {
	var body struct {
		Options  map[string]any         `json:"options"`
		Metadata *actions.MetadataPatch `json:"metadata"`
	}
	if err := web.DecodeStrict(r, &body); err != nil {
		return err
	}
	return answer(a, w, r, routes, http.StatusOK, func(req *request) (*platform.Route, error) {
		route, err := a.routeFor(req)
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
		return route, a.platform.UpdateRoute(req.tx, req.caller.actor(), route)
	})
}

func (a *API) deleteRoute(w http.ResponseWriter, r *http.Request) error {
	return a.conclude(w, r, "route.delete", func(req *request) (*platform.Job, error) {
		route, err := a.routeFor(req)
		if err != nil {
			return nil, err
		}
		return a.services.DeleteRoute(req.tx, req.caller.actor(), route)
	})
}

func (a *API) deleteUnmappedRoutes(w http.ResponseWriter, r *http.Request) error {
	if r.URL.Query().Get("unmapped") != "true" {
		return fault.Invalid("Mass delete not supported for mapped routes. Use 'unmapped=true' parameter to delete all unmapped routes.")
	}
	return a.finish(w, r, "space.delete_unmapped_routes", func(req *request) error {
		space, err := req.space(platform.Operate)
		if err != nil {
			return err
		}
		unmapped, _, err := req.tx.Routes().List(platform.Where("space_guid", space.GUID).And(platform.In("unmapped", true)))
		if err != nil {
			return err
		}
		for _, route := range unmapped {
			if err := a.platform.DeleteRoute(req.tx, req.caller.actor(), route); err != nil {
				return err
			}
		}
		return nil
	})
}

type routeBody struct {
	resourceBody
	Protocol      string            `json:"protocol"`
	Host          string            `json:"host"`
	Path          string            `json:"path"`
	Port          *int              `json:"port"`
	URL           string            `json:"url"`
	Destinations  []destinationBody `json:"destinations"`
	Options       map[string]string `json:"options"`
	Metadata      metadata          `json:"metadata"`
	Relationships map[string]any    `json:"relationships"`
	Links         links             `json:"links"`
}

// presentRoutes reads the domains and destinations of all routes of the page at once.
func presentRoutes(req *request, items []*platform.Route) ([]routeBody, error) {
	found, _, err := req.tx.Domains().List(platform.Query{Where: []platform.Cond{platform.InStrings("guid", guidsOf(items, func(r *platform.Route) string { return r.DomainGUID }))}})
	if err != nil {
		return nil, err
	}
	byGUID := map[string]*platform.Domain{}
	for _, d := range found {
		byGUID[d.GUID] = d
	}
	mapped, _, err := req.tx.Destinations().List(platform.Query{Where: []platform.Cond{platform.InStrings("route_guid", guidsOf(items, func(r *platform.Route) string { return r.GUID }))}})
	if err != nil {
		return nil, err
	}
	shown, err := presenterOf(req.tx, mapped)
	if err != nil {
		return nil, err
	}
	byRoute := map[string][]destinationBody{}
	for _, d := range mapped {
		byRoute[d.RouteGUID] = append(byRoute[d.RouteGUID], shown.present(d))
	}
	return presentAll(items, func(r *platform.Route) routeBody {
		self := "/routes/" + escape(r.GUID)
		b := routeBody{
			resourceBody: presentResource(&r.Resource), Protocol: r.Protocol, Host: r.Host, Path: r.Path, Destinations: byRoute[r.GUID],
			Options: r.Options, Metadata: presentMetadata(&r.Metadata),
			Relationships: map[string]any{"space": toOne(r.SpaceGUID), "domain": toOne(r.DomainGUID)},
			Links: links{
				"self": req.v3(self), "space": req.v3("/spaces/", escape(r.SpaceGUID)), "domain": req.v3("/domains/", escape(r.DomainGUID)),
				"destinations": req.v3(self, "/destinations"),
			},
		}
		if b.Destinations == nil {
			b.Destinations = []destinationBody{}
		}
		if b.Options == nil {
			b.Options = map[string]string{}
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
