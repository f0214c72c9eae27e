package services

import (
	"net/http"

	"ingot/internal/base/fault"
	"ingot/internal/base/web"
	"ingot/internal/platform"
	"ingot/internal/platform/actions"
	"ingot/internal/platform/api/listing"
	"ingot/internal/platform/api/rest"
	"ingot/internal/platform/services"
)

var serviceRouteBindings = rest.Resource[platform.ServiceBinding, bindingBody]{
	Noun: "Service route binding", Repo: platform.Tx.ServiceBindings, Present: presentBindings,
	List: listing.Params{
		Filters: listing.Filters{
			"route_guids": listing.Text("route_guid"), "service_instance_guids": listing.Text("instance_guid"),
			"service_instance_names": listing.Text("instance_name"),
		},
		Includes: []string{"route", "service_instance"},
	},
	Include: includeOfBindings,
}

func (a *API) routeBindingRoutes(g *web.Group) {
	const path = "/v3/service_route_bindings"
	g.Handle(http.MethodGet, path, rest.Read,
		serviceRouteBindings.ListerWhere(a.Server, func(*rest.Request) ([]platform.Cond, error) {
			return []platform.Cond{platform.In("type", platform.BindingRoute)}, nil
		}))
	g.Handle(http.MethodPost, path, rest.Write, a.createRouteBinding)
	g.Handle(http.MethodGet, path+"/{guid}", rest.Read, serviceRouteBindings.GetterBy(a.Server, a.routeBinding))
	g.Handle(http.MethodPatch, path+"/{guid}", rest.Write, a.bindingPatcher(a.routeBinding))
	g.Handle(http.MethodDelete, path+"/{guid}", rest.Write, a.deleteRouteBinding)
	g.Handle(http.MethodGet, path+"/{guid}/parameters", rest.Read, a.bindingParameters(a.routeBinding))
}

func (a *API) routeBinding(req *rest.Request) (*platform.ServiceBinding, error) {
	return bindingOf(req, "Service route binding", platform.BindingRoute)
}

func (a *API) createRouteBinding(w http.ResponseWriter, r *http.Request) error {
	var body struct {
		Parameters    rest.Object            `json:"parameters"`
		Metadata      *actions.MetadataPatch `json:"metadata"`
		Relationships struct {
			Route    rest.Relation `json:"route"`
			Instance rest.Relation `json:"service_instance"`
		} `json:"relationships"`
	}
	if err := web.DecodeStrict(r, &body); err != nil {
		return err
	}
	if body.Relationships.Route.Data == nil || body.Relationships.Instance.Data == nil {
		return fault.Invalid("Relationships 'relationships' must include 'route' and 'service_instance'")
	}
	return a.bind(w, r, serviceRouteBindings, func(req *rest.Request) (services.Bind, error) {
		want := services.Bind{Type: platform.BindingRoute, Parameters: body.Parameters}
		if err := body.Metadata.Apply(&want.Metadata); err != nil {
			return want, err
		}
		var err error
		want.Instance, err = rest.Find(req.Caller, req.Tx.ServiceInstances(), body.Relationships.Instance.Data.GUID,
			"Service instance")
		if err != nil {
			return want, rest.NotAccessible(err, "The service instance could not be found: '"+
				body.Relationships.Instance.Data.GUID+"'")
		}
		want.Route, err = rest.Find(req.Caller, req.Tx.Routes(), body.Relationships.Route.Data.GUID, "Route")
		if err != nil {
			return want, rest.NotAccessible(err, "The route could not be found: '"+body.Relationships.Route.Data.GUID+"'")
		}
		_, err = req.Caller.MayInSpace(req.Tx, want.Route.SpaceGUID, platform.Develop)
		return want, err
	})
}

func (a *API) deleteRouteBinding(w http.ResponseWriter, r *http.Request) error {
	return a.unbind(w, r, a.routeBinding, platform.Develop)
}
