package api

import (
	"net/http"

	"ingot/internal/base/web"
	"ingot/internal/platform"
	"ingot/internal/platform/api/listing"
)

var revisions = resource[platform.Revision, revisionBody]{
	noun: "Revision", repo: platform.Tx.Revisions, present: presentRevisions,
	list: listing.Params{Filters: listing.Filters{"versions": listing.Number("version"), "deployable": listing.Flag("deployable")}},
}

func (a *API) revisionRoutes(g *web.Group) {
	read, write := web.Scope(readers...), web.Scope(writers...)
	g.Handle(http.MethodGet, "/v3/apps/{guid}/revisions", read, listerOf(a, revisions, platform.Tx.Apps, "App", "app_guid"))
	g.Handle(http.MethodGet, "/v3/apps/{guid}/revisions/deployed", read, revisions.listerWhere(a, deployedRevisions))
	g.Handle(http.MethodGet, "/v3/revisions/{guid}", read, revisions.getter(a))
	g.Handle(http.MethodPatch, "/v3/revisions/{guid}", write, metadataPatcher(a, revisions, a.revisionToChange))
	g.Handle(http.MethodGet, "/v3/revisions/{guid}/environment_variables", read, a.revisionEnvironment)
}

// deployedRevisions are the revisions that processes of a started app run.
func deployedRevisions(req *request) ([]platform.Cond, error) {
	app, err := find(req.caller, req.tx.Apps(), web.Param(req.r, "guid"), "App")
	if err != nil {
		return nil, err
	}
	return []platform.Cond{platform.In("app_guid", app.GUID), platform.In("deployed", true)}, nil
}

func (a *API) revisionToChange(req *request) (*platform.Revision, error) {
	r, err := revisions.find(req)
	if err != nil {
		return nil, err
	}
	_, err = req.appNamed(r.AppGUID, platform.Develop)
	return r, err
}

// revisionEnvironment shows the environment of a revision to those who may read
// secrets, and records that.
func (a *API) revisionEnvironment(w http.ResponseWriter, r *http.Request) error {
	return a.perform(w, r, http.StatusOK, func(req *request) (any, error) {
		revision, err := revisions.find(req)
		if err != nil {
			return nil, err
		}
		app, err := req.appNamed(revision.AppGUID, platform.ReadSecrets)
		if err != nil {
			return nil, err
		}
		self := "/revisions/" + escape(revision.GUID)
		return map[string]any{
			"var":   nonNil(revision.Env),
			"links": links{"self": req.v3(self, "/environment_variables"), "revision": req.v3(self), "app": req.v3("/apps/", escape(app.GUID))},
		}, a.platform.RevisionEnvironmentShown(req.tx, req.caller.actor(), app, revision)
	})
}

type revisionBody struct {
	resourceBody
	Version       int                        `json:"version"`
	Droplet       relationData               `json:"droplet"`
	Processes     map[string]revisionProcess `json:"processes"`
	Sidecars      []revisionSidecar          `json:"sidecars"`
	Description   string                     `json:"description"`
	Deployable    bool                       `json:"deployable"`
	Relationships map[string]any             `json:"relationships"`
	Metadata      metadata                   `json:"metadata"`
	Links         links                      `json:"links"`
	Ingot         revisionExtras             `json:"ingot"`
}

// revisionProcess and revisionSidecar have Cloud Foundry's members and no others:
// clients decode processes as maps of strings.
type revisionProcess struct {
	Command *string `json:"command"`
}

type revisionSidecar struct {
	Name         string   `json:"name"`
	Command      string   `json:"command"`
	ProcessTypes []string `json:"process_types"`
	MemoryMB     *int     `json:"memory_in_mb"`
}

// revisionExtras is what else a rollback restores, an extension of Ingot.
type revisionExtras struct {
	Processes map[string]revisionSettings         `json:"processes"` // by type
	Sidecars  map[string]*platform.SidecarOptions `json:"sidecars"`  // by name, of those that have options
}

// revisionSettings are the settings of a process.
type revisionSettings struct {
	MemoryMB  int       `json:"memory_in_mb"`
	DiskMB    int       `json:"disk_in_mb"`
	LogRate   int64     `json:"log_rate_limit_in_bytes_per_second"`
	Health    checkBody `json:"health_check"`
	Readiness checkBody `json:"readiness_health_check"`
	// OnCredentials is as in processes.
	OnCredentials string `json:"on_credentials,omitempty"`
}

// presentRevisions presents revisions of one app.
func presentRevisions(req *request, items []*platform.Revision) ([]revisionBody, error) {
	droplets := guidsOf(items, func(r *platform.Revision) string { return r.DropletGUID })
	staged, _, err := req.tx.Droplets().List(platform.Query{Where: []platform.Cond{
		platform.InStrings("guid", droplets), platform.In("state", string(platform.DropletStaged)),
	}})
	if err != nil {
		return nil, err
	}
	deployable := map[string]bool{}
	for _, d := range staged {
		deployable[d.GUID] = true
	}
	secrets := false
	if len(items) > 0 {
		if secrets, err = req.showsSecrets(items[0].AppGUID); err != nil {
			return nil, err
		}
	}
	return presentAll(items, func(r *platform.Revision) revisionBody {
		body := presentRevision(req, r, secrets)
		body.Deployable = deployable[r.DropletGUID]
		return body
	}), nil
}

func presentRevision(req *request, r *platform.Revision, secrets bool) revisionBody {
	self := "/revisions/" + escape(r.GUID)
	body := revisionBody{
		resourceBody: presentResource(&r.Resource), Version: r.Version, Droplet: relationData{GUID: r.DropletGUID}, Description: r.Description,
		Processes: map[string]revisionProcess{}, Sidecars: []revisionSidecar{},
		Relationships: map[string]any{"app": toOne(r.AppGUID)}, Metadata: presentMetadata(&r.Metadata),
		Links: links{"self": req.v3(self), "app": req.v3("/apps/", escape(r.AppGUID)), "environment_variables": req.v3(self, "/environment_variables")},
		Ingot: revisionExtras{Processes: map[string]revisionSettings{}, Sidecars: map[string]*platform.SidecarOptions{}},
	}
	for kind, p := range r.Processes {
		command := p.Command
		if command != "" && !secrets {
			command = hidden
		}
		body.Processes[kind] = revisionProcess{orNull(command)}
		body.Ingot.Processes[kind] = revisionSettings{p.MemoryMB, p.DiskMB, p.LogRate, presentCheck(p.Health, true), presentCheck(p.Readiness, false), p.OnCredentials}
	}
	for _, s := range r.Sidecars {
		one := revisionSidecar{Name: s.Name, Command: s.Command, ProcessTypes: append([]string{}, s.ProcessTypes...)}
		if s.MemoryMB > 0 {
			one.MemoryMB = &s.MemoryMB
		}
		body.Sidecars = append(body.Sidecars, one)
		if options := presentOptions(r.Options[s.Name]); options != nil {
			body.Ingot.Sidecars[s.Name] = options
		}
	}
	return body
}
