package api

import (
	"context"
	"net/http"
	"time"

	"ingot/internal/base/fault"
	"ingot/internal/base/web"
	"ingot/internal/platform"
	"ingot/internal/platform/actions"
	"ingot/internal/platform/services"
)

var serviceInstances = resource[platform.ServiceInstance, any]{
	noun: "Service instance", repo: platform.Tx.ServiceInstances, present: presentServiceInstances,
	list: listing{
		filters: map[string]filter{
			"names": byText("name"), "space_guids": byText("visible_in_space_guid"), "organization_guids": byText("organization_guid"),
			"type": byWord("type", platform.ServiceManaged, platform.ServiceUserProvided), "service_plan_guids": byText("plan_guid"), "service_plan_names": byText("plan_name"),
		},
		orders: []string{"name"},
		fields: []string{"service_plan", "service_plan.service_offering", "service_plan.service_offering.service_broker", "space", "space.organization"},
	},
	include: includeOfServiceInstances,
}

func includeOfServiceInstances(p *presenter, l *list, items []*platform.ServiceInstance) (map[string]any, error) {
	c := &chain{p, l, map[string]any{}}
	plans, _, err := p.tx.ServicePlans().List(platform.Query{Where: []platform.Cond{
		platform.InStrings("guid", guidsOf(items, func(i *platform.ServiceInstance) string { return i.PlanGUID })),
	}})
	if err != nil {
		return nil, err
	}
	err = c.add("service_plan", func(f []string) (map[string]any, error) {
		return picked(p, "service_plans", servicePlans, guidsOf(plans, func(plan *platform.ServicePlan) string { return plan.GUID }), f)
	})
	if err != nil {
		return nil, err
	}
	offerings := guidsOf(plans, func(plan *platform.ServicePlan) string { return plan.OfferingGUID })
	if err := c.catalog("service_plan.service_offering", "service_plan.service_offering.service_broker", offerings); err != nil {
		return nil, err
	}
	err = c.places("", guidsOf(items, func(i *platform.ServiceInstance) string { return i.SpaceGUID }))
	return c.done(), err
}

func (a *API) serviceInstanceRoutes(g *web.Group) {
	read, write := web.Scope(readers...), web.Scope(writers...)
	g.Handle(http.MethodGet, "/v3/service_instances", read, serviceInstances.lister(a))
	g.Storing().Handle(http.MethodPost, "/v3/service_instances", write, a.createServiceInstance)
	g.Handle(http.MethodGet, "/v3/service_instances/{guid}", read, serviceInstances.getter(a))
	g.Handle(http.MethodPatch, "/v3/service_instances/{guid}", write, a.updateServiceInstance)
	g.Handle(http.MethodDelete, "/v3/service_instances/{guid}", write, a.deleteServiceInstance)
	g.Handle(http.MethodGet, "/v3/service_instances/{guid}/credentials", read, a.serviceCredentials)
	g.Handle(http.MethodGet, "/v3/service_instances/{guid}/parameters", read, a.serviceParameters)
	g.Handle(http.MethodGet, "/v3/service_instances/{guid}/permissions", web.Scope(append([]string{scopeDashboard}, readers...)...), a.servicePermissions)
}

type serviceInstanceRequest struct {
	Type            string           `json:"type"`
	Name            *string          `json:"name"`
	Tags            *[]string        `json:"tags"`
	Parameters      object           `json:"parameters"`
	Credentials     optional[object] `json:"credentials"`
	SyslogDrainURL  optional[string] `json:"syslog_drain_url"`
	RouteServiceURL optional[string] `json:"route_service_url"`
	Maintenance     *struct {
		Version string `json:"version"`
	} `json:"maintenance_info"`
	Metadata      *actions.MetadataPatch `json:"metadata"`
	Relationships *struct {
		Space relation `json:"space"`
		Plan  relation `json:"service_plan"`
	} `json:"relationships"`
}

// provides applies what concerns user-provided instances only.
func (b *serviceInstanceRequest) provides(i *platform.ServiceInstance) {
	if b.Credentials.set {
		i.Credentials = b.Credentials.value
	}
	if b.SyslogDrainURL.set {
		i.SyslogDrainURL = b.SyslogDrainURL.value
	}
	if b.RouteServiceURL.set {
		i.RouteServiceURL = b.RouteServiceURL.value
	}
}

func (b *serviceInstanceRequest) providesSomething() bool {
	return b.Credentials.set || b.SyslogDrainURL.set || b.RouteServiceURL.set
}

func (b *serviceInstanceRequest) checkCreate() error {
	var problems []string
	if b.Name == nil {
		problems = append(problems, "Name must be a string")
	}
	if b.Relationships == nil || b.Relationships.Space.Data == nil {
		problems = append(problems, "Relationships 'relationships' must include 'space'")
	}
	switch b.Type {
	case platform.ServiceManaged:
		if b.Relationships == nil || b.Relationships.Plan.Data == nil {
			problems = append(problems, "Relationships 'relationships' must include 'service_plan'")
		}
		if b.providesSomething() {
			problems = append(problems, "Credentials, syslog_drain_url and route_service_url are for user-provided service instances")
		}
	case platform.ServiceUserProvided:
		if b.Parameters != nil || b.Relationships != nil && b.Relationships.Plan.Data != nil {
			problems = append(problems, "Parameters and service_plan are for managed service instances")
		}
	default:
		problems = append(problems, "Type must be one of 'managed', 'user-provided'")
	}
	return fault.Invalid(problems...)
}

func (a *API) createServiceInstance(w http.ResponseWriter, r *http.Request) error {
	var body serviceInstanceRequest
	if err := web.DecodeStrict(r, &body); err != nil {
		return err
	}
	if err := body.checkCreate(); err != nil {
		return err
	}
	place := func(p *presenter) (*platform.ServiceInstance, error) {
		i := &platform.ServiceInstance{Name: *body.Name, SpaceGUID: body.Relationships.Space.Data.GUID}
		if _, err := find(p.caller, p.tx.Spaces(), i.SpaceGUID, "Space"); err != nil {
			return nil, notAccessible(err, "Invalid space. Ensure that the space exists and you have access to it.")
		}
		if _, err := p.caller.mayInSpace(p.tx, i.SpaceGUID, platform.Develop); err != nil {
			return nil, err
		}
		if body.Tags != nil {
			i.Tags = *body.Tags
		}
		return i, body.Metadata.Apply(&i.Metadata)
	}
	if body.Type == platform.ServiceUserProvided {
		return answer(a, w, r, serviceInstances, http.StatusCreated, func(p *presenter) (*platform.ServiceInstance, error) {
			i, err := place(p)
			if err != nil {
				return nil, err
			}
			body.provides(i)
			return i, a.services.CreateUserProvided(p.tx, p.caller.actor(), i)
		})
	}
	var plan *platform.ServicePlan
	var job *platform.Job
	err := a.store.Update(r.Context(), func(tx platform.Tx) error {
		p := newPresenter(tx, r)
		i, err := place(p)
		if err != nil {
			return err
		}
		if err := a.needFlag(p, "service_instance_creation"); err != nil {
			return err
		}
		i.PlanGUID = body.Relationships.Plan.Data.GUID
		// A plan that he does not see does not exist for him.
		if _, err := find(p.caller, tx.ServicePlans(), i.PlanGUID, "Service plan"); err != nil {
			return notAccessible(err, "Invalid service plan. Ensure that the service plan exists, is available, and you have access to it.")
		}
		job, plan, err = a.services.CreateInstance(tx, p.caller.actor(), i, body.Parameters)
		return err
	})
	if err != nil {
		return err
	}
	if !plan.Free {
		warn(w, "The plan '"+plan.Name+"' is not free: using it may cost money.")
	}
	a.accepted(w, r, job)
	return nil
}

// serviceInstanceFor is the service instance of the path, for developers of its
// space. Those of spaces that it is shared with only see it.
func (a *API) serviceInstanceFor(p *presenter) (*platform.ServiceInstance, error) {
	i, err := find(p.caller, p.tx.ServiceInstances(), web.Param(p.r, "guid"), "Service instance")
	if err != nil {
		return nil, err
	}
	_, err = p.caller.mayInSpace(p.tx, i.SpaceGUID, platform.Develop)
	return i, err
}

func (a *API) updateServiceInstance(w http.ResponseWriter, r *http.Request) error {
	var body serviceInstanceRequest
	if err := web.DecodeStrict(r, &body); err != nil {
		return err
	}
	if body.Type != "" || body.Relationships != nil && body.Relationships.Space.Data != nil {
		return fault.Invalid("Type and space of a service instance cannot be changed")
	}
	var instance *platform.ServiceInstance
	var job *platform.Job
	var routes []string
	err := a.store.Update(r.Context(), func(tx platform.Tx) error {
		p := newPresenter(tx, r)
		i, err := a.serviceInstanceFor(p)
		if err != nil {
			return err
		}
		if err := body.Metadata.Apply(&i.Metadata); err != nil {
			return err
		}
		instance = i
		if i.Type == platform.ServiceManaged {
			job, err = a.updateManaged(p, i, &body)
			return err
		}
		if body.Parameters != nil || body.Maintenance != nil || body.Relationships != nil {
			return fault.Invalid("Parameters, maintenance_info and service_plan are for managed service instances")
		}
		if body.Name != nil {
			i.Name = *body.Name
		}
		if body.Tags != nil {
			i.Tags = *body.Tags
		}
		body.provides(i)
		routes, err = a.services.UpdateUserProvided(tx, p.caller.actor(), i)
		return err
	})
	if err != nil {
		return err
	}
	if len(routes) > 0 {
		a.signals.RoutesChanged(routes...)
	}
	if job != nil {
		a.accepted(w, r, job)
		return nil
	}
	a.signals.AppsChanged() // the drain of those that are bound may be another
	return a.show(w, r, func(p *presenter) (any, error) {
		bodies, err := presentServiceInstances(p, []*platform.ServiceInstance{instance})
		if err != nil {
			return nil, err
		}
		return bodies[0], nil
	})
}

func (a *API) updateManaged(p *presenter, i *platform.ServiceInstance, body *serviceInstanceRequest) (*platform.Job, error) {
	if body.providesSomething() {
		return nil, fault.Invalid("Credentials, syslog_drain_url and route_service_url are for user-provided service instances")
	}
	c := services.Change{Name: body.Name, Tags: body.Tags, Parameters: body.Parameters}
	if body.Relationships != nil && body.Relationships.Plan.Data != nil {
		c.PlanGUID = body.Relationships.Plan.Data.GUID
		if _, err := find(p.caller, p.tx.ServicePlans(), c.PlanGUID, "Service plan"); err != nil {
			return nil, notAccessible(err, "Invalid service plan. Ensure that the service plan exists, is available, and you have access to it.")
		}
	}
	if body.Maintenance != nil {
		c.Maintenance = body.Maintenance.Version
	}
	return a.services.UpdateInstance(p.tx, p.caller.actor(), i, c)
}

func (a *API) deleteServiceInstance(w http.ResponseWriter, r *http.Request) error {
	purge := r.URL.Query().Get("purge") == "true"
	defer func() { a.signals.AppsChanged(); a.signals.RoutesChanged() }()
	return a.orJob(w, r, func(p *presenter) (*platform.Job, error) {
		i, err := a.serviceInstanceFor(p)
		if err != nil {
			return nil, err
		}
		if !purge {
			return a.services.DeleteInstance(p.tx, p.caller.actor(), i)
		}
		// What a broker may still have is forgotten: that is for who runs it.
		parts, err := p.brokerOfPlan(i.PlanGUID)
		if err != nil {
			return nil, err
		}
		if parts == nil && !p.caller.Admin || parts != nil && p.mayChangeCatalog(parts) != nil {
			return nil, forbidden()
		}
		return nil, a.services.PurgeInstance(p.tx, p.caller.actor(), i)
	})
}

// brokerOfPlan is the broker of a plan; nil of none.
func (p *presenter) brokerOfPlan(guid string) (*platform.ServiceBroker, error) {
	if guid == "" {
		return nil, nil
	}
	plan, err := p.tx.ServicePlans().Get(guid)
	if err != nil {
		return nil, err
	}
	o, err := p.tx.ServiceOfferings().Get(plan.OfferingGUID)
	if err != nil {
		return nil, err
	}
	return p.tx.ServiceBrokers().Get(o.BrokerGUID)
}

// secretsIn refuses those who may not see credentials in a space.
func (p *presenter) secretsIn(spaceGUID string) error {
	_, err := p.caller.mayInSpace(p.tx, spaceGUID, platform.ReadSecrets)
	return err
}

func (a *API) serviceCredentials(w http.ResponseWriter, r *http.Request) error {
	return a.perform(w, r, http.StatusOK, func(p *presenter) (any, error) {
		i, err := find(p.caller, p.tx.ServiceInstances(), web.Param(r, "guid"), "Service instance")
		if err == nil && i.Type != platform.ServiceUserProvided {
			err = fault.New(fault.NotFound, "Service instance not found")
		}
		if err != nil {
			return nil, err
		}
		if err := p.secretsIn(i.SpaceGUID); err != nil {
			return nil, err
		}
		return notNullObject(i.Credentials), a.platform.RecordInstance(p.tx, "show", p.caller.actor(), i, nil)
	})
}

// brokerPatience is how long a request waits for a broker.
const brokerPatience = 20 * time.Second

func (a *API) serviceParameters(w http.ResponseWriter, r *http.Request) error {
	var instance *platform.ServiceInstance
	var user string
	err := a.store.View(r.Context(), func(tx platform.Tx) (err error) {
		p := newPresenter(tx, r)
		user = p.caller.GUID
		if instance, err = find(p.caller, tx.ServiceInstances(), web.Param(r, "guid"), "Service instance"); err != nil {
			return err
		}
		if instance.Type != platform.ServiceManaged {
			return fault.New(fault.NotFound, "Service instance not found")
		}
		return p.secretsIn(instance.SpaceGUID)
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(r.Context(), brokerPatience)
	defer cancel()
	parameters, err := a.services.InstanceParameters(ctx, instance, user)
	return writeParameters(w, parameters, err, r)
}

func writeParameters(w http.ResponseWriter, parameters map[string]any, err error, r *http.Request) error {
	if err != nil && r.Context().Err() == nil && fault.CodeOf(err) == fault.Internal {
		return fault.Wrap(err, fault.BadBroker, "The service broker did not answer in time.")
	}
	if err != nil {
		return err
	}
	web.WriteJSON(w, http.StatusOK, parameters)
	return nil
}

func (a *API) servicePermissions(w http.ResponseWriter, r *http.Request) error {
	return a.show(w, r, func(p *presenter) (any, error) {
		i, err := find(p.caller, p.tx.ServiceInstances(), web.Param(r, "guid"), "Service instance")
		if err != nil {
			return nil, err
		}
		manage, err := p.caller.granted(p.tx, i.SpaceGUID, platform.Develop)
		return map[string]bool{"read": true, "manage": manage}, err
	})
}

type serviceInstanceBody struct {
	resourceBody
	Type          string         `json:"type"`
	Name          string         `json:"name"`
	Tags          []string       `json:"tags"`
	LastOperation *operationBody `json:"last_operation"`
	Relationships map[string]any `json:"relationships"`
	Metadata      metadata       `json:"metadata"`
	Links         links          `json:"links"`
}

type managedBody struct {
	serviceInstanceBody
	Maintenance      map[string]any `json:"maintenance_info"`
	UpgradeAvailable bool           `json:"upgrade_available"`
	Dashboard        *string        `json:"dashboard_url"`
	BrokerMetadata   map[string]any `json:"broker_provided_metadata,omitempty"`
}

type userProvidedBody struct {
	serviceInstanceBody
	SyslogDrainURL  *string `json:"syslog_drain_url"`
	RouteServiceURL *string `json:"route_service_url"`
}

func presentServiceInstances(p *presenter, items []*platform.ServiceInstance) ([]any, error) {
	found, _, err := p.tx.ServicePlans().List(platform.Query{Where: []platform.Cond{
		platform.InStrings("guid", guidsOf(items, func(i *platform.ServiceInstance) string { return i.PlanGUID })),
	}})
	if err != nil {
		return nil, err
	}
	plans := map[string]*platform.ServicePlan{}
	for _, plan := range found {
		plans[plan.GUID] = plan
	}
	return presentAll(items, func(i *platform.ServiceInstance) any { return presentServiceInstance(p, i, plans[i.PlanGUID]) }), nil
}

func presentServiceInstance(p *presenter, i *platform.ServiceInstance, plan *platform.ServicePlan) any {
	self := "/service_instances/" + escape(i.GUID)
	common := serviceInstanceBody{
		resourceBody: presentResource(&i.Resource), Type: i.Type, Name: i.Name, Tags: notNull(i.Tags), LastOperation: presentOperation(i.Last),
		Relationships: map[string]any{"space": toOne(i.SpaceGUID)}, Metadata: presentMetadata(&i.Metadata),
		Links: links{
			"self": p.v3(self), "space": p.v3("/spaces/", escape(i.SpaceGUID)),
			"service_credential_bindings": p.v3("/service_credential_bindings?service_instance_guids=", escape(i.GUID)),
			"service_route_bindings":      p.v3("/service_route_bindings?service_instance_guids=", escape(i.GUID)),
		},
	}
	if i.Type == platform.ServiceUserProvided {
		common.Links["credentials"] = p.v3(self, "/credentials")
		return userProvidedBody{common, nullable(i.SyslogDrainURL), nullable(i.RouteServiceURL)}
	}
	common.Relationships["service_plan"] = toOne(i.PlanGUID)
	common.Links["service_plan"] = p.v3("/service_plans/", escape(i.PlanGUID))
	common.Links["parameters"] = p.v3(self, "/parameters")
	common.Links["shared_spaces"] = p.v3(self, "/relationships/shared_spaces")
	b := managedBody{serviceInstanceBody: common, Maintenance: map[string]any{}, Dashboard: nullable(i.DashboardURL), BrokerMetadata: i.BrokerMetadata}
	if i.MaintenanceVersion != "" {
		b.Maintenance["version"] = i.MaintenanceVersion
	}
	if plan != nil {
		b.UpgradeAvailable = plan.MaintenanceVersion != i.MaintenanceVersion && i.Last.Exists()
		if plan.MaintenanceVersion == i.MaintenanceVersion && i.MaintenanceVersion != "" {
			b.Maintenance["description"] = plan.MaintenanceDescription
		}
	}
	return b
}
