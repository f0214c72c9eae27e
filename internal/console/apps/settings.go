package apps

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"ingot/internal/base/cfapi"
	"ingot/internal/base/fault"
	"ingot/internal/base/web"
	"ingot/internal/console/page"
)

// settingsData is what the page Settings of an app shows: its forms to rename and to delete it.
type settingsData struct {
	Name           string   // as typed
	Routes         []string // of this app alone, which may be deleted with it
	Rename, Delete string
	// Git is the repository that the app is deployed from, or nil; Typed is its form. Secret is a new one of its webhooks.
	Git    *gitSource
	Typed  deployForm
	Secret string
	Deploy string // the command that deploys from git
}

// settings is GET /console/apps/GUID/settings.
func (c *pages) settings(w http.ResponseWriter, r *http.Request, s *page.Session) error {
	return ShowTab(c.Console, w, r, s, "settings", loadSettings)
}

func loadSettings(r *http.Request, call *page.Caller, d *Data) (any, error) {
	if !d.MayShell { // a space developer, as for this
		return nil, fault.New(fault.Forbidden, "Only space developers may rename and delete apps.")
	}
	name := d.App.Name
	data := &settingsData{Name: name, Rename: page.Command("cf", "rename", name, "NEW-NAME"),
		Delete: page.Command("cf", "delete", name, "-r")}
	if typed, ok := r.PostForm["name"]; ok && len(typed) > 0 {
		data.Name = typed[0]
	}
	data.Deploy = page.Command("ingot", "deploy-git", name, "URL")
	var routes []cfapi.Route
	err := page.Together(
		func() (err error) { routes, err = ownRoutes(call, d.App.GUID); return err },
		func() (err error) { data.Git, err = loadGitSource(call, d.App.GUID); return err },
	)
	if data.Git != nil {
		data.Typed = data.Git.form("")
	}
	if r.PostForm.Has("url") {
		data.Typed = typed(r.PostForm)
	}
	for _, one := range routes {
		data.Routes = append(data.Routes, one.URL)
	}
	return data, err
}

// ownRoutes returns the routes that have no destination but the app.
func ownRoutes(call *page.Caller, app string) ([]cfapi.Route, error) {
	routes, err := page.All[cfapi.Route](call, "/v3/apps/"+url.PathEscape(app)+"/routes", nil)
	return slices.DeleteFunc(routes, func(r cfapi.Route) bool {
		return slices.ContainsFunc(r.Destinations, func(d cfapi.Destination) bool { return d.App.GUID != app })
	}), err
}

// renameApp is POST /console/apps/GUID/settings/rename, with the field name.
func (c *pages) renameApp(w http.ResponseWriter, r *http.Request, s *page.Session) error {
	body := map[string]string{"name": strings.TrimSpace(r.PostForm.Get("name"))}
	guid := web.Param(r, "guid")
	if err := c.Platform(r, s).Do(http.MethodPatch, "/v3/apps/"+url.PathEscape(guid), body, nil); err != nil {
		return c.settingsFailed(w, r, s, err)
	}
	return backTo(w, r, guid, "settings", "renamed")
}

// deleteApp is POST /console/apps/GUID/settings/delete, with the app's name as confirm, and routes if those
// of this app alone are deleted too.
func (c *pages) deleteApp(w http.ResponseWriter, r *http.Request, s *page.Session) error {
	call, guid := c.Platform(r, s), web.Param(r, "guid")
	app, err := loadName(call, guid)
	if err != nil {
		return err
	}
	if err := page.Confirmed(r, app.App.Name); err != nil {
		return c.settingsFailed(w, r, s, err)
	}
	var routes []cfapi.Route
	if r.PostForm.Get("routes") != "" {
		if routes, err = ownRoutes(call, guid); err != nil {
			return err
		}
	}
	if err := call.Do(http.MethodDelete, "/v3/apps/"+url.PathEscape(guid), nil, nil); err != nil {
		return c.settingsFailed(w, r, s, err)
	}
	for _, one := range routes {
		if err := call.Do(http.MethodDelete, "/v3/routes/"+url.PathEscape(one.GUID), nil, nil); err != nil &&
			!page.Gone(err) {
			return err
		}
	}
	return page.GoTo(w, r, "/apps", "deleted")
}

// settingsFailed shows the page again, with a problem and what was typed.
func (c *pages) settingsFailed(w http.ResponseWriter, r *http.Request, s *page.Session, err error) error {
	status, text, ok := page.ProblemOf(err)
	if !ok {
		return err
	}
	return showTab(c.Console, w, r, s, "settings", loadSettings, status, text)
}
