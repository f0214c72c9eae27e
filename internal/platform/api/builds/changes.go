package builds

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/google/uuid"

	"ingot/internal/base/fault"
	"ingot/internal/base/web"
	"ingot/internal/platform"
	"ingot/internal/platform/actions"
	"ingot/internal/platform/api/rest"
)

func (a *API) changeRoutes(g *web.Group) {
	g.Within(uploads).Storing().Refusing(namesBits).Handle(http.MethodPost, "/v3/ingot/apps/{guid}/changes", rest.Write,
		a.createChange)
}

// changeBase finds the app of the path and what a change is applied to.
func (a *API) changeBase(req *rest.Request, droplet string) (*platform.App, *platform.Droplet,
	*platform.Package, error) {
	app, err := req.App(platform.Develop)
	if err != nil {
		return nil, nil, nil, err
	}
	if err := req.NeedFlag("app_bits_upload"); err != nil {
		return nil, nil, nil, err
	}
	if droplet == "" { // not read yet
		return app, nil, nil, nil
	}
	base, pkg, err := actions.ChangeBase(req.Tx, app, droplet)
	return app, base, pkg, err
}

// createChange makes a package of an app's files as they are now, of which the client
// sends those that differ from the current droplet's, and a droplet with them if that
// needs no build.
func (a *API) createChange(w http.ResponseWriter, r *http.Request) error {
	err := a.Store.View(r.Context(), func(tx platform.Tx) error {
		_, _, _, err := a.changeBase(rest.NewRequest(tx, r), "")
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
	body, err := u.changes()
	if err != nil {
		return err
	}
	var base *platform.Droplet
	var from *platform.Package
	err = a.Store.View(r.Context(), func(tx platform.Tx) (err error) {
		_, base, from, err = a.changeBase(rest.NewRequest(tx, r), body.Droplet.GUID)
		return err
	})
	if err != nil {
		return err
	}
	patch := Patch{Size: u.size, Deleted: body.Deleted}
	if u.file != nil {
		patch.Files = u.file
	}
	made := newChange()
	if err := a.storeChange(w, r, base, from, patch, made); err != nil {
		a.discardChange(r.Context(), made)
		return err
	}
	return nil
}

// changedApp is the package and the droplet that a change makes.
type changedApp struct {
	pkg     *platform.Package
	droplet *platform.Droplet
}

func newChange() changedApp {
	return changedApp{&platform.Package{Resource: platform.Resource{GUID: uuid.NewString()}},
		&platform.Droplet{Resource: platform.Resource{GUID: uuid.NewString()}}}
}

// storeChange stores the files of a change and then its rows.
func (a *API) storeChange(w http.ResponseWriter, r *http.Request, base *platform.Droplet, from *platform.Package,
	patch Patch, made changedApp) error {
	built, why, err := a.patch(r.Context(), base, from, patch, made)
	if err != nil {
		return err
	}
	pkg, droplet := made.pkg, made.droplet
	if !built {
		droplet = nil
	}
	return a.Perform(w, r, http.StatusCreated, func(req *rest.Request) (any, error) {
		app, again, _, err := a.changeBase(req, base.GUID)
		if err != nil {
			return nil, err
		}
		if err := a.Platform.ApplyChange(req.Tx, req.Caller.Actor(), app, again, pkg, droplet); err != nil {
			return nil, err
		}
		out := map[string]any{"package": rest.RelationData{GUID: pkg.GUID}, "droplet": nil, "build_reason": rest.OrNull(why)}
		if droplet != nil {
			out["droplet"] = rest.RelationData{GUID: droplet.GUID}
		}
		return out, nil
	})
}

// discardChange deletes the files of a change that failed: they are copies of all files of the
// app, and a client could fill the disk with requests that it breaks off. If it is not known
// whether their rows were stored, they are left to the sweep.
func (a *API) discardChange(ctx context.Context, made changedApp) {
	ctx = context.WithoutCancel(ctx)
	err := a.Store.View(ctx, func(tx platform.Tx) error {
		_, err := tx.Packages().Get(made.pkg.GUID)
		return err
	})
	if !fault.Is(err, fault.NotFound) {
		return
	}
	if err := a.Blobs.DiscardPatched(ctx, made.pkg.GUID, made.droplet.GUID); err != nil {
		a.Log.WarnContext(ctx, "the files of a failed change could not be deleted; the next sweep deletes them", "error", err)
	}
}

// patch stores the files of a change. built is false if the droplet needs a build; then the
// text says why.
func (a *API) patch(ctx context.Context, base *platform.Droplet, from *platform.Package, patch Patch,
	made changedApp) (built bool, why string, err error) {
	pkg, d := made.pkg, made.droplet
	var files PatchedFiles
	if pkg.Checksum, files, err = a.Blobs.PatchPackage(ctx, from.GUID, pkg.GUID, patch); err != nil {
		return false, "", err
	}
	rules := platform.SyncRulesOf(base)
	if rules == nil {
		return false, "its buildpack needs a build for every change", nil
	}
	if name := rules.NeedsBuild(files.Changed, append(files.Added, files.Deleted...)); name != "" {
		return false, name + " changed", nil
	}
	d.Checksum, d.Size, err = a.Blobs.PatchDroplet(ctx, base.GUID, d.GUID, patch)
	if errors.Is(err, ErrNeedsBuild) {
		return false, "the files of the droplet differ from those of the package", nil
	}
	return true, "", err
}

// changes is the description of a change in an upload.
func (u *upload) changes() (body changeBody, err error) {
	if u.resources == "" {
		return body, fault.Invalid("Upload must include the field 'resources' with the droplet and the deleted files")
	}
	if err := json.Unmarshal([]byte(u.resources), &body); err != nil {
		return body, fault.Wrap(err, fault.Unprocessable, "Resources is not a valid JSON object")
	}
	switch {
	case body.Droplet.GUID == "":
		return body, fault.Invalid("Droplet must be named by its guid")
	case u.file == nil && len(body.Deleted) == 0:
		return body, fault.Invalid("Upload must include either changed or deleted files")
	}
	return body, nil
}

type changeBody struct {
	// Droplet is the one that the files differ from.
	Droplet rest.RelationData `json:"droplet"`
	Deleted []string          `json:"deleted"`
}
