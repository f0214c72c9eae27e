package builds

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"net/http"

	"ingot/internal/base/fault"
	"ingot/internal/base/pattern"
	"ingot/internal/base/web"
	"ingot/internal/platform"
	"ingot/internal/platform/actions"
	"ingot/internal/platform/api/listing"
	"ingot/internal/platform/api/rest"
)

var packages = rest.Resource[platform.Package, packageBody]{
	Noun: "Package", Repo: platform.Tx.Packages, Present: rest.Each(presentPackage),
	List: listing.Params{Filters: listing.Filters{
		"states": listing.Text("state"), "types": listing.Text("type"), "app_guids": listing.Text("app_guid"),
		"space_guids": listing.Text("space_guid"), "organization_guids": listing.Text("organization_guid"),
	}},
}

func (a *API) packageRoutes(g *web.Group) {
	g.Handle(http.MethodGet, "/v3/packages", rest.Read, packages.Lister(a.Server))
	g.Storing().Handle(http.MethodPost, "/v3/packages", rest.Write, a.createPackage)
	g.Handle(http.MethodGet, "/v3/packages/{guid}", rest.Read, packages.Getter(a.Server))
	g.Handle(http.MethodPatch, "/v3/packages/{guid}", rest.Write, rest.MetadataPatcher(a.Server, packages,
		rest.Only(packageFor)))
	g.Handle(http.MethodDelete, "/v3/packages/{guid}", rest.Write, a.deletePackage)
	g.Handle(http.MethodGet, "/v3/apps/{guid}/packages", rest.Read, rest.ListerOf(a.Server, packages, platform.Tx.Apps,
		"App", "app_guid"))
	g.Within(uploads).Storing().Refusing(namesBits).Handle(http.MethodPost, "/v3/packages/{guid}/upload", rest.Write,
		a.uploadPackage)
	g.Within(downloads).Handle(http.MethodGet, "/v3/packages/{guid}/download", rest.Read, a.downloadPackage)
	g.Within(web.Limits{Body: 8 << 20, Read: web.DefaultLimits.Read, Write: web.DefaultLimits.Write}).
		Handle(http.MethodPost, "/v3/resource_matches", rest.Write, a.resourceMatches)
}

// packageData is the container image of a package.
type packageData struct {
	Image    string `json:"image"`
	Username string `json:"username"`
	Password string `json:"password"`
}

func (a *API) createPackage(w http.ResponseWriter, r *http.Request) error {
	var body struct {
		Type          string                 `json:"type"`
		Data          packageData            `json:"data"`
		Metadata      *actions.MetadataPatch `json:"metadata"`
		Relationships struct {
			App rest.Relation `json:"app"`
		} `json:"relationships"`
	}
	if err := web.DecodeStrict(r, &body); err != nil {
		return err
	}
	source := r.URL.Query().Get("source_guid")
	if body.Relationships.App.Data == nil {
		return fault.Invalid("Relationships 'relationships' must include 'app'")
	}
	switch {
	case source != "":
	case body.Type != platform.PackageBits && body.Type != platform.PackageDocker:
		return fault.Invalid("Type must be one of 'bits, docker'")
	case body.Type == platform.PackageBits && body.Data != packageData{}:
		return fault.Invalid("Data must be empty if provided for bits packages")
	}
	var from, made *platform.Package
	err := a.Store.Update(r.Context(), func(tx platform.Tx) error {
		req := rest.NewRequest(tx, r)
		app, err := req.AppNamed(body.Relationships.App.Data.GUID, platform.Develop)
		if err != nil {
			return rest.NotAccessible(err, "App is invalid. Ensure it exists and you have access to it.")
		}
		made = &platform.Package{Type: body.Type, Image: body.Data.Image, Username: body.Data.Username,
			Password: body.Data.Password}
		if err := body.Metadata.Apply(&made.Metadata); err != nil {
			return err
		}
		if source != "" {
			// A user who copies it can download it.
			if from, err = rest.Find(req.Caller, tx.Packages(), source, "Package"); err == nil {
				_, err = req.AppNamed(from.AppGUID, platform.Develop)
			}
			if err != nil {
				return rest.NotAccessible(err, "Source is invalid. Ensure it exists and you have access to it.")
			}
		}
		return a.Platform.CreatePackage(tx, req.Caller.Actor(), app, made, from)
	})
	if err != nil {
		return err
	}
	if made.State != platform.PackageCopying {
		return rest.Respond(a.Server, w, r, packages, http.StatusCreated, made)
	}
	if err := a.Blobs.CopyPackage(r.Context(), from.GUID, made.GUID); err != nil {
		return err
	}
	return rest.Answer(a.Server, w, r, packages, http.StatusCreated, func(req *rest.Request) (*platform.Package, error) {
		return made, a.Platform.PackageCopied(req.Tx, made)
	})
}

var packageFor = rest.OfApp(packages, func(pkg *platform.Package) string { return pkg.AppGUID }, platform.Develop)

func (a *API) deletePackage(w http.ResponseWriter, r *http.Request) error {
	return a.Finish(w, r, "package.delete", func(req *rest.Request) error {
		_, err := rest.Acted(packageFor, a.Platform.DeletePackage)(req)
		return err
	})
}

// resourceRequest is a file in a request, identified by its content. Clients use two
// formats.
type resourceRequest struct {
	Path     string `json:"path"`
	Mode     string `json:"mode"`
	Checksum struct {
		Value string `json:"value"`
	} `json:"checksum"`
	Size    *int64 `json:"size_in_bytes"`
	OldSHA1 string `json:"sha1"`
	OldSize int64  `json:"size"`
	OldName string `json:"fn"`
}

var sha1Text = pattern.OnUse(`^[0-9a-f]{40}$`)

func (b *resourceRequest) resource() (Resource, error) {
	res := Resource{Path: cmp.Or(b.Path, b.OldName), Mode: cmp.Or(b.Mode, "0644"),
		SHA1: cmp.Or(b.Checksum.Value, b.OldSHA1), Size: b.OldSize}
	web.Set(&res.Size, b.Size)
	if !sha1Text().MatchString(res.SHA1) {
		return res, fault.Invalid("Resources must have a checksum: a SHA-1 in hex")
	}
	return res, nil
}

func readResources(in []resourceRequest) ([]Resource, error) {
	out := make([]Resource, 0, len(in))
	for i := range in {
		res, err := in[i].resource()
		if err != nil {
			return nil, err
		}
		out = append(out, res)
	}
	return out, nil
}

func (a *API) resourceMatches(w http.ResponseWriter, r *http.Request) error {
	var body struct {
		Resources []resourceRequest `json:"resources"`
	}
	if err := web.DecodeJSON(r, &body); err != nil {
		return err
	}
	if len(body.Resources) == 0 || len(body.Resources) > 5000 {
		return fault.Invalid("Resources must be a list of 1 to 5000 resources")
	}
	wanted, err := readResources(body.Resources)
	if err != nil {
		return err
	}
	on, err := rest.View(a.Server, r, func(req *rest.Request) (bool, error) {
		return rest.FlagOn(req.Tx, "resource_matching")
	})
	if err != nil {
		return err
	}
	type match struct {
		Checksum map[string]string `json:"checksum"`
		Size     int64             `json:"size_in_bytes"`
		Path     string            `json:"path"`
		Mode     string            `json:"mode"`
	}
	out := []match{}
	if on {
		found, err := a.Blobs.Match(r.Context(), rest.CallerOf(r).GUID, wanted)
		if err != nil {
			return err
		}
		for _, f := range found {
			out = append(out, match{map[string]string{"value": f.SHA1}, f.Size, f.Path, f.Mode})
		}
	}
	return web.Answer(w, http.StatusCreated, map[string]any{"resources": out}, nil)
}

// uploadPackage stores the bits of a package: a zip of new files, and a list of
// files that the server has already.
func (a *API) uploadPackage(w http.ResponseWriter, r *http.Request) error {
	if _, err := rest.View(a.Server, r, a.awaitingUpload); err != nil {
		return err
	}
	u, err := a.readUpload(r)
	if err != nil {
		return err
	}
	defer u.Close()
	matched, err := u.matched()
	if err != nil {
		return err
	}
	if u.file == nil && len(matched) == 0 {
		return fault.Invalid("Upload must include either resources or bits")
	}
	pkg, err := rest.Update(a.Server, r, func(req *rest.Request) (*platform.Package, error) {
		pkg, err := a.awaitingUpload(req)
		if err != nil {
			return nil, err
		}
		return pkg, a.Platform.BeginPackageUpload(req.Tx, pkg)
	})
	if err != nil {
		return err
	}
	var bits io.ReaderAt // nil, not a nil file
	if u.file != nil {
		bits = u.file
	}
	sum, err := a.Blobs.PutPackage(r.Context(), pkg.GUID, rest.CallerOf(r).GUID, bits, u.size, matched)
	if err != nil {
		return a.packageFailed(r, pkg, err)
	}
	return rest.Answer(a.Server, w, r, packages, http.StatusOK, rest.Acted(packageFor,
		func(tx platform.Tx, by actions.Actor, app *platform.App, fresh *platform.Package) error {
			return a.Platform.PackageUploaded(tx, by, app, fresh, sum)
		}))
}

// awaitingUpload returns the package of the path if its bits can be uploaded.
func (a *API) awaitingUpload(req *rest.Request) (*platform.Package, error) {
	pkg, _, err := packageFor(req)
	if err != nil {
		return nil, err
	}
	if err := platform.CheckPackageUpload(pkg); err != nil {
		return nil, err
	}
	return pkg, req.NeedFlag("app_bits_upload")
}

// matched returns the files of a package that the server has already.
func (u *upload) matched() ([]Resource, error) {
	if u.resources == "" {
		return nil, nil
	}
	var listed []resourceRequest
	if err := json.Unmarshal([]byte(u.resources), &listed); err != nil {
		return nil, fault.Wrap(err, fault.Unprocessable, "Resources is not a valid JSON list")
	}
	return readResources(listed)
}

// packageFailed stores that an upload failed and returns the cause.
func (a *API) packageFailed(r *http.Request, pkg *platform.Package, cause error) error {
	// The state is stored even if the client has disconnected.
	ctx := context.WithoutCancel(r.Context())
	err := a.Store.Update(ctx, func(tx platform.Tx) error { return a.Platform.PackageUploadFailed(tx, pkg.GUID, cause) })
	if err != nil {
		a.Log.WarnContext(ctx, "the state of a failed package could not be stored", "error", err)
	}
	return cause
}

func (a *API) downloadPackage(w http.ResponseWriter, r *http.Request) error {
	return download(a, w, r, packageBits, packageFor, a.Blobs.LocatePackage,
		func(tx platform.Tx, by actions.Actor, app *platform.App, pkg *platform.Package) error {
			if pkg.Type != platform.PackageBits {
				return fault.Invalid("Package type must be bits.")
			}
			if pkg.State != platform.PackageReady {
				return fault.Invalid("Package has no bits to download.")
			}
			return a.Platform.PackageDownloaded(tx, by, app, pkg)
		})
}

type packageBody struct {
	rest.ResourceBody
	Type          string                `json:"type"`
	Data          map[string]any        `json:"data"`
	State         platform.PackageState `json:"state"`
	Relationships map[string]any        `json:"relationships"`
	Metadata      rest.Metadata         `json:"metadata"`
	Links         rest.Links            `json:"links"`
}

func presentPackage(req *rest.Request, pkg *platform.Package) packageBody {
	self := "/packages/" + rest.Escape(pkg.GUID)
	b := packageBody{
		ResourceBody: rest.PresentResource(&pkg.Resource), Type: pkg.Type, State: pkg.State,
		Relationships: map[string]any{"app": rest.ToOne(pkg.AppGUID)}, Metadata: rest.PresentMetadata(&pkg.Metadata),
		Links: rest.Links{"self": req.Link(self), "app": req.Link("/apps/", rest.Escape(pkg.AppGUID))},
	}
	if pkg.Type == platform.PackageDocker {
		var password *string
		if pkg.Password != "" {
			password = rest.OrNull(redactedPassword)
		}
		b.Data = map[string]any{"image": pkg.Image, "username": rest.OrNull(pkg.Username), "password": password}
		return b
	}
	b.Data = map[string]any{"error": rest.OrNull(pkg.Error), "checksum": checksumBody{"sha256", rest.OrNull(pkg.Checksum)}}
	b.Links["upload"] = &rest.Link{Href: req.Link(self, "/upload").Href, Method: http.MethodPost}
	b.Links["download"] = &rest.Link{Href: req.Link(self, "/download").Href, Method: http.MethodGet}
	return b
}

// redactedPassword is shown instead of a password, as in Cloud Foundry.
const redactedPassword = "***"
