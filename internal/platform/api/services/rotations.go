package services

import (
	"net/http"
	"slices"
	"time"

	"ingot/internal/base/fault"
	"ingot/internal/base/web"
	"ingot/internal/platform"
	"ingot/internal/platform/api/listing"
	"ingot/internal/platform/api/rest"
	"ingot/internal/platform/services"
)

// defaultGrace is how long old credentials stay valid after nothing uses them.
const defaultGrace = 10 * time.Minute

var rotations = rest.Resource[platform.CredentialRotation, rotationBody]{
	Noun: "Credential rotation", Repo: platform.Tx.CredentialRotations, Present: rest.Each(presentRotation),
	List: listing.Params{Filters: listing.Filters{"states": listing.Text("state"), "app_guids": listing.Text("app_guid"),
		"job_guids": listing.Text("request_guid")}},
}

// rotationRoutes are not in Cloud Foundry.
func (a *API) rotationRoutes(g *web.Group) {
	const path = "/v3/ingot/service_instances/{guid}"
	g.Storing().Handle(http.MethodPost, path+"/rotate", rest.Write, a.rotateCredentials)
	g.Handle(http.MethodGet, path+"/rotations", rest.Read, rest.ListerOf(a.Server, rotations, platform.Tx.ServiceInstances,
		"Service instance", "instance_guid"))
}

// rotateCredentials responds with a job that is complete when the apps were told.
func (a *API) rotateCredentials(w http.ResponseWriter, r *http.Request) error {
	var body struct {
		Grace   *int      `json:"grace_seconds"`
		Apps    *[]string `json:"apps"`
		Keys    bool      `json:"keys"`
		Restart *bool     `json:"restart"`
		Force   bool      `json:"force"`
	}
	if err := web.DecodeStrict(r, &body); err != nil {
		return err
	}
	grace := defaultGrace
	if body.Grace != nil {
		if *body.Grace < 0 || *body.Grace > int(services.MaxGrace.Seconds()) {
			return fault.Invalid("Grace seconds must be between 0 and 604800")
		}
		grace = time.Duration(*body.Grace) * time.Second
	}
	return a.OrJob(w, r, func(req *rest.Request) (*platform.Job, error) {
		i, err := serviceInstances.Find(req)
		if err != nil {
			return nil, err
		}
		var apps []string
		if body.Apps != nil {
			apps = append([]string{}, *body.Apps...)
		}
		bindings, err := rotatable(req, i, apps, body.Keys)
		if err != nil {
			return nil, err
		}
		return a.Services.Rotate(req.Tx, req.Caller.Actor(), services.Rotate{
			Instance: i, Bindings: bindings, Grace: grace, Restart: body.Restart == nil || *body.Restart, Force: body.Force,
		})
	})
}

// rotatable returns the bindings of an instance that the caller may change, of some apps or, if
// apps is nil, of all. An instance may also be bound in spaces of others: those bindings are
// left alone unless they are asked for, which is an error.
func rotatable(req *rest.Request, i *platform.ServiceInstance, apps []string,
	keys bool) ([]*platform.ServiceBinding, error) {
	all, _, err := req.Tx.ServiceBindings().List(platform.Where("instance_guid", i.GUID).And(credentialTypes))
	if err != nil {
		return nil, err
	}
	var out []*platform.ServiceBinding
	var denied error
	found := map[string]bool{}
	for _, b := range all {
		if b.Type == platform.BindingKey && !keys || b.Type == platform.BindingApp && apps != nil &&
			!slices.Contains(apps, b.AppGUID) {
			continue
		}
		if _, err := req.Caller.MayInSpace(req.Tx, b.SpaceGUID, platform.Develop); err != nil {
			denied = err
			continue
		}
		found[b.AppGUID] = true
		if b.Last.Exists() || b.Last.InProgress() {
			out = append(out, b)
		}
	}
	for _, guid := range apps {
		if !found[guid] {
			return nil, fault.New(fault.Unprocessable,
				"The service instance '%s' is not bound to the app '%s', or you may not change that binding.", i.Name, guid)
		}
	}
	if len(out) == 0 {
		if denied != nil {
			return nil, denied
		}
		if _, err := req.Caller.MayInSpace(req.Tx, i.SpaceGUID, platform.Develop); err != nil {
			return nil, err
		}
	}
	return out, nil
}

type rotationBody struct {
	rest.ResourceBody
	JobGUID      string                  `json:"job_guid"`
	State        platform.RotationState  `json:"state"`
	Method       platform.RotationMethod `json:"method"`
	Deployment   *nullName               `json:"deployment_guid"`
	Waiting      int                     `json:"waiting_for_instances"`
	GraceSeconds int                     `json:"grace_seconds"`
	RevokeAt     *string                 `json:"revoke_at"`
	Description  string                  `json:"description"`

	Relationships map[string]any `json:"relationships"`
	Links         rest.Links     `json:"links"`
}

func presentRotation(req *rest.Request, row *platform.CredentialRotation) rotationBody {
	deployment := nullName(row.DeploymentGUID)
	out := rotationBody{
		ResourceBody: rest.PresentResource(&row.Resource), JobGUID: row.RequestGUID, State: row.State, Method: row.Method,
		Deployment: &deployment,
		Waiting:    len(row.Waits), GraceSeconds: row.GraceSeconds, Description: row.Description,
		Relationships: map[string]any{"service_instance": rest.ToOne(row.InstanceGUID),
			"service_credential_binding": rest.ToOne(row.BindingGUID)},
		Links: rest.Links{
			"service_instance":           req.Link("/service_instances/", rest.Escape(row.InstanceGUID)),
			"service_credential_binding": req.Link("/service_credential_bindings/", rest.Escape(row.BindingGUID)),
		},
	}
	if !row.RevokeAt.IsZero() {
		at := rest.Timestamp(row.RevokeAt)
		out.RevokeAt = &at
	}
	if row.AppGUID != "" {
		out.Relationships["app"] = rest.ToOne(row.AppGUID)
		out.Links["app"] = req.Link("/apps/", rest.Escape(row.AppGUID))
	}
	return out
}
