package access

import (
	"net/http"
	"net/url"
	"strings"

	"ingot/internal/base/cfapi"
	"ingot/internal/base/fault"
	"ingot/internal/base/web"
	"ingot/internal/console/page"
)

// createPlace is POST /console/orgs/create, with the fields org and space: it creates a space, and its organization
// unless that exists.
func (c pages) createPlace(w http.ResponseWriter, r *http.Request, s *page.Session) error {
	space, err := c.newPlace(c.Platform(r, s), r.PostForm)
	if err != nil {
		status, text, ok := page.ProblemOf(err)
		if !ok {
			return err
		}
		data, err := c.loadMembers(r, s)
		if err != nil {
			return err
		}
		data.Place.Typed = r.PostForm
		return c.Show(w, r, s, status, "members.html", page.Page{Title: "Members", Section: "members", Problem: text,
			Data: data})
	}
	q := url.Values{"space": {space}, "said": {"place"}}
	http.Redirect(w, r, page.Path+"/apps/new?"+q.Encode(), http.StatusSeeOther)
	return nil
}

func (c pages) newPlace(call *page.Caller, form url.Values) (space string, err error) {
	org, name := strings.TrimSpace(form.Get("org")), strings.TrimSpace(form.Get("space"))
	if org == "" || name == "" {
		return "", fault.New(fault.Unprocessable, "Type a name for the organization and one for the space.")
	}
	// The organization exists if the name of the space was refused before.
	found, err := page.All[cfapi.Thing](call, "/v3/organizations", url.Values{"names": {org}, "per_page": {"1"}})
	if err != nil {
		return "", err
	}
	if len(found) == 0 {
		var created cfapi.Thing
		if err := call.Do(http.MethodPost, "/v3/organizations", map[string]string{"name": org}, &created); err != nil {
			return "", err
		}
		found = append(found, created)
	}
	return newSpace(call, found[0].GUID, name)
}

// createSpace is POST /console/orgs/GUID/spaces/create, with the field name.
func (c pages) createSpace(w http.ResponseWriter, r *http.Request, s *page.Session) error {
	name := strings.TrimSpace(r.PostForm.Get("name"))
	if name == "" {
		return c.orgFailed(w, r, s, fault.New(fault.Unprocessable, "Type a name for the space."))
	}
	space, err := newSpace(c.Platform(r, s), web.Param(r, "guid"), name)
	if err != nil {
		return c.orgFailed(w, r, s, err)
	}
	r.PostForm.Set("space", space)
	return backToOrg(w, r, "space")
}

// newSpace creates a space. As with cf create-space, its creator becomes a manager and a developer of it; an
// administrator may do everything there anyway.
func newSpace(call *page.Caller, org, name string) (guid string, err error) {
	var created cfapi.Thing
	err = call.Do(http.MethodPost, "/v3/spaces", map[string]any{"name": name,
		"relationships": map[string]any{"organization": cfapi.Relate(org)}}, &created)
	if err != nil || call.Session.Admin() {
		return created.GUID, err
	}
	for _, kind := range []string{roleSpaceManager, roleSpaceDeveloper} {
		err := call.Do(http.MethodPost, "/v3/roles",
			roleBody(kind, "", created.GUID, map[string]any{"guid": call.Session.UserID}), nil)
		if err != nil {
			return created.GUID, err
		}
	}
	return created.GUID, nil
}
