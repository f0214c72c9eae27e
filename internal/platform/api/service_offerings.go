package api

import (
	"net/http"

	"ingot/internal/base/web"
	"ingot/internal/platform"
)

var serviceOfferings = resource[platform.ServiceOffering, offeringBody]{
	noun: "Service offering", repo: platform.Tx.ServiceOfferings, present: each(presentOffering),
	metadataOnly: true,
	list: listing{
		filters: map[string]filter{
			"names": byText("name"), "available": byFlag("available"), "service_broker_guids": byText("broker_guid"), "service_broker_names": byText("broker_name"),
			"space_guids": byText("usable_in_space_guid"), "organization_guids": byText("usable_in_organization_guid"),
		},
		orders: []string{"name"}, fields: []string{"service_broker"},
	},
	include: func(p *presenter, l *list, items []*platform.ServiceOffering) (map[string]any, error) {
		c := &chain{p, l, map[string]any{}}
		err := c.add("service_broker", func(f []string) (map[string]any, error) {
			return picked(p, "service_brokers", serviceBrokers, guidsOf(items, func(o *platform.ServiceOffering) string { return o.BrokerGUID }), f)
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

// offeringFor is the offering of the path, for those who may change it.
func (a *API) offeringFor(p *presenter) (*platform.ServiceOffering, error) {
	o, err := find(p.caller, p.tx.ServiceOfferings(), web.Param(p.r, "guid"), "Service offering")
	if err != nil {
		return nil, err
	}
	b, err := p.tx.ServiceBrokers().Get(o.BrokerGUID)
	if err != nil {
		return nil, err
	}
	return o, p.mayChangeCatalog(b)
}

// deleteOffering forgets an offering; with purge=true all its instances and
// bindings too, without asking the broker.
func (a *API) deleteOffering(w http.ResponseWriter, r *http.Request) error {
	purge := r.URL.Query().Get("purge") == "true"
	return a.perform(w, r, http.StatusNoContent, func(p *presenter) (any, error) {
		o, err := a.offeringFor(p)
		if err != nil {
			return nil, err
		}
		return nil, a.services.DeleteOffering(p.tx, p.caller.actor(), o, purge)
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

func presentOffering(p *presenter, o *platform.ServiceOffering) offeringBody {
	return offeringBody{
		resourceBody: presentResource(&o.Resource), Name: o.Name, Description: o.Description, Available: o.Available,
		Tags: notNull(o.Tags), Requires: notNull(o.Requires), Shareable: o.Shareable, Documentation: nullable(o.DocumentationURL),
		Catalog: map[string]any{
			"id": o.CatalogID, "metadata": notNullObject(o.CatalogMetadata),
			"features": map[string]bool{
				"plan_updateable": o.PlanUpdateable, "bindable": o.Bindable, "instances_retrievable": o.InstancesRetrievable,
				"bindings_retrievable": o.BindingsRetrievable, "allow_context_updates": o.AllowContextUpdates,
			},
		},
		Relationships: map[string]any{"service_broker": toOne(o.BrokerGUID)}, Metadata: presentMetadata(&o.Metadata),
		Links: links{
			"self":           p.v3("/service_offerings/", escape(o.GUID)),
			"service_plans":  p.v3("/service_plans?service_offering_guids=", escape(o.GUID)),
			"service_broker": p.v3("/service_brokers/", escape(o.BrokerGUID)),
		},
	}
}
