package builds

import (
	"fmt"
	"net/http"

	"ingot/internal/base/fault"
	"ingot/internal/base/web"
	"ingot/internal/platform"
	"ingot/internal/platform/actions"
	"ingot/internal/platform/api/listing"
	"ingot/internal/platform/api/rest"
)

var buildpacks = rest.Resource[platform.Buildpack, buildpackBody]{
	Noun: "Buildpack", Repo: platform.Tx.Buildpacks, Present: rest.Each(presentBuildpack),
	List: listing.Params{
		Filters: listing.Filters{"names": listing.Text("name"), "stacks": listing.Text("stack"),
			"lifecycle": listing.Word("lifecycle", "buildpack", "cnb")},
		Orders: []string{"position", "name"}, DefaultOrder: "position",
	},
}

func (a *API) buildpackRoutes(g *web.Group) {
	g.Handle(http.MethodGet, "/v3/buildpacks", rest.Read, buildpacks.Lister(a.Server))
	g.Handle(http.MethodPost, "/v3/buildpacks", rest.Admin, rest.Creator(a.Server, buildpacks, a.createBuildpack))
	g.Handle(http.MethodGet, "/v3/buildpacks/{guid}", rest.Read, buildpacks.Getter(a.Server))
	g.Handle(http.MethodPatch, "/v3/buildpacks/{guid}", rest.Admin, rest.Updater(a.Server, buildpacks, a.updateBuildpack))
	g.Handle(http.MethodDelete, "/v3/buildpacks/{guid}", rest.Admin,
		rest.Deleter(a.Server, "buildpack.delete", buildpacks.Find, a.Platform.DeleteBuildpack))
	g.Within(uploads).Storing().Refusing(namesBits).Handle(http.MethodPost, "/v3/buildpacks/{guid}/upload", rest.Admin,
		a.uploadBuildpack)
}

type buildpackRequest struct {
	Name      *string                `json:"name"`
	Stack     *string                `json:"stack"`
	Position  *rest.Whole[int]       `json:"position"`
	Enabled   *bool                  `json:"enabled"`
	Locked    *bool                  `json:"locked"`
	Lifecycle *string                `json:"lifecycle"`
	Metadata  *actions.MetadataPatch `json:"metadata"`
}

func (b *buildpackRequest) apply(bp *platform.Buildpack) error {
	web.Set(&bp.Name, b.Name)
	web.Set(&bp.Stack, b.Stack)
	web.Set(&bp.Enabled, b.Enabled)
	web.Set(&bp.Locked, b.Locked)
	if b.Position != nil && b.Position.Value < 1 {
		return fault.Invalid("Position must be greater than or equal to 1")
	}
	return b.Metadata.Apply(&bp.Metadata)
}

// position returns the requested position of the buildpack, or 0.
func (b *buildpackRequest) position() int {
	if b.Position == nil {
		return 0
	}
	return b.Position.Value
}

func (a *API) createBuildpack(req *rest.Request, body *buildpackRequest) (*platform.Buildpack, error) {
	if body.Lifecycle != nil && *body.Lifecycle != "buildpack" {
		return nil, fault.Invalid("Lifecycle must be 'buildpack': others are not supported by this platform")
	}
	bp := &platform.Buildpack{Enabled: true}
	if err := body.apply(bp); err != nil {
		return nil, err
	}
	return bp, a.Platform.CreateBuildpack(req.Tx, req.Caller.Actor(), bp, max(1, body.position()))
}

func (a *API) updateBuildpack(req *rest.Request, body *buildpackRequest) (*platform.Buildpack, error) {
	bp, err := buildpacks.Find(req)
	if err != nil {
		return nil, err
	}
	if err := body.apply(bp); err != nil {
		return nil, err
	}
	return bp, a.Platform.UpdateBuildpack(req.Tx, req.Caller.Actor(), bp, body.position())
}

func (a *API) uploadBuildpack(w http.ResponseWriter, r *http.Request) error {
	bp, err := rest.View(a.Server, r, func(req *rest.Request) (*platform.Buildpack, error) {
		bp, err := buildpacks.Find(req)
		if err != nil {
			return nil, err
		}
		return bp, platform.CheckBuildpackUpload(bp)
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
	sum, err := a.Blobs.PutBuildpack(r.Context(), bp.GUID, u.file, u.size)
	if err != nil {
		return err
	}
	return uploaded(a, w, r, buildpacks, func(req *rest.Request) (*platform.Buildpack, platform.Job, error) {
		job := platform.Job{Operation: "buildpack.upload", State: platform.JobComplete, ResourceType: "buildpack",
			ResourceGUID: bp.GUID}
		bp, err := rest.Lookup(req.Tx.Buildpacks(), bp.GUID, "Buildpack")
		if err != nil {
			return nil, job, err
		}
		return bp, job, a.Platform.BuildpackUploaded(req.Tx, req.Caller.Actor(), bp, u.filename, sum)
	})
}

type buildpackBody struct {
	rest.ResourceBody
	Name      string                  `json:"name"`
	Stack     *string                 `json:"stack"`
	State     platform.BuildpackState `json:"state"`
	Lifecycle string                  `json:"lifecycle"`
	Filename  *string                 `json:"filename"`
	Position  int                     `json:"position"`
	Enabled   bool                    `json:"enabled"`
	Locked    bool                    `json:"locked"`
	Metadata  rest.Metadata           `json:"metadata"`
	Links     rest.Links              `json:"links"`
}

func presentBuildpack(req *rest.Request, b *platform.Buildpack) buildpackBody {
	self := "/buildpacks/" + rest.Escape(b.GUID)
	return buildpackBody{
		ResourceBody: rest.PresentResource(&b.Resource), Name: b.Name, Stack: rest.OrNull(b.Stack), State: b.State,
		Lifecycle: b.Lifecycle,
		Filename:  rest.OrNull(b.Filename), Position: b.Position, Enabled: b.Enabled, Locked: b.Locked,
		Metadata: rest.PresentMetadata(&b.Metadata),
		Links: rest.Links{"self": req.Link(self), "upload": {Href: req.Link(self, "/upload").Href,
			Method: http.MethodPost}},
	}
}
