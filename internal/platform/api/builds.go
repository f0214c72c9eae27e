package api

import (
	"net/http"

	"ingot/internal/base/fault"
	"ingot/internal/base/web"
	"ingot/internal/platform"
	"ingot/internal/platform/actions"
)

var builds = resource[platform.Build, buildBody]{
	noun: "Build", repo: platform.Tx.Builds, present: each(presentBuild),
	list: listing{filters: map[string]filter{
		"states": byText("state"), "app_guids": byText("app_guid"), "package_guids": byText("package_guid"),
	}},
}

func (a *API) buildRoutes(g *web.Group) {
	read, write := web.Scope(readers...), web.Scope(writers...)
	g.Handle(http.MethodGet, "/v3/builds", read, builds.lister(a))
	g.Storing().Handle(http.MethodPost, "/v3/builds", write, a.createBuild)
	g.Handle(http.MethodGet, "/v3/builds/{guid}", read, builds.getter(a))
	g.Handle(http.MethodPatch, "/v3/builds/{guid}", write, a.updateBuild)
	g.Handle(http.MethodGet, "/v3/apps/{guid}/builds", read, listerOf(a, builds, platform.Tx.Apps, "App", "app_guid"))
}

type buildRequest struct {
	Package  *loose[relationData] `json:"package"`
	Life     *lifecycleRequest    `json:"lifecycle"`
	MemoryMB *whole[int]          `json:"staging_memory_in_mb"`
	DiskMB   *whole[int]          `json:"staging_disk_in_mb"`
	LogRate  *whole[int64]        `json:"staging_log_rate_limit_bytes_per_second"`
	Metadata *metadataPatch       `json:"metadata"`
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
	err := answer(a, warned{w, &warning}, r, builds, http.StatusCreated, func(p *presenter) (*platform.Build, error) {
		pkg, err := find(p.caller, p.tx.Packages(), body.Package.value.GUID, "Package")
		if err != nil {
			return nil, notAccessible(err, "Unable to use package. Ensure that the package exists and you have access to it.")
		}
		app, err := a.appNamed(p, pkg.AppGUID, platform.Operate)
		if err != nil {
			return nil, err
		}
		build, err := a.newBuild(p, app, pkg, &body)
		if err != nil {
			return nil, err
		}
		guid = build.GUID
		sidecars, _, err := p.tx.Sidecars().List(platform.Where("app_guid", app.GUID))
		if err != nil {
			return nil, err
		}
		warning = actions.SidecarWarning(build.Lifecycle, deref(sidecars))
		return build, nil
	})
	if err == nil {
		a.signals.BuildCreated(guid)
	}
	return err
}

func (a *API) newBuild(p *presenter, app *platform.App, pkg *platform.Package, body *buildRequest) (*platform.Build, error) {
	if pkg.State != platform.Ready {
		return nil, fault.New(fault.BadRequest, "Bad request: Cannot stage package whose state is not ready.")
	}
	if err := a.platform.MakeWayForBuild(p.tx, app, p.caller.actor()); err != nil {
		return nil, err
	}
	build := &platform.Build{
		AppGUID: app.GUID, PackageGUID: pkg.GUID, State: platform.Staging, Lifecycle: app.Lifecycle,
		MemoryMB: a.platform.StagingMemoryMB, DiskMB: a.platform.StagingDiskMB, LogRate: platform.DefaultLogRate,
		CreatorGUID: p.caller.GUID, CreatorName: p.caller.name, CreatorMail: p.caller.mail,
	}
	applyLifecycle(body.Life, &build.Lifecycle)
	if err := a.platform.CheckLifecycle(p.tx, &build.Lifecycle); err != nil {
		return nil, err
	}
	for _, set := range []struct {
		from *int
		to   *int
		name string
	}{{body.MemoryMB.get(), &build.MemoryMB, "Staging memory in mb"}, {body.DiskMB.get(), &build.DiskMB, "Staging disk in mb"}} {
		if set.from == nil {
			continue
		}
		if *set.from <= 0 {
			return nil, fault.Invalid(set.name + " must be greater than 0")
		}
		*set.to = *set.from
	}
	if body.LogRate != nil {
		build.LogRate = body.LogRate.value
	}
	if err := body.Metadata.apply(&build.Metadata); err != nil {
		return nil, err
	}
	if err := p.tx.Builds().Insert(build); err != nil {
		return nil, err
	}
	return build, a.platform.RecordApp(p.tx, "audit.app.build.create", p.caller.actor(), app, map[string]any{
		"build_guid": build.GUID, "package_guid": pkg.GUID,
	})
}

func (a *API) updateBuild(w http.ResponseWriter, r *http.Request) error {
	var body struct {
		Metadata *metadataPatch `json:"metadata"`
	}
	if err := web.DecodeStrict(r, &body); err != nil {
		return err
	}
	return answer(a, w, r, builds, http.StatusOK, func(p *presenter) (*platform.Build, error) {
		build, err := find(p.caller, p.tx.Builds(), web.Param(r, "guid"), "Build")
		if err != nil {
			return nil, err
		}
		if _, err := a.appNamed(p, build.AppGUID, platform.Develop); err != nil {
			return nil, err
		}
		if err := body.Metadata.apply(&build.Metadata); err != nil {
			return nil, err
		}
		return build, p.tx.Builds().Update(build)
	})
}

type buildBody struct {
	resourceBody
	State         string         `json:"state"`
	MemoryMB      int            `json:"staging_memory_in_mb"`
	DiskMB        int            `json:"staging_disk_in_mb"`
	LogRate       int64          `json:"staging_log_rate_limit_bytes_per_second"`
	Error         *string        `json:"error"`
	Lifecycle     lifecycleBody  `json:"lifecycle"`
	Package       relationData   `json:"package"`
	Droplet       *relationData  `json:"droplet"`
	CreatedBy     map[string]any `json:"created_by"`
	Relationships map[string]any `json:"relationships"`
	Metadata      metadata       `json:"metadata"`
	Links         links          `json:"links"`
}

func presentBuild(p *presenter, b *platform.Build) buildBody {
	out := buildBody{
		resourceBody: presentResource(&b.Resource), State: b.State, MemoryMB: b.MemoryMB, DiskMB: b.DiskMB, LogRate: b.LogRate,
		Error: orNull(b.Error), Lifecycle: presentLifecycle(b.Lifecycle), Package: relationData{b.PackageGUID},
		CreatedBy:     map[string]any{"guid": b.CreatorGUID, "name": b.CreatorName, "email": b.CreatorMail},
		Relationships: map[string]any{"app": toOne(b.AppGUID)}, Metadata: presentMetadata(&b.Metadata),
		Links: links{"self": p.v3("/builds/", escape(b.GUID)), "app": p.v3("/apps/", escape(b.AppGUID))},
	}
	// The droplet is named only when it is there.
	if b.State == platform.Staged {
		out.Droplet = &relationData{b.DropletGUID}
		out.Links["droplet"] = p.v3("/droplets/", escape(b.DropletGUID))
	}
	return out
}
