package apps

import (
	"fmt"
	"net/http"
	"slices"

	"ingot/internal/base/fault"
	"ingot/internal/base/web"
	"ingot/internal/platform"
	"ingot/internal/platform/actions"
	"ingot/internal/platform/api/listing"
	"ingot/internal/platform/api/rest"
)

var deployments = rest.Resource[platform.Deployment, deploymentBody]{
	Noun: "Deployment", Repo: platform.Tx.Deployments, Present: rest.Each(presentDeployment),
	List: listing.Params{Filters: listing.Filters{
		"app_guids": listing.Text("app_guid"), "states": listing.Text("reason"), "status_values": listing.Text("status"),
		"status_reasons": listing.Text("reason"),
	}},
}

func (a *API) deploymentRoutes(g *web.Group) {
	g.Handle(http.MethodGet, "/v3/deployments", rest.Read, deployments.Lister(a.Server))
	g.Storing().Handle(http.MethodPost, "/v3/deployments", rest.Write, a.createDeployment)
	g.Handle(http.MethodGet, "/v3/deployments/{guid}", rest.Read, deployments.Getter(a.Server))
	g.Handle(http.MethodPatch, "/v3/deployments/{guid}", rest.Write, rest.MetadataPatcher(a.Server, deployments,
		rest.Only(deploymentFor)))
	g.Handle(http.MethodPost, "/v3/deployments/{guid}/actions/cancel", rest.Write,
		a.deploymentAction(a.Platform.CancelDeployment))
	g.Handle(http.MethodPost, "/v3/deployments/{guid}/actions/continue", rest.Write,
		a.deploymentAction(a.Platform.ContinueDeployment))
}

type deploymentRequest struct {
	Strategy      *platform.DeploymentStrategy   `json:"strategy"`
	Droplet       *rest.Loose[rest.RelationData] `json:"droplet"`
	Revision      *rest.Loose[rest.RelationData] `json:"revision"`
	Options       *deploymentOptions             `json:"options"`
	Metadata      *actions.MetadataPatch         `json:"metadata"`
	Relationships *struct {
		App rest.Relation `json:"app"`
	} `json:"relationships"`
}

// deploymentOptions may all be null: cf sends null for options that are not set.
type deploymentOptions struct {
	MaxInFlight  *int               `json:"max_in_flight"`
	WebInstances *rest.Whole[int]   `json:"web_instances"`
	MemoryMB     *rest.Whole[int]   `json:"memory_in_mb"`
	DiskMB       *rest.Whole[int]   `json:"disk_in_mb"`
	LogRate      *rest.Whole[int64] `json:"log_rate_limit_in_bytes_per_second"`
	Canary       *deploymentSteps   `json:"canary"`
	// MinHealthy is an extension of Ingot: seconds, also fractions.
	MinHealthy *float64 `json:"min_healthy_time"`
}

type deploymentSteps struct {
	Steps []deploymentStep `json:"steps"`
}

// maxSteps limits the steps of a canary deployment: a weight is a percentage, so
// more could not differ.
const maxSteps = 100

type deploymentStep struct {
	Weight *int `json:"instance_weight"`
}

// scales reports whether the web process is scaled along with the deployment.
func (o *deploymentOptions) scales() bool {
	return o != nil && (o.WebInstances != nil || o.MemoryMB != nil || o.DiskMB != nil || o.LogRate != nil)
}

// read validates the request.
func (b *deploymentRequest) read() (*platform.Deployment, error) {
	d := &platform.Deployment{Strategy: platform.StrategyRolling, MaxInFlight: 1}
	var problems []string
	web.Set(&d.Strategy, b.Strategy)
	if d.Strategy != platform.StrategyRolling && d.Strategy != platform.StrategyCanary {
		problems = append(problems, fmt.Sprintf("Strategy '%s' is not a supported deployment strategy", d.Strategy))
	}
	if b.Relationships == nil || b.Relationships.App.Data == nil {
		problems = append(problems, "Relationships 'relationships' must include 'app'")
	}
	if b.Revision != nil && b.Droplet != nil {
		problems = append(problems, "Cannot set both fields 'droplet' and 'revision'")
	} else if b.Revision != nil {
		if d.RevisionGUID = b.Revision.Value.GUID; d.RevisionGUID == "" {
			problems = append(problems, "Revision must have a guid")
		}
	}
	if b.Droplet != nil {
		d.DropletGUID = b.Droplet.Value.GUID
	}
	if o := b.Options; o != nil {
		web.Set(&d.MaxInFlight, o.MaxInFlight)
		if d.MaxInFlight < 1 {
			problems = append(problems, "Max in flight must be an integer greater than 0")
		}
		d.Options = platform.DeploymentOptions{WebInstances: o.WebInstances.Get(), MemoryMB: o.MemoryMB.Get(),
			DiskMB: o.DiskMB.Get(), LogRate: o.LogRate.Get()}
		if o.WebInstances != nil && o.WebInstances.Value < 1 {
			problems = append(problems, "Web instances must be greater than 0")
		}
		if o.Canary != nil {
			problems = append(problems, o.Canary.read(d)...)
		}
		if o.MinHealthy != nil {
			if *o.MinHealthy < 0 || *o.MinHealthy > platform.MaxMinHealthy {
				problems = append(problems, fmt.Sprintf("Min healthy time must be between 0 and %d seconds",
					platform.MaxMinHealthy))
			}
			ms := int64(*o.MinHealthy * 1000)
			d.Options.MinHealthyMS = &ms
		}
	}
	return d, fault.Invalid(problems...)
}

func (b *deploymentSteps) read(d *platform.Deployment) (problems []string) {
	if d.Strategy != platform.StrategyCanary {
		return []string{"Options.canary are only valid for Canary deployments"}
	}
	if len(b.Steps) > maxSteps {
		return []string{fmt.Sprintf("Options.canary.steps must have at most %d steps, and has %d", maxSteps, len(b.Steps))}
	}
	for _, step := range b.Steps {
		switch {
		case step.Weight == nil:
			return []string{`Options.canary.steps missing key: "instance_weight"`}
		case *step.Weight < 1 || *step.Weight > 100:
			return []string{"Options.canary.steps.instance weight must be an Integer between 1-100 (inclusive)"}
		}
		d.Options.CanarySteps = append(d.Options.CanarySteps, *step.Weight)
	}
	if !slices.IsSorted(d.Options.CanarySteps) {
		return []string{"Options.canary.steps.instance weight must be sorted in ascending order"}
	}
	return nil
}

func (a *API) createDeployment(w http.ResponseWriter, r *http.Request) error {
	body, err := rest.Body[deploymentRequest](r)
	if err != nil {
		return err
	}
	if _, err := body.read(); err != nil {
		return err
	}
	return rest.Answer(a.Server, w, r, deployments, http.StatusCreated,
		func(req *rest.Request) (*platform.Deployment, error) {
			d, err := body.read()
			if err != nil {
				return nil, err
			}
			if err := body.Metadata.Apply(&d.Metadata); err != nil {
				return nil, err
			}
			app, err := req.AppNamed(body.Relationships.App.Data.GUID, platform.Operate)
			if fault.Is(err, fault.NotFound) || fault.Is(err, fault.Forbidden) {
				return nil, fault.Wrap(err, fault.Unprocessable,
					"Unable to use app. Ensure that the app exists and you have access to it.")
			}
			if err != nil {
				return nil, err
			}
			if body.Options.scales() {
				if err := req.NeedFlag("app_scaling"); err != nil {
					return nil, err
				}
			}
			return d, a.Platform.CreateDeployment(req.Tx, req.Caller.Actor(), app, d)
		})
}

// deploymentFor returns the deployment of the path and its app, if the caller may
// operate the app.
var deploymentFor = rest.OfApp(deployments, func(d *platform.Deployment) string { return d.AppGUID }, platform.Operate)

func (a *API) deploymentAction(act func(platform.Tx, actions.Actor, *platform.App,
	*platform.Deployment) error) web.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		return rest.Answer(a.Server, w, r, deployments, http.StatusOK, func(req *rest.Request) (*platform.Deployment, error) {
			d, app, err := deploymentFor(req)
			if err != nil {
				return nil, err
			}
			return d, act(req.Tx, req.Caller.Actor(), app, d)
		})
	}
}

type deploymentBody struct {
	rest.ResourceBody
	Status        map[string]any              `json:"status"`
	Strategy      platform.DeploymentStrategy `json:"strategy"`
	Options       map[string]any              `json:"options"`
	Droplet       dropletOf                   `json:"droplet"`
	Previous      dropletOf                   `json:"previous_droplet"`
	NewProcesses  []deployedShort             `json:"new_processes"`
	Revision      any                         `json:"revision"`
	Relationships map[string]any              `json:"relationships"`
	Metadata      rest.Metadata               `json:"metadata"`
	Links         rest.Links                  `json:"links"`
}

// dropletOf returns a reference to a droplet; its guid is null if there is none.
type dropletOf struct {
	GUID *string `json:"guid"`
}

type deployedShort struct {
	GUID string `json:"guid"`
	Type string `json:"type"`
}

func presentDeployment(req *rest.Request, d *platform.Deployment) deploymentBody {
	self := "/deployments/" + rest.Escape(d.GUID)
	healthy := d.LastHealthy
	if healthy.IsZero() {
		healthy = d.Created
	}
	details := map[string]any{"last_successful_healthcheck": rest.Timestamp(healthy),
		"last_status_change": rest.Timestamp(d.LastChange)}
	if d.Error != "" {
		details["error"] = d.Error
	}
	status := map[string]any{"value": d.Status, "reason": d.Reason, "details": details}
	options := map[string]any{"max_in_flight": d.MaxInFlight}
	for name, n := range map[string]*int{"web_instances": d.Options.WebInstances, "memory_in_mb": d.Options.MemoryMB,
		"disk_in_mb": d.Options.DiskMB} {
		if n != nil {
			options[name] = *n
		}
	}
	if d.Options.LogRate != nil {
		options["log_rate_limit_in_bytes_per_second"] = *d.Options.LogRate
	}
	if ms := d.Options.MinHealthyMS; ms != nil {
		options["min_healthy_time"] = float64(*ms) / 1000 // an extension of Ingot
	}
	var revision any
	if d.RevisionGUID != "" {
		revision = map[string]any{"guid": d.RevisionGUID, "version": d.RevisionVersion}
	}
	if total := d.Steps(); total > 0 {
		status["canary"] = map[string]any{"steps": map[string]int{"current": min(d.Step, total), "total": total}}
		if len(d.Options.CanarySteps) > 0 {
			steps := []map[string]int{}
			for _, weight := range d.Options.CanarySteps {
				steps = append(steps, map[string]int{"instance_weight": weight})
			}
			options["canary"] = map[string]any{"steps": steps}
		}
	}
	out := deploymentBody{
		ResourceBody: rest.PresentResource(&d.Resource), Strategy: d.Strategy, Status: status, Options: options,
		Droplet: dropletOf{rest.OrNull(d.DropletGUID)}, Previous: dropletOf{rest.OrNull(d.PreviousDropletGUID)},
		NewProcesses:  []deployedShort{{d.WebGUID, platform.WebProcess}},
		Revision:      revision,
		Relationships: map[string]any{"app": rest.ToOne(d.AppGUID)}, Metadata: rest.PresentMetadata(&d.Metadata),
		Links: rest.Links{"self": req.Link(self), "app": req.Link("/apps/", rest.Escape(d.AppGUID))},
	}
	post := func(action string) *rest.Link {
		return &rest.Link{Href: req.Link(self, "/actions/", action).Href, Method: http.MethodPost}
	}
	if d.Status == platform.DeploymentActive {
		if d.Reason != platform.ReasonCanceling {
			out.Links["cancel"] = post("cancel")
		}
		if d.Reason == platform.ReasonPaused {
			out.Links["continue"] = post("continue")
		}
	}
	return out
}
