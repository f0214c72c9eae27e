package api

import (
	"net/http"
	"strings"

	"ingot/internal/base/fault"
	"ingot/internal/base/tracing"
	"ingot/internal/base/web"
	"ingot/internal/platform"
	"ingot/internal/platform/actions"
	"ingot/internal/platform/api/listing"
)

var builds = resource[platform.Build, buildBody]{
	noun: "Build", repo: platform.Tx.Builds, present: each(presentBuild),
	list: listing.Params{Filters: listing.Filters{
		"states": listing.Text("state"), "app_guids": listing.Text("app_guid"), "package_guids": listing.Text("package_guid"),
	}},
}

func (a *API) buildRoutes(g *web.Group) {
	read, write := web.Scope(readers...), web.Scope(writers...)
	g.Handle(http.MethodGet, "/v3/builds", read, builds.lister(a))
	g.Storing().Handle(http.MethodPost, "/v3/builds", write, a.createBuild)
	g.Handle(http.MethodGet, "/v3/builds/{guid}", read, builds.getter(a))
	g.Handle(http.MethodPatch, "/v3/builds/{guid}", write, metadataPatcher(a, builds, a.buildFor))
	g.Handle(http.MethodGet, "/v3/apps/{guid}/builds", read, listerOf(a, builds, platform.Tx.Apps, "App", "app_guid"))
}

type buildRequest struct {
	Package  *loose[relationData]   `json:"package"`
	Life     *lifecycleRequest      `json:"lifecycle"`
	MemoryMB *whole[int]            `json:"staging_memory_in_mb"`
	DiskMB   *whole[int]            `json:"staging_disk_in_mb"`
	LogRate  *whole[int64]          `json:"staging_log_rate_limit_bytes_per_second"`
	Metadata *actions.MetadataPatch `json:"metadata"`
}

func (a *API) createBuild(w http.ResponseWriter, r *http.Request) error {
	var body buildRequest
	if err := web.DecodeStrict(r, &body); err != nil {
		return err
	}
	if body.Package == nil || body.Package.value.GUID == "" {
		return fault.Invalid("Package can't be blank")
	}
	var guid, warning string
	err := answer(a, warned{w, &warning}, r, builds, http.StatusCreated, func(req *request) (*platform.Build, error) {
		pkg, err := find(req.caller, req.tx.Packages(), body.Package.value.GUID, "Package")
		if err != nil {
			return nil, notAccessible(err, "Unable to use package. Ensure that the package exists and you have access to it.")
		}
		app, err := req.appNamed(pkg.AppGUID, platform.Operate)
		if err != nil {
			return nil, err
		}
		if pkg.Type == platform.PackageDocker {
			if err := needEnabled(req.tx, flagDocker); err != nil {
				return nil, err
			}
		}
		build, err := a.newBuild(app, &body)
		if err != nil {
			return nil, err
		}
		if err := a.platform.CreateBuild(req.tx, req.caller.actor(), app, pkg, build); err != nil {
			return nil, err
		}
		guid = build.GUID
		sidecars, _, err := req.tx.Sidecars().List(platform.Where("app_guid", app.GUID))
		if err != nil {
			return nil, err
		}
		if warning, err = sidecarWarning(req.tx, build.Lifecycle, deref(sidecars)); err != nil {
			return nil, err
		}
		old, err := a.platform.StackUsable(req.tx, app, build.Lifecycle.Stack)
		warning = strings.TrimSpace(warning + " " + old)
		return build, err
	})
	if err == nil {
		a.signals.BuildCreated(guid, tracing.OriginOf(r.Context()))
	}
	return err
}

func (a *API) newBuild(app *platform.App, body *buildRequest) (*platform.Build, error) {
	build := &platform.Build{
		Lifecycle: app.Lifecycle, MemoryMB: a.platform.StagingMemoryMB, DiskMB: a.platform.StagingDiskMB, LogRate: platform.DefaultLogRate,
	}
	applyLifecycle(body.Life, &build.Lifecycle)
	if body.MemoryMB != nil {
		build.MemoryMB = body.MemoryMB.value
	}
	if body.DiskMB != nil {
		build.DiskMB = body.DiskMB.value
	}
	if body.LogRate != nil {
		build.LogRate = body.LogRate.value
	}
	return build, body.Metadata.Apply(&build.Metadata)
}

// buildFor returns the build of the path, for developers of its app.
func (a *API) buildFor(req *request) (*platform.Build, error) {
	build, err := find(req.caller, req.tx.Builds(), web.Param(req.r, "guid"), "Build")
	if err != nil {
		return nil, err
	}
	_, err = req.appNamed(build.AppGUID, platform.Develop)
	return build, err
}

type buildBody struct {
	resourceBody
	State         platform.BuildState `json:"state"`
	MemoryMB      int                 `json:"staging_memory_in_mb"`
	DiskMB        int                 `json:"staging_disk_in_mb"`
	LogRate       int64               `json:"staging_log_rate_limit_bytes_per_second"`
	Error         *string             `json:"error"`
	Lifecycle     lifecycleBody       `json:"lifecycle"`
	Package       relationData        `json:"package"`
	Droplet       *relationData       `json:"droplet"`
	CreatedBy     map[string]any      `json:"created_by"`
	Relationships map[string]any      `json:"relationships"`
	Metadata      metadata            `json:"metadata"`
	Links         links               `json:"links"`
}

func presentBuild(req *request, b *platform.Build) buildBody {
	out := buildBody{
		resourceBody: presentResource(&b.Resource), State: b.State, MemoryMB: b.MemoryMB, DiskMB: b.DiskMB, LogRate: b.LogRate,
		Error: orNull(b.Error), Lifecycle: presentLifecycle(b.Lifecycle), Package: relationData{b.PackageGUID},
		CreatedBy:     map[string]any{"guid": b.CreatorGUID, "name": b.CreatorName, "email": b.CreatorMail},
		Relationships: map[string]any{"app": toOne(b.AppGUID)}, Metadata: presentMetadata(&b.Metadata),
		Links: links{"self": req.v3("/builds/", escape(b.GUID)), "app": req.v3("/apps/", escape(b.AppGUID))},
	}
	// The droplet is shown only if it exists.
	if b.State == platform.BuildStaged {
		out.Droplet = &relationData{b.DropletGUID}
		out.Links["droplet"] = req.v3("/droplets/", escape(b.DropletGUID))
	}
	return out
}
