package services

import (
	"context"
	"net/http"
	"time"

	"ingot/internal/base/fault"
	"ingot/internal/base/web"
	"ingot/internal/platform"
	"ingot/internal/platform/actions"
	"ingot/internal/platform/api/listing"
	"ingot/internal/platform/api/rest"
	"ingot/internal/platform/services"
)

var serviceInstances = rest.Resource[platform.ServiceInstance, any]{
	Noun: "Service instance", Repo: platform.Tx.ServiceInstances, Present: presentServiceInstances,
	List: listing.Params{
		Filters: listing.Filters{
			"names": listing.Text("name"), "space_guids": listing.Text("visible_in_space_guid"),
			"organization_guids": listing.Text("organization_guid"),
			"type":               listing.Word("type", platform.ServiceManaged, platform.ServiceUserProvided),
			"service_plan_guids": listing.Text("plan_guid"), "service_plan_names": listing.Text("plan_name"),
		},
		Orders: []string{"name"},
		Fields: []string{"service_plan", "service_plan.service_offering", "service_plan.service_offering.service_broker",
			"space", "space.organization"},
	},
	Include: includeOfServiceInstances,
}

func includeOfServiceInstances(req *rest.Request, l *listing.Request,
	items []*platform.ServiceInstance) (map[string]any, error) {
	c := &chain{req, l, map[string]any{}}
	plans, _, err := req.Tx.ServicePlans().List(platform.Query{Where: []platform.Cond{
		platform.InStrings("guid", rest.GUIDsOf(items, func(i *platform.ServiceInstance) string { return i.PlanGUID })),
	}})
	if err != nil {
		return nil, err
	}
	err = c.add("service_plan", func(f []string) (map[string]any, error) {
		return picked(req, "service_plans", servicePlans,
			rest.GUIDsOf(plans, func(plan *platform.ServicePlan) string { return plan.GUID }), f)
	})
	if err != nil {
		return nil, err
	}
	offerings := rest.GUIDsOf(plans, func(plan *platform.ServicePlan) string { return plan.OfferingGUID })
	if err := c.catalog("service_plan.service_offering", "service_plan.service_offering.service_broker",
		offerings); err != nil {
		return nil, err
	}
	err = c.places("", rest.GUIDsOf(items, func(i *platform.ServiceInstance) string { return i.SpaceGUID }))
	return c.done(), err
}

func (a *API) instanceRoutes(g *web.Group) {
	g.Handle(http.MethodGet, "/v3/service_instances", rest.Read, serviceInstances.Lister(a.Server))
	g.Storing().Handle(http.MethodPost, "/v3/service_instances", rest.Write, a.createServiceInstance)
	g.Handle(http.MethodGet, "/v3/service_instances/{guid}", rest.Read, serviceInstances.Getter(a.Server))
	g.Handle(http.MethodPatch, "/v3/service_instances/{guid}", rest.Write, a.updateServiceInstance)
	g.Handle(http.MethodDelete, "/v3/service_instances/{guid}", rest.Write, a.deleteServiceInstance)
	g.Handle(http.MethodGet, "/v3/service_instances/{guid}/credentials", rest.Read, a.serviceCredentials)
	g.Handle(http.MethodGet, "/v3/service_instances/{guid}/parameters", rest.Read, a.serviceParameters)
	g.Handle(http.MethodGet, "/v3/service_instances/{guid}/permissions",
		web.Scope(append([]string{DashboardAudience + ".read"}, rest.Readers...)...), a.servicePermissions)
}

type serviceInstanceRequest struct {
	Type            string                     `json:"type"`
	Name            *string                    `json:"name"`
	Tags            *[]string                  `json:"tags"`
	Parameters      rest.Object                `json:"parameters"`
	Credentials     rest.Optional[rest.Object] `json:"credentials"`
	SyslogDrainURL  rest.Optional[string]      `json:"syslog_drain_url"`
	RouteServiceURL rest.Optional[string]      `json:"route_service_url"`
	Maintenance     *struct {
		Version string `json:"version"`
	} `json:"maintenance_info"`
	Metadata      *actions.MetadataPatch `json:"metadata"`
	Relationships *struct {
		Space rest.Relation `json:"space"`
		Plan  rest.Relation `json:"service_plan"`
	} `json:"relationships"`
}

// provides applies the members for user-provided instances.
func (b *serviceInstanceRequest) provides(i *platform.ServiceInstance) {
	if b.Credentials.Set {
		i.Credentials = b.Credentials.Value
	}
	if b.SyslogDrainURL.Set {
		i.SyslogDrainURL = b.SyslogDrainURL.Value
	}
	if b.RouteServiceURL.Set {
		i.RouteServiceURL = b.RouteServiceURL.Value
	}
}

func (b *serviceInstanceRequest) providesSomething() bool {
	return b.Credentials.Set || b.SyslogDrainURL.Set || b.RouteServiceURL.Set
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
			problems = append(problems,
				"Credentials, syslog_drain_url and route_service_url are for user-provided service instances")
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
	place := func(req *rest.Request) (*platform.ServiceInstance, error) {
		i := &platform.ServiceInstance{Name: *body.Name, SpaceGUID: body.Relationships.Space.Data.GUID}
		if _, err := rest.Find(req.Caller, req.Tx.Spaces(), i.SpaceGUID, "Space"); err != nil {
			return nil, rest.NotAccessible(err, "Invalid space. Ensure that the space exists and you have access to it.")
		}
		if _, err := req.Caller.MayInSpace(req.Tx, i.SpaceGUID, platform.Develop); err != nil {
			return nil, err
		}
		if body.Tags != nil {
			i.Tags = *body.Tags
		}
		return i, body.Metadata.Apply(&i.Metadata)
	}
	if body.Type == platform.ServiceUserProvided {
		return rest.Answer(a.Server, w, r, serviceInstances, http.StatusCreated,
			func(req *rest.Request) (*platform.ServiceInstance, error) {
				i, err := place(req)
				if err != nil {
					return nil, err
				}
				body.provides(i)
				return i, a.Services.CreateUserProvided(req.Tx, req.Caller.Actor(), i)
			})
	}
	var plan *platform.ServicePlan
	var job *platform.Job
	err := a.Store.Update(r.Context(), func(tx platform.Tx) error {
		req := rest.NewRequest(tx, r)
		i, err := place(req)
		if err != nil {
			return err
		}
		if err := req.NeedFlag("service_instance_creation"); err != nil {
			return err
		}
		i.PlanGUID = body.Relationships.Plan.Data.GUID
		// A plan that the caller may not see does not exist for it.
		if _, err := rest.Find(req.Caller, tx.ServicePlans(), i.PlanGUID, "Service plan"); err != nil {
			return rest.NotAccessible(err,
				"Invalid service plan. Ensure that the service plan exists, is available, and you have access to it.")
		}
		job, plan, err = a.Services.CreateInstance(tx, req.Caller.Actor(), i, body.Parameters)
		return err
	})
	if err != nil {
		return err
	}
	if !plan.Free {
		rest.Warn(w, "The plan '"+plan.Name+"' is not free: using it may cost money.")
	}
	a.Accepted(w, r, job)
	return nil
}

// serviceInstanceFor returns the service instance of the path, for developers of its
// space. Developers of spaces that it is shared with may only see it.
func (a *API) serviceInstanceFor(req *rest.Request) (*platform.ServiceInstance, error) {
	i, err := serviceInstances.Find(req)
	if err != nil {
		return nil, err
	}
	_, err = req.Caller.MayInSpace(req.Tx, i.SpaceGUID, platform.Develop)
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
	err := a.Store.Update(r.Context(), func(tx platform.Tx) error {
		req := rest.NewRequest(tx, r)
		i, err := a.serviceInstanceFor(req)
		if err != nil {
			return err
		}
		if err := body.Metadata.Apply(&i.Metadata); err != nil {
			return err
		}
		instance = i
		if i.Type == platform.ServiceManaged {
			job, err = a.updateManaged(req, i, &body)
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
		return a.Services.UpdateUserProvided(tx, req.Caller.Actor(), i)
	})
	if err != nil {
		return err
	}
	if job != nil {
		a.Accepted(w, r, job)
		return nil
	}
	a.Signals.AppsChanged() // the log drains of bound apps may have changed
	return a.Show(w, r, func(req *rest.Request) (any, error) {
		bodies, err := presentServiceInstances(req, []*platform.ServiceInstance{instance})
		if err != nil {
			return nil, err
		}
		return bodies[0], nil
	})
}

func (a *API) updateManaged(req *rest.Request, i *platform.ServiceInstance,
	body *serviceInstanceRequest) (*platform.Job, error) {
	if body.providesSomething() {
		return nil,
			fault.Invalid("Credentials, syslog_drain_url and route_service_url are for user-provided service instances")
	}
	c := services.Change{Name: body.Name, Tags: body.Tags, Parameters: body.Parameters}
	if body.Relationships != nil && body.Relationships.Plan.Data != nil {
		c.PlanGUID = body.Relationships.Plan.Data.GUID
		if _, err := rest.Find(req.Caller, req.Tx.ServicePlans(), c.PlanGUID, "Service plan"); err != nil {
			return nil, rest.NotAccessible(err,
				"Invalid service plan. Ensure that the service plan exists, is available, and you have access to it.")
		}
	}
	if body.Maintenance != nil {
		c.Maintenance = body.Maintenance.Version
	}
	return a.Services.UpdateInstance(req.Tx, req.Caller.Actor(), i, c)
}

func (a *API) deleteServiceInstance(w http.ResponseWriter, r *http.Request) error {
	purge := r.URL.Query().Get("purge") == "true"
	defer a.Signals.AppsChanged()
	return a.OrJob(w, r, func(req *rest.Request) (*platform.Job, error) {
		i, err := a.serviceInstanceFor(req)
		if err != nil {
			return nil, err
		}
		if !purge {
			return a.Services.DeleteInstance(req.Tx, req.Caller.Actor(), i)
		}
		// What may be left at the broker is for its operator.
		parts, err := brokerOfPlan(req, i.PlanGUID)
		if err != nil {
			return nil, err
		}
		if parts == nil && !req.Caller.Admin || parts != nil && mayChangeCatalog(req, parts) != nil {
			return nil, platform.Forbidden()
		}
		return nil, a.Services.PurgeInstance(req.Tx, req.Caller.Actor(), i)
	})
}

func (a *API) serviceCredentials(w http.ResponseWriter, r *http.Request) error {
	return a.Perform(w, r, http.StatusOK, func(req *rest.Request) (any, error) {
		i, err := serviceInstances.Find(req)
		if err == nil && i.Type != platform.ServiceUserProvided {
			err = fault.New(fault.NotFound, "Service instance not found")
		}
		if err != nil {
			return nil, err
		}
		if err := secretsIn(req, i.SpaceGUID); err != nil {
			return nil, err
		}
		return notNullObject(i.Credentials), a.Platform.RecordInstance(req.Tx, "show", req.Caller.Actor(), i, nil)
	})
}

// brokerTimeout is how long a request waits for a broker.
const brokerTimeout = 20 * time.Second

func (a *API) serviceParameters(w http.ResponseWriter, r *http.Request) error {
	var instance *platform.ServiceInstance
	var user string
	err := a.Store.View(r.Context(), func(tx platform.Tx) (err error) {
		req := rest.NewRequest(tx, r)
		user = req.Caller.GUID
		if instance, err = serviceInstances.Find(req); err != nil {
			return err
		}
		if instance.Type != platform.ServiceManaged {
			return fault.New(fault.NotFound, "Service instance not found")
		}
		return secretsIn(req, instance.SpaceGUID)
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(r.Context(), brokerTimeout)
	defer cancel()
	parameters, err := a.Services.InstanceParameters(ctx, instance, user)
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
	return a.Show(w, r, func(req *rest.Request) (any, error) {
		i, err := serviceInstances.Find(req)
		if err != nil {
			return nil, err
		}
		manage, err := req.Caller.Granted(req.Tx, i.SpaceGUID, platform.Develop)
		return map[string]bool{"read": true, "manage": manage}, err
	})
}

type serviceInstanceBody struct {
	rest.ResourceBody
	Type          string         `json:"type"`
	Name          string         `json:"name"`
	Tags          []string       `json:"tags"`
	LastOperation *operationBody `json:"last_operation"`
	Relationships map[string]any `json:"relationships"`
	Metadata      rest.Metadata  `json:"metadata"`
	Links         rest.Links     `json:"links"`
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

func presentServiceInstances(req *rest.Request, items []*platform.ServiceInstance) ([]any, error) {
	found, _, err := req.Tx.ServicePlans().List(platform.Query{Where: []platform.Cond{
		platform.InStrings("guid", rest.GUIDsOf(items, func(i *platform.ServiceInstance) string { return i.PlanGUID })),
	}})
	if err != nil {
		return nil, err
	}
	plans := map[string]*platform.ServicePlan{}
	for _, plan := range found {
		plans[plan.GUID] = plan
	}
	return rest.PresentAll(items, func(i *platform.ServiceInstance) any {
		return presentServiceInstance(req, i,
			plans[i.PlanGUID])
	}), nil
}

func presentServiceInstance(req *rest.Request, i *platform.ServiceInstance, plan *platform.ServicePlan) any {
	self := "/service_instances/" + rest.Escape(i.GUID)
	common := serviceInstanceBody{
		ResourceBody: rest.PresentResource(&i.Resource), Type: i.Type, Name: i.Name, Tags: notNull(i.Tags),
		LastOperation: presentOperation(i.Last),
		Relationships: map[string]any{"space": rest.ToOne(i.SpaceGUID)}, Metadata: rest.PresentMetadata(&i.Metadata),
		Links: rest.Links{
			"self": req.Link(self), "space": req.Link("/spaces/", rest.Escape(i.SpaceGUID)),
			"service_credential_bindings": req.Link("/service_credential_bindings?service_instance_guids=", rest.Escape(i.GUID)),
			"service_route_bindings":      req.Link("/service_route_bindings?service_instance_guids=", rest.Escape(i.GUID)),
		},
	}
	if i.Type == platform.ServiceUserProvided {
		common.Links["credentials"] = req.Link(self, "/credentials")
		return userProvidedBody{common, rest.OrNull(i.SyslogDrainURL), rest.OrNull(i.RouteServiceURL)}
	}
	common.Relationships["service_plan"] = rest.ToOne(i.PlanGUID)
	common.Links["service_plan"] = req.Link("/service_plans/", rest.Escape(i.PlanGUID))
	common.Links["parameters"] = req.Link(self, "/parameters")
	common.Links["shared_spaces"] = req.Link(self, "/relationships/shared_spaces")
	b := managedBody{serviceInstanceBody: common, Maintenance: map[string]any{}, Dashboard: rest.OrNull(i.DashboardURL),
		BrokerMetadata: i.BrokerMetadata}
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
