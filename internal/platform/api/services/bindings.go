package services

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"ingot/internal/base/fault"
	"ingot/internal/base/web"
	"ingot/internal/platform"
	"ingot/internal/platform/actions"
	"ingot/internal/platform/api/apps"
	"ingot/internal/platform/api/listing"
	"ingot/internal/platform/api/rest"
	"ingot/internal/platform/api/routes"
	"ingot/internal/platform/services"
)

// credentials are bindings of apps, and service keys. Route bindings are another
// resource.
var (
	credentialTypes = platform.In("type", platform.BindingApp, platform.BindingKey)

	serviceBindings = rest.Resource[platform.ServiceBinding, bindingBody]{
		Noun: "Service credential binding", Repo: platform.Tx.ServiceBindings, Present: presentBindings, MetadataOnly: true,
		List: listing.Params{
			Filters: listing.Filters{
				"names": listing.Text("name"), "type": listing.Word("type", platform.BindingApp, platform.BindingKey),
				"app_guids": listing.Text("app_guid"), "app_names": listing.Text("app_name"),
				"service_instance_guids": listing.Text("instance_guid"), "service_instance_names": listing.Text("instance_name"),
				"service_plan_guids": listing.Text("plan_guid"), "service_plan_names": listing.Text("plan_name"),
				"service_offering_guids": listing.Text("offering_guid"), "service_offering_names": listing.Text("offering_name"),
			},
			Orders: []string{"name"}, Includes: []string{"app", "service_instance"},
		},
		Include: rest.IncludeBy(includesOfBindings),
	}
)

var includesOfBindings = map[string]rest.Includer[platform.ServiceBinding]{
	"app":   rest.Referred("apps", apps.Apps, func(b *platform.ServiceBinding) string { return b.AppGUID }),
	"route": rest.Referred("routes", routes.Routes, func(b *platform.ServiceBinding) string { return b.RouteGUID }),
	"service_instance": rest.Referred("service_instances", serviceInstances,
		func(b *platform.ServiceBinding) string { return b.InstanceGUID }),
}

func (a *API) bindingRoutes(g *web.Group) {
	const path = "/v3/service_credential_bindings"
	g.Handle(http.MethodGet, path, rest.Read, serviceBindings.ListerWhere(a.Server, ofTypes(credentialTypes)))
	g.Handle(http.MethodPost, path, rest.Write, a.createBinding)
	g.Handle(http.MethodGet, path+"/{guid}", rest.Read, serviceBindings.GetterBy(a.Server, credentialBinding))
	g.Handle(http.MethodPatch, path+"/{guid}", rest.Write, a.bindingPatcher(credentialBinding))
	g.Handle(http.MethodDelete, path+"/{guid}", rest.Write, a.unbinder(credentialBinding))
	g.Handle(http.MethodGet, path+"/{guid}/details", rest.Read,
		rest.AuditedViewer(a.Server, credentialBinding, a.bindingDetails))
	g.Handle(http.MethodGet, path+"/{guid}/parameters", rest.Read, a.bindingParameters(credentialBinding))
}

// ofTypes selects bindings by their type.
func ofTypes(types platform.Cond) func(*rest.Request) ([]platform.Cond, error) {
	return func(*rest.Request) ([]platform.Cond, error) { return []platform.Cond{types}, nil }
}

// credentialBinding returns the binding or service key of the path.
func credentialBinding(req *rest.Request) (*platform.ServiceBinding, error) {
	return bindingOf(req, "Service credential binding", platform.BindingApp, platform.BindingKey)
}

func bindingOf(req *rest.Request, noun string, types ...string) (*platform.ServiceBinding, error) {
	b, err := rest.Find(req.Caller, req.Tx.ServiceBindings(), req.Param("guid"), noun)
	if err == nil && !slices.Contains(types, b.Type) {
		err = fault.New(fault.NotFound, "%s not found", noun)
	}
	return b, err
}

type bindingRequest struct {
	Type          string                 `json:"type"`
	Name          *string                `json:"name"`
	Parameters    rest.Object            `json:"parameters"`
	Strategy      string                 `json:"strategy"`
	Metadata      *actions.MetadataPatch `json:"metadata"`
	Relationships struct {
		App      rest.Relation `json:"app"`
		Instance rest.Relation `json:"service_instance"`
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

// createBinding responds with the binding if it is complete, and with a job if the
// broker has to create it.
func (a *API) createBinding(w http.ResponseWriter, r *http.Request) error {
	body, err := rest.Body[bindingRequest](r)
	if err != nil {
		return err
	}
	if err := body.check(); err != nil {
		return err
	}
	return a.bind(w, r, serviceBindings, func(req *rest.Request) (services.Bind, error) {
		want := services.Bind{Type: body.Type, Parameters: body.Parameters, Several: body.Strategy == "multiple"}
		web.Set(&want.Name, body.Name)
		if err := body.Metadata.Apply(&want.Metadata); err != nil {
			return want, err
		}
		var err error
		want.Instance, err = related(req, req.Tx.ServiceInstances(), body.Relationships.Instance, "Service instance")
		if err != nil {
			return want, err
		}
		space := want.Instance.SpaceGUID
		if body.Type == platform.BindingApp {
			if want.App, err = related(req, req.Tx.Apps(), body.Relationships.App, "App"); err != nil {
				return want, err
			}
			space = want.App.SpaceGUID
		}
		_, err = req.Caller.MayInSpace(req.Tx, space, platform.Develop)
		return want, err
	})
}

// related returns a resource that the caller may see.
func related[T any](req *rest.Request, repo platform.Repo[T], to rest.Relation, noun string) (*T, error) {
	found, err := rest.Find(req.Caller, repo, to.Data.GUID, noun)
	return found, rest.NotAccessible(err, "The "+strings.ToLower(noun)+" could not be found: '"+to.Data.GUID+"'")
}

// bind creates the binding that read returns.
func (a *API) bind(w http.ResponseWriter, r *http.Request, s rest.Resource[platform.ServiceBinding, bindingBody],
	read func(req *rest.Request) (services.Bind, error)) error {
	var made *platform.ServiceBinding
	job, err := rest.Update(a.Server, r, func(req *rest.Request) (job *platform.Job, err error) {
		want, err := read(req)
		if err != nil {
			return nil, err
		}
		made, job, err = a.Services.Bind(req.Tx, req.Caller.Actor(), want)
		return job, err
	})
	if err != nil {
		return err
	}
	if job != nil {
		a.Accepted(w, r, job)
		return nil
	}
	return rest.Respond(a.Server, w, r, s, http.StatusCreated, made)
}

// changeable returns what get returns, for developers of its space.
func changeable(get func(*rest.Request) (*platform.ServiceBinding, error)) func(*rest.Request) (
	*platform.ServiceBinding, error) {
	return rest.InSpace(get, func(b *platform.ServiceBinding) string { return b.SpaceGUID }, platform.Develop)
}

// bindingPatcher handles PATCH of the binding that get returns.
func (a *API) bindingPatcher(get func(req *rest.Request) (*platform.ServiceBinding, error)) web.Handler {
	return rest.Patcher(a.Server, serviceBindings, changeable(get), a.Services.UpdateBinding)
}

// unbinder handles DELETE of the binding that get returns.
func (a *API) unbinder(get func(req *rest.Request) (*platform.ServiceBinding, error)) web.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		return a.OrJob(w, r, func(req *rest.Request) (*platform.Job, error) {
			b, err := changeable(get)(req)
			if err != nil {
				return nil, err
			}
			return a.Services.Unbind(req.Tx, req.Caller.Actor(), b)
		})
	}
}

// bindingDetails shows credentials and records an audit event.
func (a *API) bindingDetails(req *rest.Request, b *platform.ServiceBinding) (any, error) {
	if err := secretsIn(req, b.SpaceGUID); err != nil {
		return nil, err
	}
	if !b.Last.Exists() {
		if b.Last.Type == platform.OperationCreate && b.Last.State == platform.OperationFailed {
			return nil, fault.New(fault.NotFound, "Creation of service credential binding failed")
		}
		return nil, fault.New(fault.NotFound, "Creation of service credential binding in progress")
	}
	i, err := req.Tx.ServiceInstances().Get(b.InstanceGUID)
	if err != nil {
		return nil, err
	}
	e := actions.Effective(b, i)
	out := map[string]any{"credentials": rest.NonNil(e.Credentials)}
	if e.SyslogDrainURL != "" {
		out["syslog_drain_url"] = e.SyslogDrainURL
	}
	if len(e.VolumeMounts) > 0 {
		out["volume_mounts"] = e.VolumeMounts
	}
	return out, a.Platform.RecordBinding(req.Tx, "show", req.Caller.Actor(), b, i)
}

func (a *API) bindingParameters(get func(req *rest.Request) (*platform.ServiceBinding, error)) web.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		var b *platform.ServiceBinding
		i, err := rest.View(a.Server, r, func(req *rest.Request) (i *platform.ServiceInstance, err error) {
			if b, err = get(req); err != nil {
				return nil, err
			}
			if err := secretsIn(req, b.SpaceGUID); err != nil {
				return nil, err
			}
			if i, err = req.Tx.ServiceInstances().Get(b.InstanceGUID); err != nil {
				return nil, err
			}
			if i.Type == platform.ServiceUserProvided {
				return nil, fault.New(fault.BadRequest,
					"This service does not support fetching service binding parameters.")
			}
			if !b.Last.Exists() {
				return nil, fault.New(fault.NotFound, "Creation of service credential binding in progress or failed")
			}
			return i, nil
		})
		if err != nil {
			return err
		}
		return writeParameters(w, r, func(ctx context.Context, user string) (map[string]any, error) {
			return a.Services.BindingParameters(ctx, i, b, user)
		})
	}
}

type bindingBody struct {
	rest.ResourceBody
	Name            *nullName      `json:"name,omitempty"`
	Type            string         `json:"type,omitempty"`
	LastOperation   *operationBody `json:"last_operation"`
	RouteServiceURL *nullName      `json:"route_service_url,omitempty"`
	Relationships   map[string]any `json:"relationships"`
	Metadata        rest.Metadata  `json:"metadata"`
	Links           rest.Links     `json:"links"`
}

// nullName is a string that is null in JSON if it is empty.
type nullName string

// MarshalJSON implements json.Marshaler.
func (n nullName) MarshalJSON() ([]byte, error) {
	if n == "" {
		return []byte("null"), nil
	}
	return json.Marshal(string(n))
}

func presentBindings(req *rest.Request, items []*platform.ServiceBinding) ([]bindingBody, error) {
	of, err := rest.ByGUID(req.Tx.ServiceInstances(), items,
		func(b *platform.ServiceBinding) string { return b.InstanceGUID })
	return rest.PresentAll(items, func(b *platform.ServiceBinding) bindingBody {
		return presentBinding(req, b, of[b.InstanceGUID])
	}), err
}

// presentBindingOperation presents a rotation as the creation of the binding's credentials:
// clients of Cloud Foundry know only bindings that are created or deleted. A rotation that
// failed leaves a binding that works.
func presentBindingOperation(o platform.LastOperation) *operationBody {
	if o.Type == platform.OperationUpdate {
		o.Type = platform.OperationCreate
		if o.State == platform.OperationFailed {
			o.State = platform.OperationSucceeded
		}
	}
	return presentOperation(o)
}

func presentBinding(req *rest.Request, b *platform.ServiceBinding, i *platform.ServiceInstance) bindingBody {
	path := "/service_credential_bindings/"
	if b.Type == platform.BindingRoute {
		path = "/service_route_bindings/"
	}
	self := path + rest.Escape(b.GUID)
	out := bindingBody{
		ResourceBody: rest.PresentResource(&b.Resource), LastOperation: presentBindingOperation(b.Last),
		Metadata:      rest.PresentMetadata(&b.Metadata),
		Relationships: map[string]any{"service_instance": rest.ToOne(b.InstanceGUID)},
		Links: rest.Links{"self": req.Link(self), "service_instance": req.Link("/service_instances/",
			rest.Escape(b.InstanceGUID))},
	}
	managed := i != nil && i.Type == platform.ServiceManaged
	if managed {
		out.Links["parameters"] = req.Link(self, "/parameters")
	}
	if b.Type == platform.BindingRoute {
		address := nullName(b.RouteServiceURL)
		if i != nil {
			address = nullName(actions.Effective(b, i).RouteServiceURL)
		}
		out.RouteServiceURL = &address
		out.Relationships["route"] = rest.ToOne(b.RouteGUID)
		out.Links["route"] = req.Link("/routes/", rest.Escape(b.RouteGUID))
		return out
	}
	name := nullName(b.Name)
	out.Name, out.Type = &name, b.Type
	out.Links["details"] = req.Link(self, "/details")
	if b.AppGUID != "" {
		out.Relationships["app"] = rest.ToOne(b.AppGUID)
		out.Links["app"] = req.Link("/apps/", rest.Escape(b.AppGUID))
	}
	return out
}
