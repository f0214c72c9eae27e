package api

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"slices"

	"ingot/internal/base/fault"
	"ingot/internal/base/web"
	"ingot/internal/platform"
	"ingot/internal/platform/actions"
	"ingot/internal/platform/services"
)

// credentials are bindings of apps and keys; those of routes are another
// resource.
var (
	credentialTypes = platform.In("type", platform.BindingApp, platform.BindingKey)

	serviceBindings = resource[platform.ServiceBinding, bindingBody]{
		noun: "Service credential binding", repo: platform.Tx.ServiceBindings, present: presentBindings, metadataOnly: true,
		list: listing{
			filters: map[string]filter{
				"names": byText("name"), "type": byWord("type", platform.BindingApp, platform.BindingKey),
				"app_guids": byText("app_guid"), "app_names": byText("app_name"),
				"service_instance_guids": byText("instance_guid"), "service_instance_names": byText("instance_name"),
				"service_plan_guids": byText("plan_guid"), "service_plan_names": byText("plan_name"),
				"service_offering_guids": byText("offering_guid"), "service_offering_names": byText("offering_name"),
			},
			orders: []string{"name"}, includes: []string{"app", "service_instance"},
		},
		include: includeOfBindings,
	}
)

func includeOfBindings(p *presenter, l *list, items []*platform.ServiceBinding) (map[string]any, error) {
	out := map[string]any{}
	for _, what := range l.include {
		var more map[string]any
		var err error
		switch what {
		case "app":
			more, err = included(p, "apps", apps, guidsOf(items, func(b *platform.ServiceBinding) string { return b.AppGUID }))
		case "route":
			more, err = included(p, "routes", routes, guidsOf(items, func(b *platform.ServiceBinding) string { return b.RouteGUID }))
		case "service_instance":
			more, err = included(p, "service_instances", serviceInstances, guidsOf(items, func(b *platform.ServiceBinding) string { return b.InstanceGUID }))
		}
		if err != nil {
			return nil, err
		}
		maps.Copy(out, more)
	}
	if len(out) == 0 {
		return nil, nil
	}
	return out, nil
}

func (a *API) serviceBindingRoutes(g *web.Group) {
	read, write := web.Scope(readers...), web.Scope(writers...)
	const path = "/v3/service_credential_bindings"
	g.Handle(http.MethodGet, path, read, serviceBindings.listerWhere(a, func(*presenter) ([]platform.Cond, error) { return []platform.Cond{credentialTypes}, nil }))
	g.Handle(http.MethodPost, path, write, a.createBinding)
	g.Handle(http.MethodGet, path+"/{guid}", read, serviceBindings.getterBy(a, a.credentialBinding))
	g.Handle(http.MethodPatch, path+"/{guid}", write, a.bindingPatcher(a.credentialBinding))
	g.Handle(http.MethodDelete, path+"/{guid}", write, a.deleteBinding)
	g.Handle(http.MethodGet, path+"/{guid}/details", read, a.bindingDetails)
	g.Handle(http.MethodGet, path+"/{guid}/parameters", read, a.bindingParameters(a.credentialBinding))
}

// credentialBinding is the binding of the path, of an app or a key.
func (a *API) credentialBinding(p *presenter) (*platform.ServiceBinding, error) {
	return bindingOf(p, "Service credential binding", platform.BindingApp, platform.BindingKey)
}

func bindingOf(p *presenter, noun string, types ...string) (*platform.ServiceBinding, error) {
	b, err := find(p.caller, p.tx.ServiceBindings(), web.Param(p.r, "guid"), noun)
	if err == nil && !slices.Contains(types, b.Type) {
		err = fault.New(fault.NotFound, "%s not found", noun)
	}
	return b, err
}

type bindingRequest struct {
	Type          string                 `json:"type"`
	Name          *string                `json:"name"`
	Parameters    object                 `json:"parameters"`
	Strategy      string                 `json:"strategy"`
	Metadata      *actions.MetadataPatch `json:"metadata"`
	Relationships struct {
		App      relation `json:"app"`
		Instance relation `json:"service_instance"`
	} `json:"relationships"`
}

func (b *bindingRequest) check() error {
	var problems []string
	if b.Relationships.Instance.Data == nil {
		problems = append(problems, "Relationships 'relationships' must include 'service_instance'")
	}
	switch b.Type {
	case platform.BindingApp:
		if b.Relationships.App.Data == nil {
			problems = append(problems, "Relationships 'relationships' must include 'app'")
		}
	case platform.BindingKey:
		if b.Relationships.App.Data != nil {
			problems = append(problems, "Relationships 'app' is not allowed for keys")
		}
		if b.Name == nil || *b.Name == "" {
			problems = append(problems, "Name can't be blank")
		}
	default:
		problems = append(problems, "Type must be one of 'app', 'key'")
	}
	if !slices.Contains([]string{"", "single", "multiple"}, b.Strategy) {
		problems = append(problems, "Strategy must be 'single' or 'multiple'")
	}
	return fault.Invalid(problems...)
}

// createBinding answers with the binding when it is done at once, and with a
// job when a broker has to make it.
func (a *API) createBinding(w http.ResponseWriter, r *http.Request) error {
	var body bindingRequest
	if err := web.DecodeStrict(r, &body); err != nil {
		return err
	}
	if err := body.check(); err != nil {
		return err
	}
	return a.bind(w, r, serviceBindings, func(p *presenter) (services.Bind, error) {
		want := services.Bind{Type: body.Type, Parameters: body.Parameters, Several: body.Strategy == "multiple"}
		if body.Name != nil {
			want.Name = *body.Name
		}
		if err := body.Metadata.Apply(&want.Metadata); err != nil {
			return want, err
		}
		var err error
		want.Instance, err = find(p.caller, p.tx.ServiceInstances(), body.Relationships.Instance.Data.GUID, "Service instance")
		if err != nil {
			return want, notAccessible(err, "The service instance could not be found: '"+body.Relationships.Instance.Data.GUID+"'")
		}
		space := want.Instance.SpaceGUID
		if body.Type == platform.BindingApp {
			want.App, err = find(p.caller, p.tx.Apps(), body.Relationships.App.Data.GUID, "App")
			if err != nil {
				return want, notAccessible(err, "The app could not be found: '"+body.Relationships.App.Data.GUID+"'")
			}
			space = want.App.SpaceGUID
		}
		_, err = p.caller.mayInSpace(p.tx, space, platform.Develop)
		return want, err
	})
}

// bind makes what read asks for.
func (a *API) bind(w http.ResponseWriter, r *http.Request, s resource[platform.ServiceBinding, bindingBody], read func(p *presenter) (services.Bind, error)) error {
	var made *platform.ServiceBinding
	var job *platform.Job
	err := a.store.Update(r.Context(), func(tx platform.Tx) error {
		p := newPresenter(tx, r)
		want, err := read(p)
		if err != nil {
			return err
		}
		made, job, err = a.services.Bind(tx, p.caller.actor(), want)
		return err
	})
	if err != nil {
		return err
	}
	if job != nil {
		a.accepted(w, r, job)
		return nil
	}
	if made.RouteGUID != "" {
		a.signals.RoutesChanged(made.RouteGUID)
	}
	if made.AppGUID != "" {
		a.signals.AppsChanged(made.AppGUID) // its log may have a drain now
	}
	return respond(a, w, r, s, http.StatusCreated, made)
}

// bindingPatcher answers PATCH of a binding that get finds.
func (a *API) bindingPatcher(get func(p *presenter) (*platform.ServiceBinding, error)) web.Handler {
	return patcher(a, serviceBindings, func(p *presenter) (*platform.ServiceBinding, error) {
		b, err := get(p)
		if err != nil {
			return nil, err
		}
		_, err = p.caller.mayInSpace(p.tx, b.SpaceGUID, platform.Develop)
		return b, err
	}, a.services.UpdateBinding)
}

func (a *API) deleteBinding(w http.ResponseWriter, r *http.Request) error {
	return a.unbind(w, r, a.credentialBinding, platform.Develop)
}

func (a *API) unbind(w http.ResponseWriter, r *http.Request, get func(p *presenter) (*platform.ServiceBinding, error), action platform.Action) error {
	var route, app string
	err := a.orJob(w, r, func(p *presenter) (*platform.Job, error) {
		b, err := get(p)
		if err != nil {
			return nil, err
		}
		if _, err := p.caller.mayInSpace(p.tx, b.SpaceGUID, action); err != nil {
			return nil, err
		}
		route, app = b.RouteGUID, b.AppGUID
		return a.services.Unbind(p.tx, p.caller.actor(), b)
	})
	if err == nil && route != "" {
		a.signals.RoutesChanged(route)
	}
	if err == nil && app != "" {
		a.signals.AppsChanged(app)
	}
	return err
}

// bindingDetails shows credentials, which is recorded.
func (a *API) bindingDetails(w http.ResponseWriter, r *http.Request) error {
	return a.perform(w, r, http.StatusOK, func(p *presenter) (any, error) {
		b, err := a.credentialBinding(p)
		if err != nil {
			return nil, err
		}
		if err := p.secretsIn(b.SpaceGUID); err != nil {
			return nil, err
		}
		if !b.Last.Exists() {
			if b.Last.Type == platform.OperationCreate && b.Last.State == platform.OperationFailed {
				return nil, fault.New(fault.NotFound, "Creation of service credential binding failed")
			}
			return nil, fault.New(fault.NotFound, "Creation of service credential binding in progress")
		}
		i, err := p.tx.ServiceInstances().Get(b.InstanceGUID)
		if err != nil {
			return nil, err
		}
		e := actions.Effective(b, i)
		out := map[string]any{"credentials": notNullObject(e.Credentials)}
		if e.SyslogDrainURL != "" {
			out["syslog_drain_url"] = e.SyslogDrainURL
		}
		if len(e.VolumeMounts) > 0 {
			out["volume_mounts"] = e.VolumeMounts
		}
		return out, a.platform.RecordBinding(p.tx, "show", p.caller.actor(), b, i)
	})
}

func (a *API) bindingParameters(get func(p *presenter) (*platform.ServiceBinding, error)) web.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		var b *platform.ServiceBinding
		var i *platform.ServiceInstance
		var user string
		err := a.store.View(r.Context(), func(tx platform.Tx) (err error) {
			p := newPresenter(tx, r)
			user = p.caller.GUID
			if b, err = get(p); err != nil {
				return err
			}
			if err := p.secretsIn(b.SpaceGUID); err != nil {
				return err
			}
			if i, err = tx.ServiceInstances().Get(b.InstanceGUID); err != nil {
				return err
			}
			if i.Type == platform.ServiceUserProvided {
				return fault.New(fault.BadRequest, "This service does not support fetching service binding parameters.")
			}
			if !b.Last.Exists() {
				return fault.New(fault.NotFound, "Creation of service credential binding in progress or failed")
			}
			return nil
		})
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(r.Context(), brokerPatience)
		defer cancel()
		parameters, err := a.services.BindingParameters(ctx, i, b, user)
		return writeParameters(w, parameters, err, r)
	}
}

type bindingBody struct {
	resourceBody
	Name            *nullName      `json:"name,omitempty"`
	Type            string         `json:"type,omitempty"`
	LastOperation   *operationBody `json:"last_operation"`
	RouteServiceURL *nullName      `json:"route_service_url,omitempty"`
	Relationships   map[string]any `json:"relationships"`
	Metadata        metadata       `json:"metadata"`
	Links           links          `json:"links"`
}

// nullName is a text that is null when it is empty.
type nullName string

// MarshalJSON implements json.Marshaler.
func (n nullName) MarshalJSON() ([]byte, error) {
	if n == "" {
		return []byte("null"), nil
	}
	return json.Marshal(string(n))
}

func presentBindings(p *presenter, items []*platform.ServiceBinding) ([]bindingBody, error) {
	found, _, err := p.tx.ServiceInstances().List(platform.Query{Where: []platform.Cond{
		platform.InStrings("guid", guidsOf(items, func(b *platform.ServiceBinding) string { return b.InstanceGUID })),
	}})
	if err != nil {
		return nil, err
	}
	of := map[string]*platform.ServiceInstance{}
	for _, i := range found {
		of[i.GUID] = i
	}
	return presentAll(items, func(b *platform.ServiceBinding) bindingBody { return presentBinding(p, b, of[b.InstanceGUID]) }), nil
}

func presentBinding(p *presenter, b *platform.ServiceBinding, i *platform.ServiceInstance) bindingBody {
	path := "/service_credential_bindings/"
	if b.Type == platform.BindingRoute {
		path = "/service_route_bindings/"
	}
	self := path + escape(b.GUID)
	out := bindingBody{
		resourceBody: presentResource(&b.Resource), LastOperation: presentOperation(b.Last), Metadata: presentMetadata(&b.Metadata),
		Relationships: map[string]any{"service_instance": toOne(b.InstanceGUID)},
		Links:         links{"self": p.v3(self), "service_instance": p.v3("/service_instances/", escape(b.InstanceGUID))},
	}
	managed := i != nil && i.Type == platform.ServiceManaged
	if managed {
		out.Links["parameters"] = p.v3(self, "/parameters")
	}
	if b.Type == platform.BindingRoute {
		address := nullName(b.RouteServiceURL)
		if i != nil {
			address = nullName(actions.Effective(b, i).RouteServiceURL)
		}
		out.RouteServiceURL = &address
		out.Relationships["route"] = toOne(b.RouteGUID)
		out.Links["route"] = p.v3("/routes/", escape(b.RouteGUID))
		return out
	}
	name := nullName(b.Name)
	out.Name, out.Type = &name, b.Type
	out.Links["details"] = p.v3(self, "/details")
	if b.AppGUID != "" {
		out.Relationships["app"] = toOne(b.AppGUID)
		out.Links["app"] = p.v3("/apps/", escape(b.AppGUID))
	}
	return out
}
