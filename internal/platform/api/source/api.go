package source

import (
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"ingot/internal/base/fault"
	"ingot/internal/base/web"
	"ingot/internal/platform"
	"ingot/internal/platform/api/apps"
	"ingot/internal/platform/api/builds"
	"ingot/internal/platform/api/rest"
	"ingot/internal/platform/run/gitfetch"
)

// API makes apps from files and images.
type API struct {
	*rest.Server
	Apps    *apps.API
	Blobs   builds.Blobs
	Scratch string // the directory for temporary files
	// MaxUpload limits the bytes of a zip.
	MaxUpload int64
	// Git fetches from git servers.
	Git *gitfetch.Client

	fetches fetches
	hooks   hookRates
}

// Routes registers the routes with their authorization decisions. The handlers require the role of a space
// developer before they read the body.
func (a *API) Routes(api *web.Group) {
	// More than is accepted is read, because browsers show the answer only after they have sent all.
	g := api.Within(web.Limits{Body: 4 * a.MaxUpload, Read: time.Hour, Write: time.Hour}).Storing()
	g.Handle(http.MethodPost, "/v3/ingot/spaces/{guid}/deploy", rest.Write, a.create)
	g.Handle(http.MethodPost, "/v3/ingot/apps/{guid}/deploy", rest.Write, a.replace)
	a.gitRoutes(api)
}

// order is what to deploy. It is the body of a request, except for a zip: then it is its query.
type order struct {
	Name        string `json:"name"`
	MemoryMB    int    `json:"memory_in_mb"`
	Instances   *int   `json:"instances"`
	RandomRoute bool   `json:"random_route"`
	// Docker is the image of an app.
	Docker *struct {
		Image    string `json:"image"`
		Username string `json:"username"`
		Password string `json:"password"`
	} `json:"docker"`
	Sample  bool `json:"sample"`  // deploys the sample
	Restage bool `json:"restage"` // builds the newest package again
	// Git is the repository of an app, which is stored; Redeploy deploys the newest commit of the stored one.
	Git      *gitOrder `json:"git"`
	Redeploy bool      `json:"redeploy"`

	zip io.Reader
}

// maxOrder limits the bytes of an order as JSON.
const maxOrder = 64 << 10

// zipTypes are the media types of zips, as browsers name them.
var zipTypes = map[string]bool{"application/zip": true, "application/x-zip-compressed": true,
	"application/java-archive": true, "application/octet-stream": true}

// read returns the order of a request.
func read(w http.ResponseWriter, r *http.Request) (*order, error) {
	o := &order{}
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err == nil && zipTypes[kind] {
		o.zip = r.Body
		err := o.query(r.URL.Query())
		return o, err
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxOrder)
	if err := web.DecodeStrict(r, o); err != nil {
		return nil, err
	}
	sources := 0
	for _, has := range []bool{o.Docker != nil, o.Sample, o.Restage, o.Git != nil, o.Redeploy} {
		if has {
			sources++
		}
	}
	if sources != 1 {
		return nil, fault.Invalid("The request must have one of docker, git, sample, restage and redeploy, or be a zip file")
	}
	err = o.check()
	return o, err
}

func (o *order) query(q url.Values) (err error) {
	o.Name, o.RandomRoute = q.Get("name"), q.Get("random_route") == "true"
	number := func(name string) (n int) {
		text := q.Get(name)
		if text == "" || err != nil {
			return 0
		}
		if n, err = strconv.Atoi(text); err != nil {
			err = fault.Invalid(name + " must be a number")
		}
		return n
	}
	o.MemoryMB = number("memory_in_mb")
	if q.Get("instances") != "" {
		n := number("instances")
		o.Instances = &n
	}
	if err != nil {
		return err
	}
	return o.check()
}

func (o *order) check() error {
	switch {
	case o.MemoryMB < 0:
		return fault.Invalid("memory_in_mb must not be negative")
	case o.Instances != nil && *o.Instances < 0:
		return fault.Invalid("instances must not be negative")
	case o.Docker != nil && o.Docker.Image == "":
		return fault.Invalid("The image must be named")
	case o.Git != nil:
		return o.Git.source().Check()
	}
	return nil
}

// create is POST /v3/ingot/spaces/GUID/deploy: it creates an app and deploys it.
func (a *API) create(w http.ResponseWriter, r *http.Request) error {
	if _, err := rest.View(a.Server, r, rest.SpaceFor(platform.Develop)); err != nil {
		return err
	}
	o, err := read(w, r)
	if err != nil {
		return err
	}
	if o.Restage || o.Redeploy {
		return fault.Invalid("A new app has nothing to restage or to deploy again")
	}
	return a.run(w, r, &work{API: a, r: r, order: o, space: web.Param(r, "guid")})
}

// replace is POST /v3/ingot/apps/GUID/deploy: it deploys a new version of an app.
func (a *API) replace(w http.ResponseWriter, r *http.Request) error {
	app, err := rest.View(a.Server, r, func(req *rest.Request) (*platform.App, error) {
		return req.App(platform.Operate) // enough to restage
	})
	if err != nil {
		return err
	}
	o, err := read(w, r)
	if err != nil {
		return err
	}
	if o.Name != "" && o.Name != app.Name {
		return fault.Invalid("The app has the name " + app.Name)
	}
	o.Name = app.Name
	return a.run(w, r, &work{API: a, r: r, order: o, space: app.SpaceGUID, app: app.GUID})
}
