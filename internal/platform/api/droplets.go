package api

import (
	"context"
	"errors"
	"io"
	"net/http"

	"ingot/internal/base/fault"
	"ingot/internal/base/web"
	"ingot/internal/platform"
	"ingot/internal/platform/api/listing"
)

// droplets presents lists, which more users can read: commands are hidden. droplet
// presents a single one.
var (
	droplets = dropletsShownBy(each(func(req *request, d *platform.Droplet) dropletBody {
		return presentDroplet(req, d).hide(hiddenInLists)
	}))
	droplet = dropletsShownBy(presentDroplets)
)

func dropletsShownBy(present func(*request, []*platform.Droplet) ([]dropletBody, error)) resource[platform.Droplet, dropletBody] {
	return resource[platform.Droplet, dropletBody]{noun: "Droplet", repo: platform.Tx.Droplets, list: dropletList, present: present}
}

// presentDroplets shows commands to developers only.
func presentDroplets(req *request, items []*platform.Droplet) ([]dropletBody, error) {
	out := make([]dropletBody, 0, len(items))
	for _, d := range items {
		b := presentDroplet(req, d)
		show, err := req.showsSecrets(d.AppGUID)
		if err != nil {
			return nil, err
		}
		if !show {
			b = b.hide(hidden)
		}
		out = append(out, b)
	}
	return out, nil
}

// hide removes commands.
func (b dropletBody) hide(message string) dropletBody {
	b.ExecutionMetadata, b.ProcessTypes = message, map[string]string{"redacted_message": message}
	return b
}

var dropletList = listing.Params{
	Filters: listing.Filters{
		"states": listing.Text("state"), "app_guids": listing.Text("app_guid"), "space_guids": listing.Text("space_guid"),
		"organization_guids": listing.Text("organization_guid"), "package_guids": listing.Text("package_guid"),
	},
	Extra: []string{"current"},
}

func (a *API) dropletRoutes(g *web.Group) {
	read, write := web.Scope(readers...), web.Scope(writers...)
	g.Handle(http.MethodGet, "/v3/droplets", read, droplets.lister(a))
	g.Storing().Handle(http.MethodPost, "/v3/droplets", write, a.createDroplet)
	g.Handle(http.MethodGet, "/v3/droplets/{guid}", read, droplet.getter(a))
	g.Handle(http.MethodPatch, "/v3/droplets/{guid}", write, metadataPatcher(a, droplet, only(a.dropletFor)))
	g.Handle(http.MethodDelete, "/v3/droplets/{guid}", write, a.deleteDroplet)
	g.Handle(http.MethodGet, "/v3/apps/{guid}/droplets", read, a.appDroplets)
	g.Handle(http.MethodGet, "/v3/packages/{guid}/droplets", read, listerOf(a, droplets, platform.Tx.Packages, "Package", "package_guid"))
	g.Within(downloads).Handle(http.MethodGet, "/v3/droplets/{guid}/download", read, a.downloadDroplet)
	g.Within(uploads).Storing().Refusing(namesBits).Handle(http.MethodPost, "/v3/droplets/{guid}/upload", write, a.uploadDroplet)
	g.Handle(http.MethodGet, "/v3/apps/{guid}/relationships/current_droplet", read, a.currentDropletRelation)
	g.Handle(http.MethodPatch, "/v3/apps/{guid}/relationships/current_droplet", write, a.setCurrentDroplet)
	g.Handle(http.MethodGet, "/v3/apps/{guid}/droplets/current", read, droplet.getterBy(a, a.currentDroplet))
}

// appDroplets also supports ?current=true.
func (a *API) appDroplets(w http.ResponseWriter, r *http.Request) error {
	return droplets.listerWhere(a, func(req *request) ([]platform.Cond, error) {
		app, err := find(req.caller, req.tx.Apps(), web.Param(r, "guid"), "App")
		if err != nil {
			return nil, err
		}
		where := []platform.Cond{platform.In("app_guid", app.GUID)}
		if r.URL.Query().Get("current") == "true" {
			where = append(where, platform.In("guid", app.DropletGUID))
		}
		return where, nil
	})(w, r)
}

// currentDroplet returns the current droplet of the app in the path. cf matches the
// text of the error if there is none.
func (a *API) currentDroplet(req *request) (*platform.Droplet, error) {
	app, err := find(req.caller, req.tx.Apps(), web.Param(req.r, "guid"), "App")
	if err != nil {
		return nil, err
	}
	return lookup(req.tx.Droplets(), app.DropletGUID, "Droplet")
}

func (a *API) currentDropletRelation(w http.ResponseWriter, r *http.Request) error {
	return a.show(w, r, func(req *request) (any, error) {
		d, err := a.currentDroplet(req)
		if err != nil {
			return nil, err
		}
		return a.dropletRelation(req, d), nil
	})
}

func (a *API) dropletRelation(req *request, d *platform.Droplet) any {
	self := "/apps/" + escape(d.AppGUID)
	return map[string]any{"data": relationData{d.GUID}, "links": links{
		"self": req.v3(self, "/relationships/current_droplet"), "related": req.v3(self, "/droplets/current"),
	}}
}

func (a *API) setCurrentDroplet(w http.ResponseWriter, r *http.Request) error {
	var body relation
	if err := web.DecodeStrict(r, &body); err != nil {
		return err
	}
	if body.Data == nil || body.Data.GUID == "" {
		return fault.Invalid("Current droplet cannot be cleared. Provide a droplet guid.")
	}
	return a.perform(w, r, http.StatusOK, func(req *request) (any, error) {
		app, err := req.app(platform.Operate)
		if err != nil {
			return nil, err
		}
		d, err := find(req.caller, req.tx.Droplets(), body.Data.GUID, "Droplet")
		if err != nil {
			return nil, notAccessible(err, "Unable to assign current droplet. Ensure the droplet exists and belongs to this app.")
		}
		return a.dropletRelation(req, d), a.platform.AssignDroplet(req.tx, req.caller.actor(), app, d)
	})
}

type dropletBody struct {
	resourceBody
	State             platform.DropletState       `json:"state"`
	Error             *string                     `json:"error"`
	Lifecycle         lifecycleBody               `json:"lifecycle"`
	Checksum          *checksumBody               `json:"checksum"`
	Buildpacks        []platform.DropletBuildpack `json:"buildpacks"`
	Stack             *string                     `json:"stack"`
	Image             *string                     `json:"image"`
	ExecutionMetadata string                      `json:"execution_metadata"`
	ProcessTypes      map[string]string           `json:"process_types"`
	Relationships     map[string]any              `json:"relationships"`
	Metadata          metadata                    `json:"metadata"`
	Links             links                       `json:"links"`
}

type checksumBody struct {
	Type  string  `json:"type"`
	Value *string `json:"value"`
}

func presentDroplet(req *request, d *platform.Droplet) dropletBody {
	self := "/droplets/" + escape(d.GUID)
	b := dropletBody{
		resourceBody: presentResource(&d.Resource), State: d.State, Error: orNull(d.Error), Lifecycle: lifecycleBody{d.Lifecycle, map[string]any{}},
		Buildpacks: append([]platform.DropletBuildpack{}, d.Buildpacks...), Stack: orNull(d.Stack), Image: orNull(d.Image),
		ExecutionMetadata: d.ExecutionMetadata, ProcessTypes: d.ProcessTypes,
		Relationships: map[string]any{"app": toOne(d.AppGUID)}, Metadata: presentMetadata(&d.Metadata),
		Links: links{
			"self": req.v3(self), "app": req.v3("/apps/", escape(d.AppGUID)),
			"assign_current_droplet": {Href: req.v3("/apps/", escape(d.AppGUID), "/relationships/current_droplet").Href, Method: http.MethodPatch},
		},
	}
	if b.ProcessTypes == nil {
		b.ProcessTypes = map[string]string{}
	}
	if d.Checksum != "" {
		b.Checksum = &checksumBody{"sha256", &d.Checksum}
		b.Links["download"] = req.v3(self, "/download")
	}
	if d.PackageGUID != "" {
		b.Links["package"] = req.v3("/packages/", escape(d.PackageGUID))
	}
	if d.State == platform.DropletAwaitingUpload {
		b.Links["upload"] = &link{Href: req.v3(self, "/upload").Href, Method: http.MethodPost}
	}
	return b
}

// createDroplet creates an empty droplet for an upload, or copies one.
func (a *API) createDroplet(w http.ResponseWriter, r *http.Request) error {
	var body struct {
		ProcessTypes  map[string]string `json:"process_types"`
		Relationships struct {
			App relation `json:"app"`
		} `json:"relationships"`
	}
	if err := web.DecodeStrict(r, &body); err != nil {
		return err
	}
	if body.Relationships.App.Data == nil {
		return fault.Invalid("Relationships 'relationships' must include 'app'")
	}
	source := r.URL.Query().Get("source_guid")
	var from, d *platform.Droplet
	err := a.store.Update(r.Context(), func(tx platform.Tx) error {
		req := newRequest(tx, r)
		app, err := req.appNamed(body.Relationships.App.Data.GUID, platform.Develop)
		if err != nil {
			return notAccessible(err, "App with guid \""+body.Relationships.App.Data.GUID+"\" does not exist, or you do not have access to it.")
		}
		if source != "" {
			// A user who copies it can download it.
			if from, err = find(req.caller, tx.Droplets(), source, "Droplet"); err == nil {
				_, err = req.appNamed(from.AppGUID, platform.Develop)
			}
			if err != nil {
				return err
			}
		}
		d = &platform.Droplet{ProcessTypes: body.ProcessTypes}
		return a.platform.CreateDroplet(tx, req.caller.actor(), app, d, from)
	})
	if err != nil {
		return err
	}
	if from == nil {
		return respond(a, w, r, droplet, http.StatusCreated, d)
	}
	if d.Container != nil {
		return answer(a, w, r, droplet, http.StatusCreated, func(req *request) (*platform.Droplet, error) {
			return d, a.platform.DropletCopied(req.tx, d)
		})
	}
	if err := a.blobs.CopyDroplet(r.Context(), from.GUID, d.GUID); err != nil {
		return err
	}
	return answer(a, w, r, droplet, http.StatusCreated, func(req *request) (*platform.Droplet, error) {
		return d, a.platform.DropletCopied(req.tx, d)
	})
}

func (a *API) dropletFor(req *request) (*platform.Droplet, *platform.App, error) {
	d, err := find(req.caller, req.tx.Droplets(), web.Param(req.r, "guid"), "Droplet")
	if err != nil {
		return nil, nil, err
	}
	app, err := req.appNamed(d.AppGUID, platform.Develop)
	return d, app, err
}

func (a *API) deleteDroplet(w http.ResponseWriter, r *http.Request) error {
	return a.finish(w, r, "droplet.delete", func(req *request) error {
		d, app, err := a.dropletFor(req)
		if err != nil {
			return err
		}
		return a.platform.DeleteDroplet(req.tx, req.caller.actor(), app, d)
	})
}

func (a *API) downloadDroplet(w http.ResponseWriter, r *http.Request) error {
	var guid string
	err := a.store.Update(r.Context(), func(tx platform.Tx) error {
		req := newRequest(tx, r)
		d, app, err := a.dropletFor(req)
		if err != nil {
			return err
		}
		if d.Container != nil {
			return fault.Invalid("Cannot download droplets with 'docker' lifecycle.")
		}
		if d.State != platform.DropletStaged {
			return fault.Invalid("Only staged droplets can be downloaded.")
		}
		guid = d.GUID
		return a.platform.DropletDownloaded(tx, req.caller.actor(), app, d)
	})
	if err != nil {
		return err
	}
	found, err := a.blobs.OpenDroplet(r.Context(), guid)
	if err != nil {
		return err
	}
	return serveBlob(w, r, found)
}

// uploadDroplet stores a droplet that was built elsewhere.
func (a *API) uploadDroplet(w http.ResponseWriter, r *http.Request) error {
	var d *platform.Droplet
	err := a.store.View(r.Context(), func(tx platform.Tx) (err error) {
		req := newRequest(tx, r)
		if d, _, err = a.dropletFor(req); err != nil {
			return err
		}
		if d.State != platform.DropletAwaitingUpload {
			return fault.Invalid("Droplet may be uploaded only once. Create a new droplet to upload bits.")
		}
		return req.needFlag("app_bits_upload")
	})
	if err != nil {
		return err
	}
	upload, err := a.readUpload(r)
	if err != nil {
		return err
	}
	defer upload.Close()
	if upload.file == nil {
		return fault.Invalid("Upload must include the file 'bits'")
	}
	found, err := a.inspectDroplet(r.Context(), upload.file)
	var refused *fault.Error
	if err != nil && !errors.As(err, &refused) {
		return err
	}
	var sum string
	var size int64
	if refused == nil {
		if sum, size, err = a.blobs.PutDroplet(r.Context(), d.GUID, upload.file); err != nil {
			return err
		}
	}
	return uploaded(a, w, r, droplet, func(req *request) (*platform.Droplet, platform.Job, error) {
		job := platform.Job{Operation: "droplet.upload", State: platform.JobComplete, ResourceType: "droplet", ResourceGUID: d.GUID}
		d, err := lookup(req.tx.Droplets(), d.GUID, "Droplet")
		if err != nil {
			return nil, job, err
		}
		if refused != nil {
			job.State = platform.JobFailed
			job.Errors = []platform.JobError{{Code: web.Number(refused.Code), Title: "CF-" + string(refused.Code), Detail: refused.Message}}
			return d, job, a.platform.DropletRefused(req.tx, d, refused.Message)
		}
		app, err := req.tx.Apps().Get(d.AppGUID)
		if err != nil {
			return nil, job, err
		}
		return d, job, a.platform.DropletUploaded(req.tx, req.caller.actor(), app, d, found, sum, size)
	})
}

// inspectDroplet reads the metadata of a droplet file, and resets its position.
func (a *API) inspectDroplet(ctx context.Context, file io.ReadSeeker) (*platform.Droplet, error) {
	if a.inspect == nil {
		return &platform.Droplet{}, nil
	}
	said, err := a.inspect(ctx, file)
	if err != nil {
		return nil, err
	}
	_, err = file.Seek(0, io.SeekStart)
	return said, err
}
