package services

import (
	"net/http"

	"ingot/internal/base/web"
	"ingot/internal/platform"
	"ingot/internal/platform/api/listing"
	"ingot/internal/platform/api/rest"
)

var serviceOfferings = rest.Resource[platform.ServiceOffering, offeringBody]{
	Noun: "Service offering", Repo: platform.Tx.ServiceOfferings, Present: rest.Each(presentOffering),
	MetadataOnly: true,
	List: listing.Params{
		Filters: listing.Filters{
			"names": listing.Text("name"), "available": listing.Flag("available"),
			"service_broker_guids": listing.Text("broker_guid"), "service_broker_names": listing.Text("broker_name"),
			"space_guids":        listing.Text("usable_in_space_guid"),
			"organization_guids": listing.Text("usable_in_organization_guid"),
		},
		Orders: []string{"name"}, Fields: []string{"service_broker"},
	},
	Include: func(req *rest.Request, l *listing.Request, items []*platform.ServiceOffering) (map[string]any, error) {
		c := &chain{req, l, map[string]any{}}
		err := c.add("service_broker", func(f []string) (map[string]any, error) {
			return picked(req, "service_brokers", serviceBrokers,
				rest.GUIDsOf(items, func(o *platform.ServiceOffering) string { return o.BrokerGUID }), f)
		})
		return c.done(), err
	},
}

func (a *API) offeringRoutes(g *web.Group) {
	g.Handle(http.MethodGet, "/v3/service_offerings", rest.Read, serviceOfferings.Lister(a.Server))
	g.Handle(http.MethodGet, "/v3/service_offerings/{guid}", rest.Read, serviceOfferings.Getter(a.Server))
	g.Handle(http.MethodPatch, "/v3/service_offerings/{guid}", rest.Write, rest.MetadataPatcher(a.Server, serviceOfferings,
		a.offeringFor))
	g.Handle(http.MethodDelete, "/v3/service_offerings/{guid}", rest.Write,
		rest.Remover(a.Server, a.offeringFor, a.deleteOffering))
}

// offeringFor returns the offering of the path if the caller may change it.
func (a *API) offeringFor(req *rest.Request) (*platform.ServiceOffering, error) {
	o, err := serviceOfferings.Find(req)
	if err != nil {
		return nil, err
	}
	b, err := req.Tx.ServiceBrokers().Get(o.BrokerGUID)
	if err != nil {
		return nil, err
	}
	return o, mayChangeCatalog(req, b)
}

// deleteOffering deletes an offering; with purge=true also its instances and
// bindings, without calling the broker.
func (a *API) deleteOffering(req *rest.Request, o *platform.ServiceOffering) error {
	return a.Services.DeleteOffering(req.Tx, req.Caller.Actor(), o, req.HTTP.URL.Query().Get("purge") == "true")
}

type offeringBody struct {
	rest.ResourceBody
	Name          string         `json:"name"`
	Description   string         `json:"description"`
	Available     bool           `json:"available"`
	Tags          []string       `json:"tags"`
	Requires      []string       `json:"requires"`
	Shareable     bool           `json:"shareable"`
	Documentation *string        `json:"documentation_url"`
	Catalog       map[string]any `json:"broker_catalog"`
	Relationships map[string]any `json:"relationships"`
	Metadata      rest.Metadata  `json:"metadata"`
	Links         rest.Links     `json:"links"`
}

func presentOffering(req *rest.Request, o *platform.ServiceOffering) offeringBody {
	return offeringBody{
		ResourceBody: rest.PresentResource(&o.Resource), Name: o.Name, Description: o.Description, Available: o.Available,
		Tags: notNull(o.Tags), Requires: notNull(o.Requires), Shareable: o.Shareable,
		Documentation: rest.OrNull(o.DocumentationURL),
		Catalog: map[string]any{
			"id": o.CatalogID, "metadata": rest.NonNil(o.CatalogMetadata),
			"features": map[string]bool{
				"plan_updateable": o.PlanUpdateable, "bindable": o.Bindable, "instances_retrievable": o.InstancesRetrievable,
				"bindings_retrievable": o.BindingsRetrievable, "allow_context_updates": o.AllowContextUpdates,
			},
		},
		Relationships: map[string]any{"service_broker": rest.ToOne(o.BrokerGUID)},
		Metadata:      rest.PresentMetadata(&o.Metadata),
		Links: rest.Links{
			"self":           req.Link("/service_offerings/", rest.Escape(o.GUID)),
			"service_plans":  req.Link("/service_plans?service_offering_guids=", rest.Escape(o.GUID)),
			"service_broker": req.Link("/service_brokers/", rest.Escape(o.BrokerGUID)),
		},
	}
}
