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
	Include: rest.IncludeBy(includesOfBindings),
}

func (a *API) routeBindingRoutes(g *web.Group) {
	const path = "/v3/service_route_bindings"
	g.Handle(http.MethodGet, path, rest.Read,
		serviceRouteBindings.ListerWhere(a.Server, ofTypes(platform.In("type", platform.BindingRoute))))
	g.Handle(http.MethodPost, path, rest.Write, a.createRouteBinding)
	g.Handle(http.MethodGet, path+"/{guid}", rest.Read, serviceRouteBindings.GetterBy(a.Server, routeBinding))
	g.Handle(http.MethodPatch, path+"/{guid}", rest.Write, a.bindingPatcher(routeBinding))
	g.Handle(http.MethodDelete, path+"/{guid}", rest.Write, a.unbinder(routeBinding))
	g.Handle(http.MethodGet, path+"/{guid}/parameters", rest.Read, a.bindingParameters(routeBinding))
}

func routeBinding(req *rest.Request) (*platform.ServiceBinding, error) {
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
		want.Instance, err = related(req, req.Tx.ServiceInstances(), body.Relationships.Instance, "Service instance")
		if err != nil {
			return want, err
		}
		if want.Route, err = related(req, req.Tx.Routes(), body.Relationships.Route, "Route"); err != nil {
			return want, err
		}
		_, err = req.Caller.MayInSpace(req.Tx, want.Route.SpaceGUID, platform.Develop)
		return want, err
	})
}
