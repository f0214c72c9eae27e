package access

import (
	"embed"
	"html/template"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"ingot/internal/base/cfapi"
	"ingot/internal/console/page"
)

//go:embed pages/*.html
var files embed.FS

// Files are the templates of organizations, users and clients.
var Files = page.Files{FS: files, Functions: template.FuncMap{
	"email": authUser.email, "lastLogin": authUser.login, "clientLink": oauthClient.link,
}}

// pages serves the pages of organizations, users and clients.
type pages struct{ *page.Console }

// New returns the pages of organizations and their members, and of the authorization server's
// users and clients.
func New(core *page.Console) page.Part {
	c, auth := pages{core}, page.API(core.Auth)
	return page.Part{
		Pages: map[string]page.Handler{
			"/orgs/{guid}": c.org, "/users": c.users, "/users/{id}": c.user,
			"/clients/new": c.newClient, "/clients/{id}": c.client,
		},
		Screens: map[string]page.Screen{
			"/members": {Title: "Members", Section: "members", Template: "members.html", Load: c.members},
			"/clients": {Title: "Clients", Section: "clients", Template: "clients.html", Load: c.clients},
		},
		Changes: map[string]page.Handler{
			"/orgs/create":                c.createPlace,
			"/orgs/{guid}/spaces/create":  c.createSpace,
			"/orgs/{guid}/roles/add":      c.addRole,
			"/orgs/{guid}/roles/remove":   c.removeRole,
			"/orgs/{guid}/members/invite": c.invite,
			"/orgs/{guid}/members/remove": c.removeMember,
			"/users/create":               c.newUser,
			"/users/{id}/active":          c.setActive,
			"/users/{id}/unlock": auth.Edit(page.Edit{
				Method: http.MethodPatch, Path: "/Users/{id}/status",
				Body: func(url.Values) (any, error) { return map[string]bool{"locked": false}, nil },
				To:   "/users/{id}", Said: "unlocked", Failed: c.userFailed,
			}),
			"/users/{id}/password":   c.resetPassword,
			"/users/{id}/groups/add": c.addToGroup,
			"/users/{id}/groups/remove": auth.Edit(page.Edit{
				Method: http.MethodDelete, Path: "/Groups/{group}/members/{id}",
				To: "/users/{id}", Said: "group", Failed: c.userFailed,
			}),
			"/clients/new":         c.createClient,
			"/clients/{id}/update": c.updateClient,
			"/clients/{id}/secret": c.rotateSecret,
			"/clients/{id}/delete": c.deleteClient,
		},
		Said: map[string]string{
			"role": "The role was assigned.", "norole": "The role was removed.",
			"place":   "The organization and the space were created. Now create an app there.",
			"space":   "The space was created. Its developers are users with that role.",
			"removed": "The user was removed from the organization.",
			"client":  "The client was changed.", "noclient": "The client was deleted. Its tokens do not work any more.",
			"activated": "The user can log in.", "deactivated": "The user cannot log in, and all sessions have ended.",
			"unlocked": "The user was unlocked.",
			"group":    "The groups were changed. They take effect at the user's next login.",
		},
	}
}

// secretData is a secret that is shown once.
type secretData struct {
	Title, Label, Value, Note, Command string
	Back                               page.Crumb
}

// showSecret shows a secret as the response to a form, so that no address leads to it.
func (c pages) showSecret(w http.ResponseWriter, r *http.Request, s *page.Session, section string,
	data secretData) error {
	return c.Show(w, r, s, http.StatusOK, "secret.html", page.Page{Title: data.Title, Section: section, Data: data,
		Crumbs: []page.Crumb{data.Back}})
}

// scimPage returns the page of a list of the authorization server that a request asks for.
func scimPage[T any](call *page.Caller, r *http.Request, path, filter, sort, noun string) ([]T, page.Pager, error) {
	n, _ := strconv.Atoi(r.URL.Query().Get("page"))
	q := url.Values{"startIndex": {strconv.Itoa((max(1, n)-1)*page.PerPage + 1)}, "count": {strconv.Itoa(page.PerPage)},
		"sortBy": {sort}}
	if filter != "" {
		q.Set("filter", filter)
	}
	var l cfapi.SCIMList[T]
	err := call.Get(&l, path, q)
	return l.Resources, page.NewPager(r, l.Total, page.PerPage, noun), err
}

// scimText returns a text for a filter. No name contains the characters that it leaves out.
func scimText(text string) string {
	return `"` + strings.NewReplacer(`"`, "", `\`, "").Replace(text) + `"`
}
