package api

import (
	"net/http"

	"ingot/internal/base/fault"
	"ingot/internal/base/web"
	"ingot/internal/platform"
	"ingot/internal/platform/actions"
	"ingot/internal/platform/services"
)

var serviceRouteBindings = resource[platform.ServiceBinding, bindingBody]{
	noun: "Service route binding", repo: platform.Tx.ServiceBindings, present: presentBindings,
	list: listing{
		filters: map[string]filter{
			"route_guids": byText("route_guid"), "service_instance_guids": byText("instance_guid"), "service_instance_names": byText("instance_name"),
		},
		includes: []string{"route", "service_instance"},
	},
	include: includeOfBindings,
}

func (a *API) serviceRouteBindingRoutes(g *web.Group) {
	read, write := web.Scope(readers...), web.Scope(writers...)
	const path = "/v3/service_route_bindings"
	g.Handle(http.MethodGet, path, read, serviceRouteBindings.listerWhere(a, func(*presenter) ([]platform.Cond, error) {
		return []platform.Cond{platform.In("type", platform.BindingRoute)}, nil
	}))
	g.Handle(http.MethodPost, path, write, a.createRouteBinding)
	g.Handle(http.MethodGet, path+"/{guid}", read, serviceRouteBindings.getterBy(a, a.routeBinding))
	g.Handle(http.MethodPatch, path+"/{guid}", write, a.bindingPatcher(a.routeBinding))
	g.Handle(http.MethodDelete, path+"/{guid}", write, a.deleteRouteBinding)
	g.Handle(http.MethodGet, path+"/{guid}/parameters", read, a.bindingParameters(a.routeBinding))
}

func (a *API) routeBinding(p *presenter) (*platform.ServiceBinding, error) {
	return bindingOf(p, "Service route binding", platform.BindingRoute)
}

func (a *API) createRouteBinding(w http.ResponseWriter, r *http.Request) error {
	var body struct {
		Parameters    object                 `json:"parameters"`
		Metadata      *actions.MetadataPatch `json:"metadata"`
		Relationships struct {
			Route    relation `json:"route"`
			Instance relation `json:"service_instance"`
		} `json:"relationships"`
	}
	if err := web.DecodeStrict(r, &body); err != nil {
		return err
	}
	if body.Relationships.Route.Data == nil || body.Relationships.Instance.Data == nil {
		return fault.Invalid("Relationships 'relationships' must include 'route' and 'service_instance'")
	}
	return a.bind(w, r, serviceRouteBindings, func(p *presenter) (services.Bind, error) {
		want := services.Bind{Type: platform.BindingRoute, Parameters: body.Parameters}
		if err := body.Metadata.Apply(&want.Metadata); err != nil {
			return want, err
		}
		var err error
		want.Instance, err = find(p.caller, p.tx.ServiceInstances(), body.Relationships.Instance.Data.GUID, "Service instance")
		if err != nil {
			return want, notAccessible(err, "The service instance could not be found: '"+body.Relationships.Instance.Data.GUID+"'")
		}
		want.Route, err = find(p.caller, p.tx.Routes(), body.Relationships.Route.Data.GUID, "Route")
		if err != nil {
			return want, notAccessible(err, "The route could not be found: '"+body.Relationships.Route.Data.GUID+"'")
		}
		_, err = p.caller.mayInSpace(p.tx, want.Route.SpaceGUID, platform.Develop)
		return want, err
	})
}

func (a *API) deleteRouteBinding(w http.ResponseWriter, r *http.Request) error {
	return a.unbind(w, r, a.routeBinding, platform.Develop)
}
