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
)

var routes = resource[platform.Route, routeBody]{
	noun: "Route", repo: platform.Tx.Routes, present: presentRoutes,
	list: listing{
		filters: map[string]filter{
			"hosts": byText("host"), "paths": byText("path"), "domain_guids": byText("domain_guid"), "space_guids": byText("space_guid"),
			"organization_guids": byText("organization_guid"), "app_guids": byText("app_guid"), "ports": byNumber("port"),
		},
		includes: []string{"domain", "space", "space.organization"},
		extra:    []string{"service_instance_guids"},
	},
	include: includeOfRoutes,
}

func includeOfRoutes(p *presenter, l *list, items []*platform.Route) (map[string]any, error) {
	if len(l.include) == 0 {
		return nil, nil
	}
	out, err := includePlaces(p, l, guidsOf(items, func(r *platform.Route) string { return r.SpaceGUID }))
	if err != nil || !slices.Contains(l.include, "domain") {
		return out, err
	}
	more, err := included(p, "domains", domains, guidsOf(items, func(r *platform.Route) string { return r.DomainGUID }))
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

// mergeOptions applies route options; null removes one.
func (a *API) mergeOptions(p *presenter, have map[string]string, patch map[string]any) (map[string]string, error) {
	hash, err := a.flagOn(p.tx, flagHashRouting)
	if err != nil {
		return nil, err
	}
	var problems []string
	if unknown := actions.UnknownRouteOptions(patch, hash); len(unknown) > 0 {
		problems = append(problems, "Unknown field(s): '"+strings.Join(unknown, "', '")+"'")
	}
	allowed := actions.LoadBalancings(hash)
	if v := patch[actions.OptionLoadBalancing]; v != nil {
		if text, ok := v.(string); !ok || !slices.Contains(allowed, text) {
			problems = append(problems, "Loadbalancing must be one of '"+strings.Join(allowed, ", ")+"' if present")
		}
	}
	if hash && len(problems) == 0 {
		problems = actions.CheckRouteOptions(patch)
	}
	for i := range problems {
		problems[i] = "Options " + problems[i]
	}
	if err := fault.Invalid(problems...); err != nil {
		return nil, err
	}
	return actions.MergeRouteOptions(have, patch)
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
	return answer(a, w, r, routes, http.StatusCreated, func(p *presenter) (*platform.Route, error) {
		if _, err := find(p.caller, p.tx.Spaces(), space.GUID, "Space"); err != nil {
			return nil, notAccessible(err, "Invalid space. Ensure that the space exists and you have access to it.")
		}
		s, err := p.caller.mayInSpace(p.tx, space.GUID, platform.Operate)
		if err != nil {
			return nil, err
		}
		if err := a.needFlag(p, "route_creation"); err != nil {
			return nil, err
		}
		d, err := find(p.caller, p.tx.Domains(), domain.GUID, "Domain")
		if err != nil {
			return nil, notAccessible(err, "Invalid domain. Ensure that the domain exists and you have access to it.")
		}
		if !actions.UsableIn(d, s.OrgGUID) {
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
			route.Port = *body.Port
		}
		if route.Options, err = a.mergeOptions(p, nil, body.Options); err != nil {
			return nil, err
		}
		if err := body.Metadata.Apply(&route.Metadata); err != nil {
			return nil, err
		}
		return route, a.platform.CreateRoute(p.tx, p.caller.actor(), route, d)
	})
}

// routeFor is the route of the path, for those who may change it.
func (a *API) routeFor(p *presenter) (*platform.Route, error) {
	route, err := find(p.caller, p.tx.Routes(), web.Param(p.r, "guid"), "Route")
	if err != nil {
		return nil, err
	}
	_, err = p.caller.mayInSpace(p.tx, route.SpaceGUID, platform.Operate)
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
	defer a.signals.RoutesChanged(web.Param(r, "guid"))
	return answer(a, w, r, routes, http.StatusOK, func(p *presenter) (*platform.Route, error) {
		route, err := a.routeFor(p)
		if err != nil {
			return nil, err
		}
		if len(body.Options) > 0 {
			if route.Options, err = a.mergeOptions(p, route.Options, body.Options); err != nil {
				return nil, err
			}
		}
		if err := body.Metadata.Apply(&route.Metadata); err != nil {
			return nil, err
		}
		return route, a.platform.UpdateRoute(p.tx, p.caller.actor(), route)
	})
}

func (a *API) deleteRoute(w http.ResponseWriter, r *http.Request) error {
	defer a.signals.RoutesChanged(web.Param(r, "guid"))
	return a.conclude(w, r, "route.delete", func(p *presenter) (*platform.Job, error) {
		route, err := a.routeFor(p)
		if err != nil {
			return nil, err
		}
		return a.services.DeleteRoute(p.tx, p.caller.actor(), route)
	})
}

func (a *API) deleteUnmappedRoutes(w http.ResponseWriter, r *http.Request) error {
	if r.URL.Query().Get("unmapped") != "true" {
		return fault.Invalid("Mass delete not supported for mapped routes. Use 'unmapped=true' parameter to delete all unmapped routes.")
	}
	return a.finish(w, r, "space.delete_unmapped_routes", func(p *presenter) error {
		space, err := a.spaceFor(p, platform.Operate)
		if err != nil {
			return err
		}
		unmapped, _, err := p.tx.Routes().List(platform.Where("space_guid", space.GUID).And(platform.In("unmapped", true)))
		if err != nil {
			return err
		}
		for _, route := range unmapped {
			if err := a.platform.DeleteRoute(p.tx, p.caller.actor(), route); err != nil {
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

// presentRoutes reads domains and destinations of the whole page at once.
func presentRoutes(p *presenter, items []*platform.Route) ([]routeBody, error) {
	found, _, err := p.tx.Domains().List(platform.Query{Where: []platform.Cond{platform.InStrings("guid", guidsOf(items, func(r *platform.Route) string { return r.DomainGUID }))}})
	if err != nil {
		return nil, err
	}
	byGUID := map[string]*platform.Domain{}
	for _, d := range found {
		byGUID[d.GUID] = d
	}
	mapped, _, err := p.tx.Destinations().List(platform.Query{Where: []platform.Cond{platform.InStrings("route_guid", guidsOf(items, func(r *platform.Route) string { return r.GUID }))}})
	if err != nil {
		return nil, err
	}
	byRoute := map[string][]destinationBody{}
	for _, d := range mapped {
		byRoute[d.RouteGUID] = append(byRoute[d.RouteGUID], presentDestination(d))
	}
	return presentAll(items, func(r *platform.Route) routeBody {
		self := "/routes/" + escape(r.GUID)
		b := routeBody{
			resourceBody: presentResource(&r.Resource), Protocol: r.Protocol, Host: r.Host, Path: r.Path, Destinations: byRoute[r.GUID],
			Options: r.Options, Metadata: presentMetadata(&r.Metadata),
			Relationships: map[string]any{"space": toOne(r.SpaceGUID), "domain": toOne(r.DomainGUID)},
			Links: links{
				"self": p.v3(self), "space": p.v3("/spaces/", escape(r.SpaceGUID)), "domain": p.v3("/domains/", escape(r.DomainGUID)),
				"destinations": p.v3(self, "/destinations"),
			},
		}
		if b.Destinations == nil {
			b.Destinations = []destinationBody{}
		}
		if b.Options == nil {
			b.Options = map[string]string{}
		}
		if d := byGUID[r.DomainGUID]; d != nil {
			b.URL = actions.RouteURL(r, d)
		}
		return b
	}), nil
}
