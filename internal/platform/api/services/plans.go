package services

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"

	"ingot/internal/base/web"
	"ingot/internal/platform"
	"ingot/internal/platform/api/listing"
	"ingot/internal/platform/api/orgs"
	"ingot/internal/platform/api/rest"
)

var servicePlans = rest.Resource[platform.ServicePlan, planBody]{
	Noun: "Service plan", Repo: platform.Tx.ServicePlans, Present: presentPlans,
	MetadataOnly: true,
	List: listing.Params{
		Filters: listing.Filters{
			"names": listing.Text("name"), "available": listing.Flag("available"),
			"broker_catalog_ids":     listing.Text("catalog_id"),
			"service_offering_guids": listing.Text("offering_guid"), "service_offering_names": listing.Text("offering_name"),
			"service_broker_guids": listing.Text("broker_guid"), "service_broker_names": listing.Text("broker_name"),
			"service_instance_guids": listing.Text("instance_guid"),
			"space_guids":            listing.Text("usable_in_space_guid"),
			"organization_guids":     listing.Text("usable_in_organization_guid"),
		},
		Orders: []string{"name"}, Includes: []string{"service_offering", "space.organization"},
		Fields: []string{"service_offering.service_broker"},
	},
	Include: includeOfPlans,
}

var includesOfPlans = map[string]rest.Includer[platform.ServicePlan]{
	"service_offering": rest.Referred("service_offerings", serviceOfferings, offeringOf),
	"space.organization": func(req *rest.Request, items []*platform.ServicePlan) (map[string]any, error) {
		spaceOf, err := spacesOfPlans(req.Tx, items)
		if err != nil {
			return nil, err
		}
		places := orgs.Places(func(plan *platform.ServicePlan) string { return spaceOf[plan.OfferingGUID] })
		return places["space.organization"](req, items)
	},
}

func offeringOf(plan *platform.ServicePlan) string { return plan.OfferingGUID }

func includeOfPlans(req *rest.Request, l *listing.Request, items []*platform.ServicePlan) (map[string]any, error) {
	included, err := rest.IncludeBy(includesOfPlans)(req, l, items)
	if err != nil {
		return nil, err
	}
	c := &chain{req, l, rest.NonNil(included)}
	err = c.catalog("", "service_offering.service_broker", rest.GUIDsOf(items, offeringOf))
	return c.done(), err
}

// spacesOfPlans returns the spaces of the brokers of plans by offering; brokers
// without a space are absent.
func spacesOfPlans(tx platform.Tx, items []*platform.ServicePlan) (map[string]string, error) {
	offerings, err := rest.Named(tx.ServiceOfferings(), rest.GUIDsOf(items, offeringOf))
	if err != nil {
		return nil, err
	}
	brokers, _, err := tx.ServiceBrokers().List(platform.Query{Where: []platform.Cond{
		platform.InStrings("guid", rest.GUIDsOf(offerings, func(o *platform.ServiceOffering) string { return o.BrokerGUID })),
		{Field: "space_guid", Op: platform.OpNotNull},
	}})
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for _, o := range offerings {
		if i := slices.IndexFunc(brokers, func(b *platform.ServiceBroker) bool { return b.GUID == o.BrokerGUID }); i >= 0 {
			out[o.GUID] = brokers[i].SpaceGUID
		}
	}
	return out, nil
}

func (a *API) planRoutes(g *web.Group) {
	g.Handle(http.MethodGet, "/v3/service_plans", rest.Read, servicePlans.Lister(a.Server))
	g.Handle(http.MethodGet, "/v3/service_plans/{guid}", rest.Read, servicePlans.Getter(a.Server))
	g.Handle(http.MethodPatch, "/v3/service_plans/{guid}", rest.Write, rest.MetadataPatcher(a.Server, servicePlans,
		rest.Only(a.planFor)))
	g.Handle(http.MethodDelete, "/v3/service_plans/{guid}", rest.Write,
		rest.Remover(a.Server, rest.Only(a.planFor), rest.By(a.Services.DeletePlan)))
	g.Handle(http.MethodGet, "/v3/service_plans/{guid}/visibility", rest.Read,
		rest.Viewer(a.Server, servicePlans.Find, getVisibility))
	g.Handle(http.MethodPatch, "/v3/service_plans/{guid}/visibility", rest.Write, a.setVisibility(false))
	g.Handle(http.MethodPost, "/v3/service_plans/{guid}/visibility", rest.Write, a.setVisibility(true))
	g.Handle(http.MethodDelete, "/v3/service_plans/{guid}/visibility/{organization}", rest.Write,
		rest.Remover(a.Server, rest.Only(a.visiblePlan), a.hidePlan))
}

// planFor returns the plan of the path and its broker if the caller may change it.
func (a *API) planFor(req *rest.Request) (*platform.ServicePlan, *platform.ServiceBroker, error) {
	plan, err := servicePlans.Find(req)
	if err != nil {
		return nil, nil, err
	}
	b, err := brokerOf(req, plan)
	if err != nil {
		return nil, nil, err
	}
	return plan, b, mayChangeCatalog(req, b)
}

type planBody struct {
	rest.ResourceBody
	Name          string              `json:"name"`
	Visibility    platform.Visibility `json:"visibility_type"`
	Available     bool                `json:"available"`
	Free          bool                `json:"free"`
	Costs         []cost              `json:"costs"`
	Description   string              `json:"description"`
	Maintenance   map[string]any      `json:"maintenance_info"`
	Catalog       map[string]any      `json:"broker_catalog"`
	Schemas       map[string]any      `json:"schemas"`
	Relationships map[string]any      `json:"relationships"`
	Metadata      rest.Metadata       `json:"metadata"`
	Links         rest.Links          `json:"links"`
}

type cost struct {
	Amount   json.Number `json:"amount"`
	Currency string      `json:"currency"`
	Unit     string      `json:"unit"`
}

// costsOf returns the prices of a plan, with an entry for each currency.
func costsOf(catalog map[string]any) []cost {
	out := []cost{}
	list, _ := catalog["costs"].([]any)
	for _, entry := range list {
		one, _ := entry.(map[string]any)
		amounts, _ := one["amount"].(map[string]any)
		unit, _ := one["unit"].(string)
		for _, currency := range slices.Sorted(maps.Keys(amounts)) {
			if n, ok := amounts[currency].(json.Number); ok {
				out = append(out, cost{n, strings.ToUpper(currency), unit})
			}
		}
	}
	return out
}

func presentPlans(req *rest.Request, items []*platform.ServicePlan) ([]planBody, error) {
	spaceOf, err := spacesOfPlans(req.Tx, items)
	if err != nil {
		return nil, err
	}
	return rest.PresentAll(items, func(plan *platform.ServicePlan) planBody {
		self := "/service_plans/" + rest.Escape(plan.GUID)
		b := planBody{
			ResourceBody: rest.PresentResource(&plan.Resource), Name: plan.Name, Visibility: plan.Visibility,
			Available: plan.Available, Free: plan.Free,
			Costs: costsOf(plan.CatalogMetadata), Description: plan.Description, Maintenance: map[string]any{},
			Catalog: map[string]any{
				"id": plan.CatalogID, "metadata": rest.NonNil(plan.CatalogMetadata), "maximum_polling_duration": nil,
				"features": map[string]bool{"bindable": plan.Bindable, "plan_updateable": plan.PlanUpdateable},
			},
			Schemas: presentSchemas(plan.Schemas), Metadata: rest.PresentMetadata(&plan.Metadata),
			Relationships: map[string]any{"service_offering": rest.ToOne(plan.OfferingGUID)},
			Links: rest.Links{
				"self": req.Link(self), "service_offering": req.Link("/service_offerings/", rest.Escape(plan.OfferingGUID)),
				"visibility": req.Link(self, "/visibility"),
			},
		}
		if plan.MaxPollingSeconds > 0 {
			b.Catalog["maximum_polling_duration"] = plan.MaxPollingSeconds
		}
		if plan.MaintenanceVersion != "" {
			b.Maintenance = map[string]any{"version": plan.MaintenanceVersion, "description": plan.MaintenanceDescription}
		}
		if space := spaceOf[plan.OfferingGUID]; space != "" {
			b.Relationships["space"] = rest.ToOne(space)
			b.Links["space"] = req.Link("/spaces/", rest.Escape(space))
		}
		return b
	}), nil
}

// presentSchemas presents the schemas of all actions, which may be empty.
func presentSchemas(schemas map[string]any) map[string]any {
	of := func(thing, action string) map[string]any {
		things, _ := schemas[thing].(map[string]any)
		actions, _ := things[action].(map[string]any)
		parameters, _ := actions["parameters"].(map[string]any)
		return map[string]any{"parameters": rest.NonNil(parameters)}
	}
	return map[string]any{
		"service_instance": map[string]any{"create": of("service_instance", "create"),
			"update": of("service_instance", "update")},
		"service_binding": map[string]any{"create": of("service_binding", "create")},
	}
}
