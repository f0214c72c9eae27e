package apps

import (
	"net/http"
	"net/url"

	"ingot/internal/base/cfapi"
	"ingot/internal/base/fault"
	"ingot/internal/base/web"
	"ingot/internal/console/page"
)

// gitSource is the git repository that an app is deployed from.
type gitSource struct {
	cfapi.GitSource
	Short string `json:"-"` // the beginning of the commit
}

func orEmpty(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// form returns the form to deploy from the repository.
func (g *gitSource) form(command string) deployForm {
	return deployForm{URL: g.URL, Branch: orEmpty(g.Branch), Folder: orEmpty(g.Folder), Username: orEmpty(g.Username),
		Command: command}
}

func gitSourcePath(app string) string { return "/v3/ingot/apps/" + url.PathEscape(app) + "/git-source" }

// loadGitSource returns the repository of an app, or nil.
func loadGitSource(call *page.Caller, app string) (*gitSource, error) {
	src := &gitSource{}
	err := call.Get(src, gitSourcePath(app), nil)
	if page.Gone(err) {
		return nil, nil
	}
	commit := orEmpty(src.Commit)
	src.Short = commit[:min(7, len(commit))]
	return src, err
}

// gitBody returns the repository of a form, as the API takes it. An empty password keeps the stored one.
func gitBody(f url.Values) (map[string]string, error) {
	form := typed(f)
	if form.URL == "" {
		return nil, fault.New(fault.Unprocessable, "Type the address of a git repository, such as "+
			"https://git.example.com/team/shop.git.")
	}
	body := map[string]string{"url": form.URL, "branch": form.Branch, "folder": form.Folder, "username": form.Username}
	if password := f.Get("password"); password != "" {
		body["password"] = password
	}
	return body, nil
}

// deployGit is POST /console/apps/new/git and /console/apps/GUID/deploy/git: the newest commit of a git repository.
func (c *pages) deployGit(w http.ResponseWriter, r *http.Request, s *page.Session) error {
	out, err := c.sendGit(r, s)
	if err != nil {
		return c.failedDeploy(w, r, s, err, func(d *newData) *deployForm { return &d.Git })
	}
	return out.follow(w, r)
}

func (c *pages) sendGit(r *http.Request, s *page.Session) (out begun, err error) {
	path, err := deployPath(r)
	if err != nil {
		return out, err
	}
	form := typed(r.PostForm)
	sizes, err := form.sizes()
	if err != nil {
		return out, err
	}
	git, err := gitBody(r.PostForm)
	if err != nil {
		return out, err
	}
	body := map[string]any{"name": form.Name, "random_route": form.Random, "git": git}
	for name, n := range sizes {
		body[name] = n
	}
	err = c.Platform(r, s).Do(http.MethodPost, path, body, &out)
	return out, err
}

// setGit is POST /console/apps/GUID/settings/git: it changes the repository without a deployment.
func (c *pages) setGit(w http.ResponseWriter, r *http.Request, s *page.Session) error {
	guid := web.Param(r, "guid")
	body, err := gitBody(r.PostForm)
	if err == nil {
		err = c.Platform(r, s).Do(http.MethodPut, gitSourcePath(guid), body, nil)
	}
	if err != nil {
		return c.settingsFailed(w, r, s, err)
	}
	return backTo(w, r, guid, "settings", "git")
}

// removeGit is POST /console/apps/GUID/settings/git/remove.
func (c *pages) removeGit(w http.ResponseWriter, r *http.Request, s *page.Session) error {
	guid := web.Param(r, "guid")
	if err := c.Platform(r, s).Do(http.MethodDelete, gitSourcePath(guid), nil, nil); err != nil && !page.Gone(err) {
		return c.settingsFailed(w, r, s, err)
	}
	return backTo(w, r, guid, "settings", "git-removed")
}

// rotateGit is POST /console/apps/GUID/settings/git/secret. Its answer is the only page with the secret.
func (c *pages) rotateGit(w http.ResponseWriter, r *http.Request, s *page.Session) error {
	src := &gitSource{}
	err := c.Platform(r, s).Do(http.MethodPost, gitSourcePath(web.Param(r, "guid"))+"/secret", nil, src)
	if err != nil {
		return c.settingsFailed(w, r, s, err)
	}
	w.Header().Set("Cache-Control", "no-store")
	return showTab(c.Console, w, r, s, "settings", func(r *http.Request, call *page.Caller, d *Data) (any, error) {
		data, err := loadSettings(r, call, d)
		if shown, ok := data.(*settingsData); ok && shown != nil {
			shown.Secret = src.Webhook.Secret
		}
		return data, err
	}, http.StatusOK, "")
}

// redeployGit is POST /console/apps/GUID/deploy/again: the newest commit of the stored repository.
func (c *pages) redeployGit(w http.ResponseWriter, r *http.Request, s *page.Session) error {
	var out begun
	err := c.Platform(r, s).Do(http.MethodPost, "/v3/ingot/apps/"+url.PathEscape(web.Param(r, "guid"))+"/deploy",
		map[string]bool{"redeploy": true}, &out)
	if err != nil {
		return c.failedDeploy(w, r, s, err, func(*newData) *deployForm { return &deployForm{} })
	}
	return out.follow(w, r)
}

// gitChanges are the forms about git repositories.
func (c *pages) gitChanges() map[string]page.Handler {
	return map[string]page.Handler{
		"/apps/new/git":                    c.deployGit,
		"/apps/{guid}/deploy/git":          c.deployGit,
		"/apps/{guid}/deploy/again":        c.redeployGit,
		"/apps/{guid}/settings/git":        c.setGit,
		"/apps/{guid}/settings/git/remove": c.removeGit,
		"/apps/{guid}/settings/git/secret": c.rotateGit,
	}
}
