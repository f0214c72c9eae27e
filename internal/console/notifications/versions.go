package notifications

import (
	"cmp"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"ingot/internal/base/fault"
	"ingot/internal/base/web"
	"ingot/internal/console/page"
)

// templateVersion is a version of a template.
type templateVersion struct {
	Version   int64     `json:"version"`
	Current   bool      `json:"current"`
	Updated   time.Time `json:"updated_at"`
	ChangedBy string    `json:"changed_by"`
}

// difference is how two versions differ.
type difference struct {
	From, To int64
	Parts    []struct {
		Part, Locale string
		Lines        []string // begin with " ", "-" or "+"
	}
}

// versioned is a template whose versions are shown.
type versioned struct {
	ID, Name string
	// own is its id in requests about versions.
	own      string
	Versions []templateVersion // newest first
	MayWrite bool
}

// current returns the number of the version in use.
func (v *versioned) current() int64 {
	if len(v.Versions) == 0 {
		return 0
	}
	return v.Versions[0].Version
}

// path returns the path of a request about the versions.
func (v *versioned) path() string { return "/templates/" + url.PathEscape(v.own) }

// secondDefault is the id of the default template for campaigns in requests that are the same in both versions of
// the API.
const secondDefault = "default-v2"

// versionedID returns the id of a template in requests about its versions.
func versionedID(id string) string {
	own, second := ofCampaigns(id)
	if second && own == defaultTemplate {
		return secondDefault
	}
	return own
}

// versionsOf returns the template of a page with its versions.
func (c pages) versionsOf(r *http.Request, s *page.Session) (*versioned, error) {
	if err := need(s, scopeTemplatesRead); err != nil {
		return nil, err
	}
	v := &versioned{ID: web.Param(r, "template")}
	v.own = versionedID(v.ID)
	id, _ := ofCampaigns(v.ID)
	v.MayWrite = s.Has(scopeTemplatesWrite, scopeNotifyAdmin) && (id != defaultTemplate || s.Has(scopeNotifyAdmin))
	call := c.Notifications(r, s)
	var t mailTemplate
	if err := onTemplate(call, http.MethodGet, v.ID, nil, &t); err != nil {
		return nil, err
	}
	v.Name = cmp.Or(t.Name, v.ID)
	var answer struct{ Versions []templateVersion }
	err := call.Get(&answer, v.path()+"/versions", nil)
	v.Versions = answer.Versions
	return v, err
}

// compare returns how a version differs from another one.
func (v *versioned) compare(c *page.Caller, from, to string) (d difference, err error) {
	err = c.Get(&d, v.path()+"/versions/"+url.PathEscape(to)+"/difference", url.Values{"from": {from}})
	return d, err
}

type versionsData struct {
	*versioned
	// Difference is between the two that were chosen; nil if there is only one version.
	Difference        *difference
	Compare, Rollback string // commands
}

// versions is GET /console/notifications/templates/ID/versions: ?from= and ?to= are the versions to compare, by
// default the last two.
func (c pages) versions(w http.ResponseWriter, r *http.Request, s *page.Session) error {
	v, err := c.versionsOf(r, s)
	if err != nil {
		return err
	}
	d := &versionsData{versioned: v, Rollback: page.Command("ingot", "notifications", "versions", v.own, "--rollback",
		"VERSION")}
	from, to := r.URL.Query().Get("from"), r.URL.Query().Get("to")
	if from == "" || to == "" {
		to = strconv.FormatInt(v.current(), 10)
		if len(v.Versions) > 1 {
			from = strconv.FormatInt(v.Versions[1].Version, 10)
		}
	}
	d.Compare = page.Command("ingot", "notifications", "versions", v.own)
	if from != "" {
		found, err := v.compare(c.Notifications(r, s), from, to)
		if err != nil {
			return err
		}
		d.Difference = &found
		d.Compare = page.Command("ingot", "notifications", "versions", v.own, "--diff", to, "--from", from)
	}
	return c.showNotifications(w, r, s, http.StatusOK, "template-versions.html", "Templates", page.Page{
		Title: "Versions of " + v.Name, Crumbs: v.crumbs(), Data: d,
	})
}

// crumbs lead to the template.
func (v *versioned) crumbs() []page.Crumb {
	return []page.Crumb{{Name: v.Name, Link: notificationsPath + "/templates/" + url.PathEscape(v.ID)}}
}

type rollbackData struct {
	*versioned
	Version    string
	Now        int64 // the version in use
	Difference difference
	Command    string
}

// version is GET /console/notifications/templates/ID/versions/VERSION: what a rollback to it would change.
func (c pages) version(w http.ResponseWriter, r *http.Request, s *page.Session) error {
	return c.showRollback(w, r, s, http.StatusOK, web.Param(r, "version"), "")
}

func (c pages) showRollback(w http.ResponseWriter, r *http.Request, s *page.Session, status int, version,
	problem string) error {
	v, err := c.versionsOf(r, s)
	if err != nil {
		return err
	}
	d := &rollbackData{versioned: v, Version: version, Now: v.current(),
		Command: page.Command("ingot", "notifications", "versions", v.own, "--rollback", version)}
	d.Difference, err = v.compare(c.Notifications(r, s), strconv.FormatInt(d.Now, 10), version)
	if err != nil {
		return err
	}
	versions := page.Crumb{Name: "Versions", Link: v.crumbs()[0].Link + "/versions"}
	return c.showNotifications(w, r, s, status, "template-version.html", "Templates", page.Page{
		Title: "Version " + version + " of " + v.Name, Crumbs: append(v.crumbs(), versions), Data: d, Problem: problem,
	})
}

// rollBack is POST /console/notifications/templates/ID/rollback, with the fields version, and now for the version
// in use when the differences were shown.
func (c pages) rollBack(w http.ResponseWriter, r *http.Request, s *page.Session) error {
	err := c.restore(r, s)
	if status, text, ok := page.ProblemOf(err); ok {
		return c.showRollback(w, r, s, status, r.PostForm.Get("version"), text)
	}
	if err != nil {
		return err
	}
	return toNotifications(w, r, "/templates/"+url.PathEscape(web.Param(r, "template"))+"/versions", "rolled-back")
}

func (c pages) restore(r *http.Request, s *page.Session) error {
	v, err := c.versionsOf(r, s)
	if err != nil {
		return err
	}
	if r.PostForm.Get("now") != strconv.FormatInt(v.current(), 10) {
		return fault.New(fault.Conflict,
			"The template was changed meanwhile, and nothing was rolled back. These are the differences now.")
	}
	version, err := strconv.ParseInt(r.PostForm.Get("version"), 10, 64)
	if err != nil {
		return fault.New(fault.NotFound, "There is no version %.50q of the template.", r.PostForm.Get("version"))
	}
	return c.Notifications(r, s).Do(http.MethodPost, v.path()+"/rollback", map[string]int64{"version": version}, nil)
}
