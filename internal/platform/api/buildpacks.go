package api

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"

	"ingot/internal/base/fault"
	"ingot/internal/base/web"
	"ingot/internal/platform"
)

var buildpacks = resource[platform.Buildpack, buildpackBody]{
	noun: "Buildpack", repo: platform.Tx.Buildpacks, present: each(presentBuildpack),
	list: listing{
		filters: map[string]filter{"names": byText("name"), "stacks": byText("stack"), "lifecycle": byWord("lifecycle", "buildpack", "cnb")},
		orders:  []string{"position", "name"}, usual: "position",
	},
}

func (a *API) buildpackRoutes(g *web.Group) {
	g.Handle(http.MethodGet, "/v3/buildpacks", web.Scope(readers...), buildpacks.lister(a))
	g.Handle(http.MethodPost, "/v3/buildpacks", web.Scope(scopeAdmin), a.createBuildpack)
	g.Handle(http.MethodGet, "/v3/buildpacks/{guid}", web.Scope(readers...), buildpacks.getter(a))
	g.Handle(http.MethodPatch, "/v3/buildpacks/{guid}", web.Scope(scopeAdmin), a.updateBuildpack)
	g.Handle(http.MethodDelete, "/v3/buildpacks/{guid}", web.Scope(scopeAdmin), a.deleteBuildpack)
	g.Within(uploads).Storing().Handle(http.MethodPost, "/v3/buildpacks/{guid}/upload", web.Scope(scopeAdmin), a.uploadBuildpack)
}

type buildpackRequest struct {
	Name      *string        `json:"name"`
	Stack     *string        `json:"stack"`
	Position  *whole[int]    `json:"position"`
	Enabled   *bool          `json:"enabled"`
	Locked    *bool          `json:"locked"`
	Lifecycle *string        `json:"lifecycle"`
	Metadata  *metadataPatch `json:"metadata"`
}

var buildpackName = regexp.MustCompile(`^[\w-]{1,250}$`)

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
	if !buildpackName.MatchString(bp.Name) {
		return fault.Invalid("Name can only contain alphanumeric characters, underscores, and dashes, and must be 1 to 250 long")
	}
	if b.Position != nil && b.Position.value < 1 {
		return fault.Invalid("Position must be greater than or equal to 1")
	}
	return b.Metadata.apply(&bp.Metadata)
}

func (a *API) createBuildpack(w http.ResponseWriter, r *http.Request) error {
	var body buildpackRequest
	if err := web.DecodeStrict(r, &body); err != nil {
		return err
	}
	if body.Lifecycle != nil && *body.Lifecycle != "buildpack" {
		return fault.Invalid("Lifecycle must be 'buildpack': others are not supported by this platform")
	}
	return answer(a, w, r, buildpacks, http.StatusCreated, func(p *presenter) (*platform.Buildpack, error) {
		bp := &platform.Buildpack{Enabled: true, State: platform.AwaitingUpload, Lifecycle: "buildpack"}
		if err := body.apply(bp); err != nil {
			return nil, err
		}
		if err := a.checkStack(p.tx, bp.Stack); err != nil {
			return nil, err
		}
		if err := buildpackConflict(bp, p.tx.Buildpacks().Insert(bp)); err != nil {
			return nil, err
		}
		position := 1
		if body.Position != nil {
			position = body.Position.value
		}
		return bp, moveBuildpack(p.tx, bp, position)
	})
}

func (a *API) checkStack(tx platform.Tx, name string) error {
	if name == "" {
		return nil
	}
	n, err := tx.Stacks().Count(platform.Where("name", name))
	if err == nil && n == 0 {
		err = fault.Invalid("Stack '" + name + "' does not exist")
	}
	return err
}

func buildpackConflict(bp *platform.Buildpack, err error) error {
	if fault.Is(err, fault.Conflict) {
		return fault.Wrap(err, fault.Unprocessable, "Buildpack with name '%s', stack '%s' and lifecycle 'buildpack' already exists", bp.Name, bp.Stack)
	}
	return err
}

// moveBuildpack puts a buildpack at its place and the others behind it, without
// gaps.
func moveBuildpack(tx platform.Tx, bp *platform.Buildpack, position int) error {
	all, _, err := tx.Buildpacks().List(platform.Query{Order: "position"})
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(o *platform.Buildpack) bool { return o.GUID == bp.GUID })
	at := min(max(position, 1)-1, len(all))
	return renumber(tx, slices.Insert(all, at, bp))
}

// renumber gives buildpacks the positions they have in the list.
func renumber(tx platform.Tx, all []*platform.Buildpack) error {
	for i, o := range all {
		if o.Position == i+1 {
			continue
		}
		o.Position = i + 1
		if err := tx.Buildpacks().Update(o); err != nil {
			return err
		}
	}
	return nil
}

func (a *API) updateBuildpack(w http.ResponseWriter, r *http.Request) error {
	var body buildpackRequest
	if err := web.DecodeStrict(r, &body); err != nil {
		return err
	}
	return answer(a, w, r, buildpacks, http.StatusOK, func(p *presenter) (*platform.Buildpack, error) {
		bp, err := find(p.caller, p.tx.Buildpacks(), web.Param(r, "guid"), "Buildpack")
		if err != nil {
			return nil, err
		}
		if err := body.apply(bp); err != nil {
			return nil, err
		}
		if err := a.checkStack(p.tx, bp.Stack); err != nil {
			return nil, err
		}
		if err := buildpackConflict(bp, p.tx.Buildpacks().Update(bp)); err != nil {
			return nil, err
		}
		if body.Position != nil {
			err = moveBuildpack(p.tx, bp, body.Position.value)
		}
		return bp, err
	})
}

func (a *API) deleteBuildpack(w http.ResponseWriter, r *http.Request) error {
	return a.finish(w, r, "buildpack.delete", func(p *presenter) error {
		bp, err := find(p.caller, p.tx.Buildpacks(), web.Param(r, "guid"), "Buildpack")
		if err != nil {
			return err
		}
		if err := p.tx.Buildpacks().Delete(bp.GUID); err != nil {
			return err
		}
		rest, _, err := p.tx.Buildpacks().List(platform.Query{Order: "position"})
		if err != nil {
			return err
		}
		return renumber(p.tx, rest)
	})
}

func (a *API) uploadBuildpack(w http.ResponseWriter, r *http.Request) error {
	var bp *platform.Buildpack
	err := a.store.View(r.Context(), func(tx platform.Tx) (err error) {
		p := newPresenter(tx, r)
		if bp, err = find(p.caller, tx.Buildpacks(), web.Param(r, "guid"), "Buildpack"); err == nil && bp.Locked {
			err = fault.New(fault.Unprocessable, "The buildpack is locked")
		}
		return err
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
	job := &platform.Job{Operation: "buildpack.upload", State: platform.JobComplete, ResourceType: "buildpack", ResourceGUID: bp.GUID}
	err = a.store.Update(r.Context(), func(tx platform.Tx) error {
		fresh, err := lookup(tx.Buildpacks(), bp.GUID, "Buildpack")
		if err != nil {
			return err
		}
		fresh.State, fresh.Filename, fresh.Checksum, fresh.Bundled = platform.Ready, u.filename, sum, false
		if err := tx.Buildpacks().Update(fresh); err != nil {
			return err
		}
		bp, job.GUID = fresh, ""
		return tx.Jobs().Insert(job)
	})
	if err != nil {
		return err
	}
	w.Header().Set("Location", baseURL(r)+"/v3/jobs/"+escape(job.GUID))
	return answer(a, w, r, buildpacks, http.StatusAccepted, func(*presenter) (*platform.Buildpack, error) { return bp, nil })
}

type buildpackBody struct {
	resourceBody
	Name      string   `json:"name"`
	Stack     *string  `json:"stack"`
	State     string   `json:"state"`
	Lifecycle string   `json:"lifecycle"`
	Filename  *string  `json:"filename"`
	Position  int      `json:"position"`
	Enabled   bool     `json:"enabled"`
	Locked    bool     `json:"locked"`
	Metadata  metadata `json:"metadata"`
	Links     links    `json:"links"`
}

func presentBuildpack(p *presenter, b *platform.Buildpack) buildpackBody {
	self := "/buildpacks/" + escape(b.GUID)
	return buildpackBody{
		resourceBody: presentResource(&b.Resource), Name: b.Name, Stack: orNull(b.Stack), State: b.State, Lifecycle: b.Lifecycle,
		Filename: orNull(b.Filename), Position: b.Position, Enabled: b.Enabled, Locked: b.Locked, Metadata: presentMetadata(&b.Metadata),
		Links: links{"self": p.v3(self), "upload": {Href: p.v3(self, "/upload").Href, Method: http.MethodPost}},
	}
}
