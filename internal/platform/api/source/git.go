package source

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"

	"ingot/internal/base/fault"
	"ingot/internal/base/token"
	"ingot/internal/platform"
	"ingot/internal/platform/actions"
	"ingot/internal/platform/api/rest"
	"ingot/internal/platform/services"
	"ingot/internal/platform/storage/gitpack"
)

// gitOrder is the git repository of an app, in requests.
type gitOrder struct {
	URL      string `json:"url"`
	Branch   string `json:"branch"`
	Folder   string `json:"folder"`
	Username string `json:"username"`
	// Password is a password or an access token; without one the stored one is kept for the same repository and user.
	Password *string `json:"password"`
}

func (g *gitOrder) source() *platform.GitSource {
	src := &platform.GitSource{URL: g.URL, Branch: g.Branch, Folder: g.Folder, Username: g.Username}
	if g.Password != nil {
		src.Password = *g.Password
	}
	return src
}

// checked returns the source, completed with what is kept of the old one.
func (g *gitOrder) checked(old *platform.GitSource) (*platform.GitSource, error) {
	src := g.source()
	if err := src.Check(); err != nil {
		return nil, err
	}
	actions.MergeGitSource(old, src, g.Password == nil)
	return src, nil
}

// Limits of fetches at the same time: each has a list of objects in memory. An organization gets its second one only
// if fewer than half of them are in progress, so that a few with slow git servers do not hold them all.
const (
	fetchesOfAll = 6
	fetchesOfOrg = 2
	freeForAll   = fetchesOfAll / 2
)

// fetches counts the fetches in progress.
type fetches struct {
	mu   sync.Mutex
	all  int
	orgs map[string]int
}

func (f *fetches) enter(org string) (leave func(), err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if own := f.orgs[org]; f.all >= fetchesOfAll || own >= fetchesOfOrg || own > 0 && f.all >= freeForAll {
		return nil, busy(f.all, own)
	}
	if f.orgs == nil {
		f.orgs = map[string]int{}
	}
	f.all++
	f.orgs[org]++
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.all--
		if f.orgs[org]--; f.orgs[org] == 0 {
			delete(f.orgs, org)
		}
	}, nil
}

// busy says how many fetches are in progress, and what has to end before another one of the organization can begin.
func busy(all, own int) error {
	until := "its fetch is done or fewer than " + strconv.Itoa(freeForAll) + " are in progress"
	switch {
	case own == 0:
		return fault.New(fault.RateLimited, "%d of at most %d git repositories are being fetched at the moment: try again "+
			"when one is done", all, fetchesOfAll)
	case own >= fetchesOfOrg && all <= freeForAll:
		until = "one of its fetches is done"
	case own >= fetchesOfOrg:
		until = "its fetches are done"
	}
	return fault.New(fault.RateLimited, "%d of at most %d git repositories are being fetched at the moment, %d for the "+
		"organization: try again when %s", all, fetchesOfAll, own, until)
}

// fetched returns the package of the newest commit of the source, after its manifest was applied. It is nil if that is
// the known commit.
func (d *work) fetched(known string) (*platform.Package, []string, error) {
	var org string
	_, err := rest.View(d.Server, d.r, func(req *rest.Request) (*platform.Space, error) {
		space, err := d.target(req)
		if err != nil {
			return nil, err
		}
		org = space.OrgGUID
		return space, d.stored(req)
	})
	if err != nil {
		return nil, nil, err
	}
	leave, err := d.fetches.enter(org)
	if err != nil {
		return nil, nil, err
	}
	defer leave()
	got, err := d.Git.Fetch(d.r.Context(), d.git, known)
	if err != nil || got == nil {
		return nil, nil, err
	}
	defer got.Objects.Close()
	snapshot, err := got.Objects.Snapshot(got.Commit)
	if err != nil {
		return nil, nil, err
	}
	d.git.Commit, d.git.Subject = got.Commit.String(), oneLine(snapshot.Subject)
	d.git.Deployed, d.git.Error = d.Platform.Now(), ""
	return d.commit(snapshot)
}

// stored sets the source of the files.
func (d *work) stored(req *rest.Request) error {
	old, err := actions.GitSourceOf(req.Tx, d.app)
	if err != nil {
		return err
	}
	if d.order.Git != nil {
		d.git, err = d.order.Git.checked(old)
		return err
	}
	if old == nil {
		return noSource()
	}
	d.git = old
	return nil
}

// noSource is the error for an app without a source.
func noSource() error {
	return fault.New(fault.Unprocessable, "The app has no git repository: deploy it from one first")
}

const longestSubject = 120

func oneLine(text string) string {
	text = strings.ToValidUTF8(strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 {
			return ' '
		}
		return r
	}, text), "")
	if len(text) > longestSubject {
		text = strings.ToValidUTF8(text[:longestSubject], "") + "…"
	}
	return strings.TrimSpace(text)
}

// commit makes a package of the files of a commit.
func (d *work) commit(s *gitpack.Snapshot) (*platform.Package, []string, error) {
	folder, size, found := d.git.Folder, int64(0), d.git.Folder == ""
	for _, f := range s.Files {
		found = found || f.Path == folder && f.Mode.IsDir()
		if folder == "" || strings.HasPrefix(f.Path, folder+"/") {
			size += f.Size
		}
	}
	if !found {
		return nil, nil, fault.New(fault.Unprocessable, "The commit %.7s has no folder %s", d.git.Commit, folder)
	}
	if size > d.MaxUpload { // also files that the commit has many times
		return nil, nil, fault.New(fault.TooLarge, "The files of the commit %.7s are larger than the limit of %d MB",
			d.git.Commit, d.MaxUpload>>20)
	}
	file, err := temp(d.Scratch)
	if err != nil {
		return nil, nil, err
	}
	defer file.Close()
	n, err := s.Zip(gitpack.Bounded(file, 2*d.MaxUpload, d.MaxUpload), folder, func(gitpack.File) bool { return true })
	if err != nil {
		return nil, nil, err
	}
	if n == 0 {
		return nil, nil, fault.New(fault.Unprocessable, "The commit %.7s has no files to deploy", d.git.Commit)
	}
	info, err := file.Stat()
	if err != nil {
		return nil, nil, err
	}
	return d.zip(file, info.Size())
}

// Redeploy fetches the newest commit of an app's source for a webhook, as the user who set the source, and stores its
// package. It returns nil if this commit is deployed already.
func (a *API) Redeploy(ctx context.Context, by actions.Actor, guid string) (services.Begin, error) {
	r := requestOf(ctx, by)
	var known string
	app, err := rest.View(a.Server, r, func(req *rest.Request) (*platform.App, error) {
		app, err := req.AppNamed(guid, platform.Develop)
		if fault.Is(err, fault.NotFound) || fault.Is(err, fault.Forbidden) {
			err = fault.Wrap(err, fault.Unprocessable, "%s, who set the git repository, is not a developer of the space: "+
				"another developer has to set it again", by.Name)
		}
		if err != nil {
			return nil, err
		}
		src, err := actions.GitSourceOf(req.Tx, guid)
		if err != nil {
			return nil, err
		}
		if src == nil {
			return nil, noSource()
		}
		known = src.Commit
		return app, nil
	})
	if err != nil {
		return nil, err
	}
	d := &work{API: a, r: r, order: &order{Name: app.Name, Redeploy: true}, space: app.SpaceGUID, app: app.GUID}
	if err := d.allowed(); err != nil {
		return nil, err
	}
	pkg, warnings, err := d.fetched(known)
	if err != nil || pkg == nil {
		return nil, err
	}
	return func(tx platform.Tx) (*platform.Build, []string, error) {
		req := rest.NewRequest(tx, r)
		app, err := req.AppNamed(guid, platform.Develop)
		if err != nil {
			return nil, nil, err
		}
		build, err := a.Build(req, app, pkg)
		if err != nil {
			return nil, nil, err
		}
		return build, warnings, a.Platform.GitDeployed(tx, d.git)
	}, nil
}

// requestOf returns a request of a user who has only the roles in spaces and organizations, whatever their token had.
func requestOf(ctx context.Context, by actions.Actor) *http.Request {
	claims := &token.Claims{Scope: []string{platform.ScopeRead, platform.ScopeWrite}}
	if by.Type == "client" {
		claims.ClientID = by.GUID
	} else {
		claims.UserID, claims.UserName = by.GUID, by.Name
	}
	r := &http.Request{Method: http.MethodPost, URL: &url.URL{}, Header: http.Header{}, Host: "localhost"}
	return r.WithContext(token.NewContext(ctx, claims))
}
