package api

import (
	"fmt"
	"net/http"

	"ingot/internal/base/fault"
	"ingot/internal/base/web"
	"ingot/internal/platform"
	"ingot/internal/platform/actions"
	"ingot/internal/platform/api/listing"
)

var buildpacks = resource[platform.Buildpack, buildpackBody]{
	noun: "Buildpack", repo: platform.Tx.Buildpacks, present: each(presentBuildpack),
	list: listing.Params{
		Filters: listing.Filters{"names": listing.Text("name"), "stacks": listing.Text("stack"), "lifecycle": listing.Word("lifecycle", "buildpack", "cnb")},
		Orders:  []string{"position", "name"}, DefaultOrder: "position",
	},
}

func (a *API) buildpackRoutes(g *web.Group) {
	g.Handle(http.MethodGet, "/v3/buildpacks", web.Scope(readers...), buildpacks.lister(a))
	g.Handle(http.MethodPost, "/v3/buildpacks", web.Scope(scopeAdmin), a.createBuildpack)
	g.Handle(http.MethodGet, "/v3/buildpacks/{guid}", web.Scope(readers...), buildpacks.getter(a))
	g.Handle(http.MethodPatch, "/v3/buildpacks/{guid}", web.Scope(scopeAdmin), a.updateBuildpack)
	g.Handle(http.MethodDelete, "/v3/buildpacks/{guid}", web.Scope(scopeAdmin), a.deleteBuildpack)
	g.Within(uploads).Storing().Refusing(namesBits).Handle(http.MethodPost, "/v3/buildpacks/{guid}/upload", web.Scope(scopeAdmin), a.uploadBuildpack)
}

type buildpackRequest struct {
	Name      *string                `json:"name"`
	Stack     *string                `json:"stack"`
	Position  *whole[int]            `json:"position"`
	Enabled   *bool                  `json:"enabled"`
	Locked    *bool                  `json:"locked"`
	Lifecycle *string                `json:"lifecycle"`
	Metadata  *actions.MetadataPatch `json:"metadata"`
}

func (b *buildpackRequest) apply(bp *platform.Buildpack) error {
	if b.Name != nil {
		bp.Name = *b.Name
	}
	if b.Stack != nil {
		bp.Stack = *b.Stack
	}
	if b.Enabled != nil {
		bp.Enabled = *b.Enabled
	}
	if b.Locked != nil {
		bp.Locked = *b.Locked
	}
	if b.Position != nil && b.Position.value < 1 {
		return fault.Invalid("Position must be greater than or equal to 1")
	}
	return b.Metadata.Apply(&bp.Metadata)
}

// position returns the requested position of the buildpack, or 0.
func (b *buildpackRequest) position() int {
	if b.Position == nil {
		return 0
	}
	return b.Position.value
}

func (a *API) createBuildpack(w http.ResponseWriter, r *http.Request) error {
	var body buildpackRequest
	if err := web.DecodeStrict(r, &body); err != nil {
		return err
	}
	if body.Lifecycle != nil && *body.Lifecycle != "buildpack" {
		return fault.Invalid("Lifecycle must be 'buildpack': others are not supported by this platform")
	}
	return answer(a, w, r, buildpacks, http.StatusCreated, func(req *request) (*platform.Buildpack, error) {
		bp := &platform.Buildpack{Enabled: true}
		if err := body.apply(bp); err != nil {
			return nil, err
		}
		return bp, a.platform.CreateBuildpack(req.tx, req.caller.actor(), bp, max(1, body.position()))
	})
}

func (a *API) updateBuildpack(w http.ResponseWriter, r *http.Request) error {
	var body buildpackRequest
	if err := web.DecodeStrict(r, &body); err != nil {
		return err
	}
	return answer(a, w, r, buildpacks, http.StatusOK, func(req *request) (*platform.Buildpack, error) {
		bp, err := find(req.caller, req.tx.Buildpacks(), web.Param(r, "guid"), "Buildpack")
		if err != nil {
			return nil, err
		}
		if err := body.apply(bp); err != nil {
			return nil, err
		}
		return bp, a.platform.UpdateBuildpack(req.tx, req.caller.actor(), bp, body.position())
	})
}

func (a *API) deleteBuildpack(w http.ResponseWriter, r *http.Request) error {
	return a.finish(w, r, "buildpack.delete", func(req *request) error {
		bp, err := find(req.caller, req.tx.Buildpacks(), web.Param(r, "guid"), "Buildpack")
		if err != nil {
			return err
		}
		return a.platform.DeleteBuildpack(req.tx, req.caller.actor(), bp)
	})
}

func (a *API) uploadBuildpack(w http.ResponseWriter, r *http.Request) error {
	var bp *platform.Buildpack
	err := a.store.View(r.Context(), func(tx platform.Tx) (err error) {
		req := newRequest(tx, r)
		if bp, err = find(req.caller, tx.Buildpacks(), web.Param(r, "guid"), "Buildpack"); err != nil {
			return err
		}
		return platform.CheckBuildpackUpload(bp)
	})
	if err != nil {
		return err
	}
	u, err := a.readUpload(r)
	if err != nil {
		return err
	}
	defer u.Close()
	if u.file == nil || len(u.filename) < 4 || u.filename[len(u.filename)-4:] != ".zip" {
		return fault.Invalid(fmt.Sprintf("Bits must be a zip file, not %q", u.filename))
	}
	sum, err := a.blobs.PutBuildpack(r.Context(), bp.GUID, u.file, u.size)
	if err != nil {
		return err
	}
	return uploaded(a, w, r, buildpacks, func(req *request) (*platform.Buildpack, platform.Job, error) {
		job := platform.Job{Operation: "buildpack.upload", State: platform.JobComplete, ResourceType: "buildpack", ResourceGUID: bp.GUID}
		bp, err := lookup(req.tx.Buildpacks(), bp.GUID, "Buildpack")
		if err != nil {
			return nil, job, err
		}
		return bp, job, a.platform.BuildpackUploaded(req.tx, req.caller.actor(), bp, u.filename, sum)
	})
}

type buildpackBody struct {
	resourceBody
	Name      string                  `json:"name"`
	Stack     *string                 `json:"stack"`
	State     platform.BuildpackState `json:"state"`
	Lifecycle string                  `json:"lifecycle"`
	Filename  *string                 `json:"filename"`
	Position  int                     `json:"position"`
	Enabled   bool                    `json:"enabled"`
	Locked    bool                    `json:"locked"`
	Metadata  metadata                `json:"metadata"`
	Links     links                   `json:"links"`
}

func presentBuildpack(req *request, b *platform.Buildpack) buildpackBody {
	self := "/buildpacks/" + escape(b.GUID)
	return buildpackBody{
		resourceBody: presentResource(&b.Resource), Name: b.Name, Stack: orNull(b.Stack), State: b.State, Lifecycle: b.Lifecycle,
		Filename: orNull(b.Filename), Position: b.Position, Enabled: b.Enabled, Locked: b.Locked, Metadata: presentMetadata(&b.Metadata),
		Links: links{"self": req.v3(self), "upload": {Href: req.v3(self, "/upload").Href, Method: http.MethodPost}},
	}
}
