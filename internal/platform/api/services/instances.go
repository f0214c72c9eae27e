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

func planOf(i *platform.ServiceInstance) string { return i.PlanGUID }

func includeOfServiceInstances(req *rest.Request, l *listing.Request,
	items []*platform.ServiceInstance) (map[string]any, error) {
	c := &chain{req, l, map[string]any{}}
	plans, err := rest.Named(req.Tx.ServicePlans(), rest.GUIDsOf(items, planOf))
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
	offerings := rest.GUIDsOf(plans, offeringOf)
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
	g.Handle(http.MethodGet, "/v3/service_instances/{guid}/credentials", rest.Read,
		rest.AuditedViewer(a.Server, instanceWithSecrets(platform.ServiceUserProvided), a.serviceCredentials))
	g.Handle(http.MethodGet, "/v3/service_instances/{guid}/parameters", rest.Read, a.serviceParameters)
	g.Handle(http.MethodGet, "/v3/service_instances/{guid}/permissions",
		web.Scope(append([]string{DashboardAudience + ".read"}, rest.Readers...)...),
		rest.Viewer(a.Server, serviceInstances.Find, servicePermissions))
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
	b.Credentials.Into((*rest.Object)(&i.Credentials))
	b.SyslogDrainURL.Into(&i.SyslogDrainURL)
	b.RouteServiceURL.Into(&i.RouteServiceURL)
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
	body, err := rest.Body[serviceInstanceRequest](r)
	if err != nil {
		return err
	}
	if err := body.checkCreate(); err != nil {
		return err
	}
	place := func(req *rest.Request) (*platform.ServiceInstance, error) {
		i := &platform.ServiceInstance{Name: *body.Name, SpaceGUID: body.Relationships.Space.Data.GUID}
		if _, err := req.SpaceNamed(i.SpaceGUID, platform.Develop); err != nil {
			return nil, err
		}
		web.Set(&i.Tags, body.Tags)
		err := body.Metadata.Apply(&i.Metadata)
		return i, err
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
	job, err := rest.Update(a.Server, r, func(req *rest.Request) (job *platform.Job, err error) {
		i, err := place(req)
		if err != nil {
			return nil, err
		}
		if err := req.NeedFlag("service_instance_creation"); err != nil {
			return nil, err
		}
		i.PlanGUID = body.Relationships.Plan.Data.GUID
		if err := seesPlan(req, i.PlanGUID); err != nil {
			return nil, err
		}
		job, plan, err = a.Services.CreateInstance(req.Tx, req.Caller.Actor(), i, body.Parameters)
		return job, err
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

// seesPlan returns an error for a plan that the caller may not see: for the caller it does not exist.
func seesPlan(req *rest.Request, guid string) error {
	_, err := rest.Find(req.Caller, req.Tx.ServicePlans(), guid, "Service plan")
	return rest.NotAccessible(err,
		"Invalid service plan. Ensure that the service plan exists, is available, and you have access to it.")
}

// serviceInstanceFor returns the service instance of the path, for developers of its
// space. Developers of spaces that it is shared with may only see it.
var serviceInstanceFor = rest.InSpace(serviceInstances.Find,
	func(i *platform.ServiceInstance) string { return i.SpaceGUID }, platform.Develop)

func (a *API) updateServiceInstance(w http.ResponseWriter, r *http.Request) error {
	body, err := rest.Body[serviceInstanceRequest](r)
	if err != nil {
		return err
	}
	if body.Type != "" || body.Relationships != nil && body.Relationships.Space.Data != nil {
		return fault.Invalid("Type and space of a service instance cannot be changed")
	}
	var instance *platform.ServiceInstance
	job, err := rest.Update(a.Server, r, func(req *rest.Request) (*platform.Job, error) {
		i, err := serviceInstanceFor(req)
		if err != nil {
			return nil, err
		}
		if err := body.Metadata.Apply(&i.Metadata); err != nil {
			return nil, err
		}
		instance = i
		if i.Type == platform.ServiceManaged {
			return a.updateManaged(req, i, body)
		}
		if body.Parameters != nil || body.Maintenance != nil || body.Relationships != nil {
			return nil, fault.Invalid("Parameters, maintenance_info and service_plan are for managed service instances")
		}
		web.Set(&i.Name, body.Name)
		web.Set(&i.Tags, body.Tags)
		body.provides(i)
		return nil, a.Services.UpdateUserProvided(req.Tx, req.Caller.Actor(), i)
	})
	if err != nil {
		return err
	}
	if job != nil {
		a.Accepted(w, r, job)
		return nil
	}
	return rest.Respond(a.Server, w, r, serviceInstances, http.StatusOK, instance)
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
		if err := seesPlan(req, c.PlanGUID); err != nil {
			return nil, err
		}
	}
	if body.Maintenance != nil {
		c.Maintenance = body.Maintenance.Version
	}
	return a.Services.UpdateInstance(req.Tx, req.Caller.Actor(), i, c)
}

func (a *API) deleteServiceInstance(w http.ResponseWriter, r *http.Request) error {
	purge := r.URL.Query().Get("purge") == "true"
	return a.OrJob(w, r, func(req *rest.Request) (*platform.Job, error) {
		i, err := serviceInstanceFor(req)
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

// instanceWithSecrets returns the service instance of the path if it has this type and the caller may
// see its credentials.
func instanceWithSecrets(kind string) func(*rest.Request) (*platform.ServiceInstance, error) {
	return func(req *rest.Request) (*platform.ServiceInstance, error) {
		i, err := serviceInstances.Find(req)
		if err == nil && i.Type != kind {
			err = fault.New(fault.NotFound, "Service instance not found")
		}
		if err != nil {
			return nil, err
		}
		return i, secretsIn(req, i.SpaceGUID)
	}
}

func (a *API) serviceCredentials(req *rest.Request, i *platform.ServiceInstance) (any, error) {
	return rest.NonNil(i.Credentials), a.Platform.RecordInstance(req.Tx, "show", req.Caller.Actor(), i, nil)
}

// brokerTimeout is how long a request waits for a broker.
const brokerTimeout = 20 * time.Second

func (a *API) serviceParameters(w http.ResponseWriter, r *http.Request) error {
	i, err := rest.View(a.Server, r, instanceWithSecrets(platform.ServiceManaged))
	if err != nil {
		return err
	}
	return writeParameters(w, r, func(ctx context.Context, user string) (map[string]any, error) {
		return a.Services.InstanceParameters(ctx, i, user)
	})
}

// writeParameters responds with what the broker returns.
func writeParameters(w http.ResponseWriter, r *http.Request,
	ask func(ctx context.Context, user string) (map[string]any, error),
) error {
	ctx, cancel := context.WithTimeout(r.Context(), brokerTimeout)
	defer cancel()
	parameters, err := ask(ctx, rest.CallerOf(r).GUID)
	if err != nil && r.Context().Err() == nil && fault.CodeOf(err) == fault.Internal {
		return fault.Wrap(err, fault.BadBroker, "The service broker did not answer in time.")
	}
	return web.Answer(w, http.StatusOK, parameters, err)
}

func servicePermissions(req *rest.Request, i *platform.ServiceInstance) (any, error) {
	manage, err := req.Caller.Granted(req.Tx, i.SpaceGUID, platform.Develop)
	return map[string]bool{"read": true, "manage": manage}, err
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
	plans, err := rest.ByGUID(req.Tx.ServicePlans(), items, planOf)
	return rest.PresentAll(items, func(i *platform.ServiceInstance) any {
		return presentServiceInstance(req, i, plans[i.PlanGUID])
	}), err
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
