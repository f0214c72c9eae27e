package api

import (
	"net/http"

	"ingot/internal/base/web"
	"ingot/internal/platform"
	"ingot/internal/platform/api/listing"
)

var serviceOfferings = resource[platform.ServiceOffering, offeringBody]{
	noun: "Service offering", repo: platform.Tx.ServiceOfferings, present: each(presentOffering),
	metadataOnly: true,
	list: listing.Params{
		Filters: listing.Filters{
			"names": listing.Text("name"), "available": listing.Flag("available"), "service_broker_guids": listing.Text("broker_guid"), "service_broker_names": listing.Text("broker_name"),
			"space_guids": listing.Text("usable_in_space_guid"), "organization_guids": listing.Text("usable_in_organization_guid"),
		},
		Orders: []string{"name"}, Fields: []string{"service_broker"},
	},
	include: func(req *request, l *listing.Request, items []*platform.ServiceOffering) (map[string]any, error) {
		c := &chain{req, l, map[string]any{}}
		err := c.add("service_broker", func(f []string) (map[string]any, error) {
			return picked(req, "service_brokers", serviceBrokers, guidsOf(items, func(o *platform.ServiceOffering) string { return o.BrokerGUID }), f)
		})
		return c.done(), err
	},
}

func (a *API) serviceOfferingRoutes(g *web.Group) {
	read, write := web.Scope(readers...), web.Scope(writers...)
	g.Handle(http.MethodGet, "/v3/service_offerings", read, serviceOfferings.lister(a))
	g.Handle(http.MethodGet, "/v3/service_offerings/{guid}", read, serviceOfferings.getter(a))
	g.Handle(http.MethodPatch, "/v3/service_offerings/{guid}", write, metadataPatcher(a, serviceOfferings, a.offeringFor))
	g.Handle(http.MethodDelete, "/v3/service_offerings/{guid}", write, a.deleteOffering)
}

// offeringFor returns the offering of the path if the caller may change it.
func (a *API) offeringFor(req *request) (*platform.ServiceOffering, error) {
	o, err := find(req.caller, req.tx.ServiceOfferings(), web.Param(req.r, "guid"), "Service offering")
	if err != nil {
		return nil, err
	}
	b, err := req.tx.ServiceBrokers().Get(o.BrokerGUID)
	if err != nil {
		return nil, err
	}
	return o, mayChangeCatalog(req, b)
}

// deleteOffering deletes an offering; with purge=true also its instances and
// bindings, without calling the broker.
func (a *API) deleteOffering(w http.ResponseWriter, r *http.Request) error {
	purge := r.URL.Query().Get("purge") == "true"
	return a.perform(w, r, http.StatusNoContent, func(req *request) (any, error) {
		o, err := a.offeringFor(req)
		if err != nil {
			return nil, err
		}
		return nil, a.services.DeleteOffering(req.tx, req.caller.actor(), o, purge)
	})
}

type offeringBody struct {
	resourceBody
	Name          string         `json:"name"`
	Description   string         `json:"description"`
	Available     bool           `json:"available"`
	Tags          []string       `json:"tags"`
	Requires      []string       `json:"requires"`
	Shareable     bool           `json:"shareable"`
	Documentation *string        `json:"documentation_url"`
	Catalog       map[string]any `json:"broker_catalog"`
	Relationships map[string]any `json:"relationships"`
	Metadata      metadata       `json:"metadata"`
	Links         links          `json:"links"`
}

func presentOffering(req *request, o *platform.ServiceOffering) offeringBody {
	return offeringBody{
		resourceBody: presentResource(&o.Resource), Name: o.Name, Description: o.Description, Available: o.Available,
		Tags: notNull(o.Tags), Requires: notNull(o.Requires), Shareable: o.Shareable, Documentation: orNull(o.DocumentationURL),
		Catalog: map[string]any{
			"id": o.CatalogID, "metadata": notNullObject(o.CatalogMetadata),
			"features": map[string]bool{
				"plan_updateable": o.PlanUpdateable, "bindable": o.Bindable, "instances_retrievable": o.InstancesRetrievable,
				"bindings_retrievable": o.BindingsRetrievable, "allow_context_updates": o.AllowContextUpdates,
			},
		},
		Relationships: map[string]any{"service_broker": toOne(o.BrokerGUID)}, Metadata: presentMetadata(&o.Metadata),
		Links: links{
			"self":           req.v3("/service_offerings/", escape(o.GUID)),
			"service_plans":  req.v3("/service_plans?service_offering_guids=", escape(o.GUID)),
			"service_broker": req.v3("/service_brokers/", escape(o.BrokerGUID)),
		},
	}
}
