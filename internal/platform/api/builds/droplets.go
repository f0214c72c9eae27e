package builds

import (
	"context"
	"errors"
	"io"
	"net/http"

	"ingot/internal/base/fault"
	"ingot/internal/base/web"
	"ingot/internal/platform"
	"ingot/internal/platform/actions"
	"ingot/internal/platform/api/apps"
	"ingot/internal/platform/api/listing"
	"ingot/internal/platform/api/rest"
)

// droplets presents lists, which more users can read: commands are hidden. droplet
// presents a single one.
var (
	droplets = dropletsShownBy(rest.Each(func(req *rest.Request, d *platform.Droplet) dropletBody {
		return presentDroplet(req, d).hide(rest.HiddenInLists)
	}))
	droplet = dropletsShownBy(presentDroplets)
)

func dropletsShownBy(present func(*rest.Request, []*platform.Droplet) ([]dropletBody,
	error)) rest.Resource[platform.Droplet, dropletBody] {
	return rest.Resource[platform.Droplet, dropletBody]{Noun: "Droplet", Repo: platform.Tx.Droplets, List: dropletList,
		Present: present}
}

// presentDroplets shows commands to developers only.
func presentDroplets(req *rest.Request, items []*platform.Droplet) ([]dropletBody, error) {
	out := make([]dropletBody, 0, len(items))
	for _, d := range items {
		b := presentDroplet(req, d)
		show, err := req.ShowsSecrets(d.AppGUID)
		if err != nil {
			return nil, err
		}
		if !show {
			b = b.hide(rest.Hidden)
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
	g.Handle(http.MethodGet, "/v3/droplets", rest.Read, droplets.Lister(a.Server))
	g.Storing().Handle(http.MethodPost, "/v3/droplets", rest.Write, a.createDroplet)
	g.Handle(http.MethodGet, "/v3/droplets/{guid}", rest.Read, droplet.Getter(a.Server))
	g.Handle(http.MethodPatch, "/v3/droplets/{guid}", rest.Write, rest.MetadataPatcher(a.Server, droplet,
		rest.Only(dropletFor)))
	g.Handle(http.MethodDelete, "/v3/droplets/{guid}", rest.Write, a.deleteDroplet)
	g.Handle(http.MethodGet, "/v3/apps/{guid}/droplets", rest.Read, a.appDroplets)
	g.Handle(http.MethodGet, "/v3/packages/{guid}/droplets", rest.Read, rest.ListerOf(a.Server, droplets,
		platform.Tx.Packages, "Package", "package_guid"))
	g.Within(downloads).Handle(http.MethodGet, "/v3/droplets/{guid}/download", rest.Read, a.downloadDroplet)
	g.Within(uploads).Storing().Refusing(namesBits).Handle(http.MethodPost, "/v3/droplets/{guid}/upload", rest.Write,
		a.uploadDroplet)
	g.Handle(http.MethodGet, "/v3/apps/{guid}/relationships/current_droplet", rest.Read,
		rest.Viewer(a.Server, a.currentDroplet, dropletRelation))
	g.Handle(http.MethodPatch, "/v3/apps/{guid}/relationships/current_droplet", rest.Write,
		rest.Changer(a.Server, readDroplet, rest.AppFor(platform.Operate), a.setCurrentDroplet))
	g.Handle(http.MethodGet, "/v3/apps/{guid}/droplets/current", rest.Read, droplet.GetterBy(a.Server, a.currentDroplet))
}

// appDroplets also supports ?current=true.
func (a *API) appDroplets(w http.ResponseWriter, r *http.Request) error {
	return droplets.ListerWhere(a.Server, func(req *rest.Request) ([]platform.Cond, error) {
		app, err := apps.Apps.Find(req)
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
func (a *API) currentDroplet(req *rest.Request) (*platform.Droplet, error) {
	app, err := apps.Apps.Find(req)
	if err != nil {
		return nil, err
	}
	return rest.Lookup(req.Tx.Droplets(), app.DropletGUID, "Droplet")
}

func dropletRelation(req *rest.Request, d *platform.Droplet) (any, error) {
	self := "/apps/" + rest.Escape(d.AppGUID)
	return map[string]any{"data": rest.RelationData{GUID: d.GUID}, "links": rest.Links{
		"self": req.Link(self, "/relationships/current_droplet"), "related": req.Link(self, "/droplets/current"),
	}}, nil
}

// readDroplet decodes the droplet that an app is to have.
func readDroplet(r *http.Request) (string, error) {
	body, err := rest.Body[rest.Relation](r)
	if err != nil {
		return "", err
	}
	if body.Data == nil || body.Data.GUID == "" {
		return "", fault.Invalid("Current droplet cannot be cleared. Provide a droplet guid.")
	}
	return body.Data.GUID, nil
}

func (a *API) setCurrentDroplet(req *rest.Request, app *platform.App, guid string) (any, error) {
	d, err := rest.Find(req.Caller, req.Tx.Droplets(), guid, "Droplet")
	if err != nil {
		return nil, rest.NotAccessible(err,
			"Unable to assign current droplet. Ensure the droplet exists and belongs to this app.")
	}
	if err := a.Platform.AssignDroplet(req.Tx, req.Caller.Actor(), app, d); err != nil {
		return nil, err
	}
	return dropletRelation(req, d)
}

type dropletBody struct {
	rest.ResourceBody
	State             platform.DropletState       `json:"state"`
	Error             *string                     `json:"error"`
	Lifecycle         apps.LifecycleBody          `json:"lifecycle"`
	Checksum          *checksumBody               `json:"checksum"`
	Buildpacks        []platform.DropletBuildpack `json:"buildpacks"`
	Stack             *string                     `json:"stack"`
	Image             *string                     `json:"image"`
	ExecutionMetadata string                      `json:"execution_metadata"`
	ProcessTypes      map[string]string           `json:"process_types"`
	Relationships     map[string]any              `json:"relationships"`
	Metadata          rest.Metadata               `json:"metadata"`
	Links             rest.Links                  `json:"links"`
}

type checksumBody struct {
	Type  string  `json:"type"`
	Value *string `json:"value"`
}

func presentDroplet(req *rest.Request, d *platform.Droplet) dropletBody {
	self := "/droplets/" + rest.Escape(d.GUID)
	b := dropletBody{
		ResourceBody: rest.PresentResource(&d.Resource), State: d.State, Error: rest.OrNull(d.Error),
		Lifecycle:  apps.LifecycleBody{Type: d.Lifecycle, Data: map[string]any{}},
		Buildpacks: append([]platform.DropletBuildpack{}, d.Buildpacks...), Stack: rest.OrNull(d.Stack),
		Image:             rest.OrNull(d.Image),
		ExecutionMetadata: d.ExecutionMetadata, ProcessTypes: rest.NonNil(d.ProcessTypes),
		Relationships: map[string]any{"app": rest.ToOne(d.AppGUID)}, Metadata: rest.PresentMetadata(&d.Metadata),
		Links: rest.Links{
			"self": req.Link(self), "app": req.Link("/apps/", rest.Escape(d.AppGUID)),
			"assign_current_droplet": {Href: req.Link("/apps/", rest.Escape(d.AppGUID), "/relationships/current_droplet").Href,
				Method: http.MethodPatch},
		},
	}
	if d.Checksum != "" {
		b.Checksum = &checksumBody{"sha256", &d.Checksum}
		b.Links["download"] = req.Link(self, "/download")
	}
	if d.PackageGUID != "" {
		b.Links["package"] = req.Link("/packages/", rest.Escape(d.PackageGUID))
	}
	if d.State == platform.DropletAwaitingUpload {
		b.Links["upload"] = &rest.Link{Href: req.Link(self, "/upload").Href, Method: http.MethodPost}
	}
	return b
}

// createDroplet creates an empty droplet for an upload, or copies one.
func (a *API) createDroplet(w http.ResponseWriter, r *http.Request) error {
	var body struct {
		ProcessTypes  map[string]string `json:"process_types"`
		Relationships struct {
			App rest.Relation `json:"app"`
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
	err := a.Store.Update(r.Context(), func(tx platform.Tx) error {
		req := rest.NewRequest(tx, r)
		app, err := req.AppNamed(body.Relationships.App.Data.GUID, platform.Develop)
		if err != nil {
			return rest.NotAccessible(err, "App with guid \""+body.Relationships.App.Data.GUID+
				"\" does not exist, or you do not have access to it.")
		}
		if source != "" {
			// A user who copies it can download it.
			if from, err = rest.Find(req.Caller, tx.Droplets(), source, "Droplet"); err == nil {
				_, err = req.AppNamed(from.AppGUID, platform.Develop)
			}
			if err != nil {
				return err
			}
		}
		d = &platform.Droplet{ProcessTypes: body.ProcessTypes}
		return a.Platform.CreateDroplet(tx, req.Caller.Actor(), app, d, from)
	})
	if err != nil {
		return err
	}
	if from == nil {
		return rest.Respond(a.Server, w, r, droplet, http.StatusCreated, d)
	}
	if d.Container == nil {
		if err := a.Blobs.CopyDroplet(r.Context(), from.GUID, d.GUID); err != nil {
			return err
		}
	}
	return rest.Answer(a.Server, w, r, droplet, http.StatusCreated, func(req *rest.Request) (*platform.Droplet, error) {
		return d, a.Platform.DropletCopied(req.Tx, d)
	})
}

var dropletFor = rest.OfApp(droplet, func(d *platform.Droplet) string { return d.AppGUID }, platform.Develop)

func (a *API) deleteDroplet(w http.ResponseWriter, r *http.Request) error {
	return a.Finish(w, r, "droplet.delete", func(req *rest.Request) error {
		_, err := rest.Acted(dropletFor, a.Platform.DeleteDroplet)(req)
		return err
	})
}

func (a *API) downloadDroplet(w http.ResponseWriter, r *http.Request) error {
	return download(a, w, r, dropletBits, dropletFor, a.Blobs.LocateDroplet,
		func(tx platform.Tx, by actions.Actor, app *platform.App, d *platform.Droplet) error {
			if d.Container != nil {
				return fault.Invalid("Cannot download droplets with 'docker' lifecycle.")
			}
			if d.State != platform.DropletStaged {
				return fault.Invalid("Only staged droplets can be downloaded.")
			}
			return a.Platform.DropletDownloaded(tx, by, app, d)
		})
}

// uploadDroplet stores a droplet that was built elsewhere.
func (a *API) uploadDroplet(w http.ResponseWriter, r *http.Request) error {
	var d *platform.Droplet
	err := a.Store.View(r.Context(), func(tx platform.Tx) (err error) {
		req := rest.NewRequest(tx, r)
		if d, _, err = dropletFor(req); err != nil {
			return err
		}
		if d.State != platform.DropletAwaitingUpload {
			return fault.Invalid("Droplet may be uploaded only once. Create a new droplet to upload bits.")
		}
		return req.NeedFlag("app_bits_upload")
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
		if sum, size, err = a.Blobs.PutDroplet(r.Context(), d.GUID, upload.file); err != nil {
			return err
		}
	}
	return uploaded(a, w, r, droplet, func(req *rest.Request) (*platform.Droplet, platform.Job, error) {
		job := platform.Job{Operation: "droplet.upload", State: platform.JobComplete, ResourceType: "droplet",
			ResourceGUID: d.GUID}
		d, err := rest.Lookup(req.Tx.Droplets(), d.GUID, "Droplet")
		if err != nil {
			return nil, job, err
		}
		if refused != nil {
			job.State = platform.JobFailed
			job.Errors = []platform.JobError{{Code: web.Number(refused.Code), Title: "CF-" + string(refused.Code),
				Detail: refused.Message}}
			return d, job, a.Platform.DropletRefused(req.Tx, d, refused.Message)
		}
		app, err := req.Tx.Apps().Get(d.AppGUID)
		if err != nil {
			return nil, job, err
		}
		return d, job, a.Platform.DropletUploaded(req.Tx, req.Caller.Actor(), app, d, found, sum, size)
	})
}

// inspectDroplet reads the metadata of a droplet file, and resets its position.
func (a *API) inspectDroplet(ctx context.Context, file io.ReadSeeker) (*platform.Droplet, error) {
	if a.InspectDroplet == nil {
		return &platform.Droplet{}, nil
	}
	said, err := a.InspectDroplet(ctx, file)
	if err != nil {
		return nil, err
	}
	_, err = file.Seek(0, io.SeekStart)
	return said, err
}
