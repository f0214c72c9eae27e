package apps

import (
	"net/http"

	"ingot/internal/base/web"
	"ingot/internal/platform"
	"ingot/internal/platform/api/listing"
	"ingot/internal/platform/api/rest"
)

var revisions = rest.Resource[platform.Revision, revisionBody]{
	Noun: "Revision", Repo: platform.Tx.Revisions, Present: presentRevisions,
	List: listing.Params{Filters: listing.Filters{"versions": listing.Number("version"),
		"deployable": listing.Flag("deployable")}},
}

func (a *API) revisionRoutes(g *web.Group) {
	g.Handle(http.MethodGet, "/v3/apps/{guid}/revisions", rest.Read, rest.ListerOf(a.Server, revisions, platform.Tx.Apps,
		"App", "app_guid"))
	g.Handle(http.MethodGet, "/v3/apps/{guid}/revisions/deployed", rest.Read,
		revisions.ListerWhere(a.Server, deployedRevisions))
	g.Handle(http.MethodGet, "/v3/revisions/{guid}", rest.Read, revisions.Getter(a.Server))
	g.Handle(http.MethodPatch, "/v3/revisions/{guid}", rest.Write, rest.MetadataPatcher(a.Server, revisions,
		rest.Only(revisionFor)))
	g.Handle(http.MethodGet, "/v3/revisions/{guid}/environment_variables", rest.Read,
		rest.AuditedViewer(a.Server, revisions.Find, a.revisionEnvironment))
}

// deployedRevisions are the revisions that processes of a started app run.
func deployedRevisions(req *rest.Request) ([]platform.Cond, error) {
	app, err := Apps.Find(req)
	if err != nil {
		return nil, err
	}
	return []platform.Cond{platform.In("app_guid", app.GUID), platform.In("deployed", true)}, nil
}

var revisionFor = rest.OfApp(revisions, func(r *platform.Revision) string { return r.AppGUID }, platform.Develop)

// revisionEnvironment shows the environment of a revision to those who may read
// secrets, and records that.
func (a *API) revisionEnvironment(req *rest.Request, revision *platform.Revision) (any, error) {
	app, err := req.AppNamed(revision.AppGUID, platform.ReadSecrets)
	if err != nil {
		return nil, err
	}
	self := "/revisions/" + rest.Escape(revision.GUID)
	return map[string]any{
		"var": rest.NonNil(revision.Env),
		"links": rest.Links{"self": req.Link(self, "/environment_variables"), "revision": req.Link(self),
			"app": req.Link("/apps/", rest.Escape(app.GUID))},
	}, a.Platform.RevisionEnvironmentShown(req.Tx, req.Caller.Actor(), app, revision)
}

type revisionBody struct {
	rest.ResourceBody
	Version       int                        `json:"version"`
	Droplet       rest.RelationData          `json:"droplet"`
	Processes     map[string]revisionProcess `json:"processes"`
	Sidecars      []revisionSidecar          `json:"sidecars"`
	Description   string                     `json:"description"`
	Deployable    bool                       `json:"deployable"`
	Relationships map[string]any             `json:"relationships"`
	Metadata      rest.Metadata              `json:"metadata"`
	Links         rest.Links                 `json:"links"`
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
	Processes map[string]settingsBody             `json:"processes"` // by type
	Sidecars  map[string]*platform.SidecarOptions `json:"sidecars"`  // by name, of those that have options
}

// presentRevisions presents revisions of one app.
func presentRevisions(req *rest.Request, items []*platform.Revision) ([]revisionBody, error) {
	droplets := rest.GUIDsOf(items, func(r *platform.Revision) string { return r.DropletGUID })
	staged, _, err := req.Tx.Droplets().List(platform.Query{Where: []platform.Cond{
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
		if secrets, err = req.ShowsSecrets(items[0].AppGUID); err != nil {
			return nil, err
		}
	}
	return rest.PresentAll(items, func(r *platform.Revision) revisionBody {
		body := presentRevision(req, r, secrets)
		body.Deployable = deployable[r.DropletGUID]
		return body
	}), nil
}

func presentRevision(req *rest.Request, r *platform.Revision, secrets bool) revisionBody {
	self := "/revisions/" + rest.Escape(r.GUID)
	body := revisionBody{
		ResourceBody: rest.PresentResource(&r.Resource), Version: r.Version, Droplet: rest.RelationData{GUID: r.DropletGUID},
		Description: r.Description,
		Processes:   map[string]revisionProcess{}, Sidecars: []revisionSidecar{},
		Relationships: map[string]any{"app": rest.ToOne(r.AppGUID)}, Metadata: rest.PresentMetadata(&r.Metadata),
		Links: rest.Links{"self": req.Link(self), "app": req.Link("/apps/", rest.Escape(r.AppGUID)),
			"environment_variables": req.Link(self, "/environment_variables")},
		Ingot: revisionExtras{Processes: map[string]settingsBody{}, Sidecars: map[string]*platform.SidecarOptions{}},
	}
	for kind, p := range r.Processes {
		command := p.Command
		if command != "" && !secrets {
			command = rest.Hidden
		}
		body.Processes[kind] = revisionProcess{rest.OrNull(command)}
		body.Ingot.Processes[kind] = presentSettings(&p)
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
