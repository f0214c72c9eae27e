package builds

import (
	"net/http"
	"strings"

	"ingot/internal/base/fault"
	"ingot/internal/base/web"
	"ingot/internal/platform"
	"ingot/internal/platform/actions"
	"ingot/internal/platform/api/apps"
	"ingot/internal/platform/api/listing"
	"ingot/internal/platform/api/rest"
)

var builds = rest.Resource[platform.Build, buildBody]{
	Noun: "Build", Repo: platform.Tx.Builds, Present: rest.Each(presentBuild),
	List: listing.Params{Filters: listing.Filters{
		"states": listing.Text("state"), "app_guids": listing.Text("app_guid"), "package_guids": listing.Text("package_guid"),
	}},
}

func (a *API) buildRoutes(g *web.Group) {
	g.Handle(http.MethodGet, "/v3/builds", rest.Read, builds.Lister(a.Server))
	g.Storing().Handle(http.MethodPost, "/v3/builds", rest.Write, a.createBuild)
	g.Handle(http.MethodGet, "/v3/builds/{guid}", rest.Read, builds.Getter(a.Server))
	g.Handle(http.MethodPatch, "/v3/builds/{guid}", rest.Write,
		rest.MetadataPatcher(a.Server, builds, rest.Only(buildFor)))
	g.Handle(http.MethodGet, "/v3/apps/{guid}/builds", rest.Read, rest.ListerOf(a.Server, builds, platform.Tx.Apps, "App",
		"app_guid"))
}

type buildRequest struct {
	Package  *rest.Loose[rest.RelationData] `json:"package"`
	Life     *apps.LifecycleRequest         `json:"lifecycle"`
	MemoryMB *rest.Whole[int]               `json:"staging_memory_in_mb"`
	DiskMB   *rest.Whole[int]               `json:"staging_disk_in_mb"`
	LogRate  *rest.Whole[int64]             `json:"staging_log_rate_limit_bytes_per_second"`
	Metadata *actions.MetadataPatch         `json:"metadata"`
}

func (a *API) createBuild(w http.ResponseWriter, r *http.Request) error {
	var body buildRequest
	if err := web.DecodeStrict(r, &body); err != nil {
		return err
	}
	if body.Package == nil || body.Package.Value.GUID == "" {
		return fault.Invalid("Package can't be blank")
	}
	var warning string
	return rest.Answer(a.Server, rest.Warned(w, &warning), r, builds, http.StatusCreated,
		func(req *rest.Request) (*platform.Build, error) {
			pkg, err := rest.Find(req.Caller, req.Tx.Packages(), body.Package.Value.GUID, "Package")
			if err != nil {
				return nil, rest.NotAccessible(err,
					"Unable to use package. Ensure that the package exists and you have access to it.")
			}
			app, err := req.AppNamed(pkg.AppGUID, platform.Operate)
			if err != nil {
				return nil, err
			}
			if pkg.Type == platform.PackageDocker {
				if err := rest.NeedEnabled(req.Tx, rest.FlagDocker); err != nil {
					return nil, err
				}
			}
			build, err := a.newBuild(app, &body)
			if err != nil {
				return nil, err
			}
			if err := a.Platform.CreateBuild(req.Tx, req.Caller.Actor(), app, pkg, build); err != nil {
				return nil, err
			}
			sidecars, _, err := req.Tx.Sidecars().List(platform.Where("app_guid", app.GUID))
			if err != nil {
				return nil, err
			}
			if warning, err = apps.SidecarWarning(req.Tx, build.Lifecycle, sidecars...); err != nil {
				return nil, err
			}
			old, err := a.Platform.StackUsable(req.Tx, app, build.Lifecycle.Stack)
			warning = strings.TrimSpace(warning + " " + old)
			return build, err
		})
}

func (a *API) newBuild(app *platform.App, body *buildRequest) (*platform.Build, error) {
	build := &platform.Build{
		Lifecycle: app.Lifecycle, MemoryMB: a.Platform.StagingMemoryMB, DiskMB: a.Platform.StagingDiskMB,
		LogRate: platform.DefaultLogRate,
	}
	apps.ApplyLifecycle(body.Life, &build.Lifecycle)
	web.Set(&build.MemoryMB, body.MemoryMB.Get())
	web.Set(&build.DiskMB, body.DiskMB.Get())
	web.Set(&build.LogRate, body.LogRate.Get())
	err := body.Metadata.Apply(&build.Metadata)
	return build, err
}

// buildFor returns the build of the path, for developers of its app.
var buildFor = rest.OfApp(builds, func(b *platform.Build) string { return b.AppGUID }, platform.Develop)

type buildBody struct {
	rest.ResourceBody
	State         platform.BuildState `json:"state"`
	MemoryMB      int                 `json:"staging_memory_in_mb"`
	DiskMB        int                 `json:"staging_disk_in_mb"`
	LogRate       int64               `json:"staging_log_rate_limit_bytes_per_second"`
	Error         *string             `json:"error"`
	Lifecycle     apps.LifecycleBody  `json:"lifecycle"`
	Package       rest.RelationData   `json:"package"`
	Droplet       *rest.RelationData  `json:"droplet"`
	CreatedBy     map[string]any      `json:"created_by"`
	Relationships map[string]any      `json:"relationships"`
	Metadata      rest.Metadata       `json:"metadata"`
	Links         rest.Links          `json:"links"`
}

func presentBuild(req *rest.Request, b *platform.Build) buildBody {
	out := buildBody{
		ResourceBody: rest.PresentResource(&b.Resource), State: b.State, MemoryMB: b.MemoryMB, DiskMB: b.DiskMB,
		LogRate: b.LogRate,
		Error:   rest.OrNull(b.Error), Lifecycle: apps.PresentLifecycle(b.Lifecycle),
		Package:       rest.RelationData{GUID: b.PackageGUID},
		CreatedBy:     map[string]any{"guid": b.CreatorGUID, "name": b.CreatorName, "email": b.CreatorMail},
		Relationships: map[string]any{"app": rest.ToOne(b.AppGUID)}, Metadata: rest.PresentMetadata(&b.Metadata),
		Links: rest.Links{"self": req.Link("/builds/", rest.Escape(b.GUID)),
			"app": req.Link("/apps/", rest.Escape(b.AppGUID))},
	}
	// The droplet is shown only if it exists.
	if b.State == platform.BuildStaged {
		out.Droplet = &rest.RelationData{GUID: b.DropletGUID}
		out.Links["droplet"] = req.Link("/droplets/", rest.Escape(b.DropletGUID))
	}
	return out
}
