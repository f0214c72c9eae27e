package gitpush

import (
	"context"
	"net/http"
	"strings"
	"time"

	"ingot/internal/base/fault"
	"ingot/internal/base/version"
	"ingot/internal/base/web"
	"ingot/internal/platform"
	"ingot/internal/platform/api/rest"
	"ingot/internal/platform/api/source"
	"ingot/internal/platform/logs"
)

// API serves git repositories.
type API struct {
	*rest.Server
	Source       *source.API
	Repositories Repositories
	// Logs has the lines of builds and apps.
	Logs interface {
		Tail(app string, from logs.Start) (logs.Tail, error)
	}
	Scratch string // the directory for temporary files
	// MaxUpload limits the bytes of a push: what git sends, unpacked, and the app's package.
	MaxUpload int64
	// Claim reserves a name on all servers until release, or until this server is dead; ok is
	// false while another server has it. Nil means that there is no other server.
	Claim func(ctx context.Context, name string) (release func(), ok bool, err error)

	slots slots
}

const (
	receivePack = "git-receive-pack"
	uploadPack  = "git-upload-pack"
	// root is where the repository of an app is.
	root = "/git/{org}/{space}/{app}"
)

// Routes registers the routes with their authorization decisions: a token of a user, also as
// a password. The handlers require the role of a space developer.
func (a *API) Routes(g *web.Group) {
	write, read := rest.Write.OrPassword(), rest.Read.OrPassword()
	// More than is accepted is read, because git shows the answer only after it has sent all.
	pushes := web.Limits{Body: 4 * a.MaxUpload, Read: time.Hour}
	fetches := web.Limits{Body: maxHaves, Read: time.Minute, Write: time.Hour}
	g.Handle(http.MethodGet, root+"/info/refs", read, a.infoRefs)
	g.Within(pushes).Storing().Handle(http.MethodPost, root+"/"+receivePack, write, a.receive)
	g.Within(fetches).Handle(http.MethodPost, root+"/"+uploadPack, read, a.upload)
}

// target is what a URL names.
type target struct {
	org   *platform.Organization
	space *platform.Space
	app   *platform.App // nil if it does not exist
	name  string        // of the app
}

// find returns what the URL names, if the caller may perform the action there. What the caller
// cannot see does not exist.
func (a *API) find(r *http.Request, action platform.Action) (*target, error) {
	return rest.View(a.Server, r, func(req *rest.Request) (*target, error) { return findIn(req, action) })
}

func findIn(req *rest.Request, action platform.Action) (*target, error) {
	t := &target{name: strings.TrimSuffix(web.Param(req.HTTP, "app"), ".git")}
	q := platform.Where("name", web.Param(req.HTTP, "org"))
	q.Reader = req.Caller.Reader()
	var err error
	if t.org, err = req.Tx.Organizations().First(q); err != nil {
		return nil, missing(err)
	}
	q = platform.Where("organization_guid", t.org.GUID).And(platform.In("name", web.Param(req.HTTP, "space")))
	q.Reader = req.Caller.Reader()
	if t.space, err = req.Tx.Spaces().First(q); err != nil {
		return nil, missing(err)
	}
	if _, err := req.Caller.MayInSpace(req.Tx, t.space.GUID, action); err != nil {
		return nil, err
	}
	t.app, err = req.Tx.Apps().First(platform.Where("space_guid", t.space.GUID).And(platform.In("name", t.name)))
	if fault.Is(err, fault.NotFound) {
		t.app, err = nil, nil
	}
	return t, err
}

func missing(err error) error {
	if fault.Is(err, fault.NotFound) {
		return fault.Wrap(err, fault.NotFound, "The organization or space does not exist, or you have no access to it. The "+
			"URL of an app is /git/ORG/SPACE/APP.")
	}
	return err
}

// infoRefs says what the server has.
func (a *API) infoRefs(w http.ResponseWriter, r *http.Request) error {
	service := r.URL.Query().Get("service")
	var out []byte
	switch service {
	case receivePack:
		t, err := a.mayPush(r)
		if err != nil {
			return err
		}
		s, err := a.repository(r.Context(), t.guid())
		if err != nil {
			return err
		}
		s.Close()
		var refs []string
		if s.current(t.app) {
			refs = []string{s.commit.String() + " " + s.ref}
		}
		out = advertise(refs, "report-status side-band-64k delete-refs ofs-delta")
	case uploadPack:
		s, err := a.fetchable(r)
		if err != nil {
			return err
		}
		s.Close()
		var refs []string
		more := ""
		if !s.commit.IsZero() && !s.partial {
			refs = []string{s.commit.String() + " HEAD", s.commit.String() + " " + s.ref}
			more = " symref=HEAD:" + s.ref
		}
		out = advertise(refs, "side-band-64k ofs-delta no-progress"+more)
	default:
		return fault.New(fault.BadRequest, "This is a git repository: use it with git clone or git push")
	}
	w.Header().Set("Content-Type", "application/x-"+service+"-advertisement")
	w.Header().Set("Cache-Control", "no-cache")
	_, _ = w.Write(append(append(appendLine(nil, "# service="+service+"\n"), flushLine...), out...))
	return nil
}

// advertise lists references; the first line also has the capabilities.
func advertise(refs []string, capabilities string) (out []byte) {
	if len(refs) == 0 {
		refs = []string{strings.Repeat("0", 40) + " capabilities^{}"}
	}
	refs[0] += "\x00" + capabilities + " object-format=sha1 agent=ingot/" + version.Version
	for _, ref := range refs {
		out = appendLine(out, ref+"\n")
	}
	return append(out, flushLine...)
}

func (t *target) guid() string {
	if t.app == nil {
		return ""
	}
	return t.app.GUID
}

// current reports whether what is kept is what the app runs: it is not if the app was deployed in
// another way since, or there is no pack. Then git has to send everything.
func (s *stored) current(app *platform.App) bool {
	return app != nil && !s.commit.IsZero() && !s.partial && s.droplet == app.DropletGUID
}

// mayPush returns what a push would change, if the caller may do that.
func (a *API) mayPush(r *http.Request) (*target, error) {
	return rest.View(a.Server, r, func(req *rest.Request) (*target, error) {
		t, err := findIn(req, platform.Develop)
		if err != nil {
			return nil, err
		}
		if err := platform.CheckAppName(t.name); err != nil {
			return nil, err
		}
		return t, req.NeedFlag("app_bits_upload")
	})
}

// fetchable returns the repository of the URL for a reader of its source.
func (a *API) fetchable(r *http.Request) (*stored, error) {
	t, err := a.find(r, platform.ReadSecrets)
	if err != nil {
		return nil, err
	}
	if t.app == nil {
		return nil, fault.New(fault.NotFound, "The app does not exist, or you have no access to it. The URL of an app is "+
			"/git/ORG/SPACE/APP.")
	}
	return a.repository(r.Context(), t.app.GUID)
}
