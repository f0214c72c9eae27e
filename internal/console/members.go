package console

import (
	"cmp"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"ingot/internal/base/fault"
	"ingot/internal/base/web"
)

// memberRoutes adds the pages of organizations and their members.
func (c *Console) memberRoutes(g area) {
	g.pages(c, map[string]handler{"/members": c.members, "/orgs/{guid}": c.org})
	g.changes(c, map[string]handler{
		"/orgs/{guid}/roles/add":      c.addRole,
		"/orgs/{guid}/roles/remove":   c.removeRole,
		"/orgs/{guid}/members/invite": c.invite,
		"/orgs/{guid}/members/remove": c.removeMember,
	})
}

// roleKind is a role that users can have.
type roleKind struct{ Type, Label, CF string }

var (
	orgRoles = []roleKind{
		{roleOrgUser, "Member", "OrgUser"}, {roleOrgManager, "Manager", "OrgManager"}, {"organization_auditor", "Auditor", "OrgAuditor"},
		{"organization_billing_manager", "Billing", "BillingManager"},
	}
	spaceRoles = []roleKind{
		{"space_developer", "Developer", "SpaceDeveloper"}, {roleSpaceManager, "Manager", "SpaceManager"}, {"space_auditor", "Auditor", "SpaceAuditor"},
		{"space_supporter", "Supporter", "SpaceSupporter"},
	}
)

const (
	roleOrgUser      = "organization_user"
	roleOrgManager   = "organization_manager"
	roleSpaceManager = "space_manager"
)

type orgSummary struct {
	organization
	Spaces []space
}

// members is GET /console/members: the organizations.
func (c *Console) members(w http.ResponseWriter, r *http.Request, s *Session) error {
	call := c.platform(r, s)
	var orgs []organization
	var spaces []space
	err := together(
		func() (err error) {
			orgs, err = all[organization](call, "/v3/organizations", url.Values{"order_by": {"name"}})
			return err
		},
		func() (err error) {
			spaces, err = all[space](call, "/v3/spaces", url.Values{"order_by": {"name"}})
			return err
		},
	)
	if err != nil {
		return err
	}
	var list []orgSummary
	for _, org := range orgs {
		one := orgSummary{organization: org}
		for _, in := range spaces {
			if in.Relationships.Organization.Data.GUID == org.GUID {
				one.Spaces = append(one.Spaces, in)
			}
		}
		list = append(list, one)
	}
	return c.show(w, r, s, http.StatusOK, "members.html", page{
		Title: "Members", Section: "members", Data: map[string]any{"Orgs": list, "Command": command("cf", "orgs")},
	})
}

type platformUser struct {
	GUID string `json:"guid"`
	Name string `json:"presentation_name"`
}

type cell struct {
	Role    string // guid, if the user has it
	Type    string
	Label   string
	Command string
}

type memberRow struct {
	platformUser
	Cells  []cell
	Others []string // roles in spaces
}

type orgData struct {
	Org       organization
	Space     string // guid; empty means the roles of the organization
	SpaceName string
	Tabs      []tab
	Kinds     []roleKind
	Rows      []memberRow
	Query     string
	Pager     pager
	Quotas    []quotaCard
	May       bool // change these roles
	MayOrg    bool // change those of the organization
	MayCreate bool // users
	Typed     url.Values
	Commands  struct{ Set, Unset, Users, Create string }
	// roles of all users, and those of spaces
	roles  []memberRole
	spaces []space
}

type memberRole struct {
	GUID          string `json:"guid"`
	Type          string `json:"type"`
	Relationships struct {
		User         relation `json:"user"`
		Space        relation `json:"space"`
		Organization relation `json:"organization"`
	} `json:"relationships"`
}

func (m memberRole) user() string  { return m.Relationships.User.Data.GUID }
func (m memberRole) space() string { return m.Relationships.Space.Data.GUID }

// org is GET /console/orgs/GUID: a matrix of members and roles; ?space= guid shows the roles of
// a space, ?q= part of a user name.
func (c *Console) org(w http.ResponseWriter, r *http.Request, s *Session) error {
	data, err := c.loadOrg(r, s, r.URL.Query().Get("space"))
	if err != nil {
		return err
	}
	return c.showOrg(w, r, s, http.StatusOK, "", data)
}

func (c *Console) showOrg(w http.ResponseWriter, r *http.Request, s *Session, status int, problem string, data *orgData) error {
	return c.show(w, r, s, status, "org.html", page{
		Title: data.Org.Name, Section: "members", Data: data, Problem: problem, Crumbs: []crumb{{"Members", Path + "/members"}},
	})
}

// orgFailed shows the page of an organization again, with a problem and what was typed.
func (c *Console) orgFailed(w http.ResponseWriter, r *http.Request, s *Session, err error) error {
	status, text, ok := problemOf(err)
	if !ok {
		return err
	}
	data, loading := c.loadOrg(r, s, r.PostForm.Get("space"))
	if loading != nil {
		return loading
	}
	data.Typed = r.PostForm
	return c.showOrg(w, r, s, status, text, data)
}

// backToOrg sends the browser back to the matrix it came from.
func backToOrg(w http.ResponseWriter, r *http.Request, said string) error {
	q := url.Values{"said": {said}}
	for _, key := range []string{"space", "q", "page"} {
		if v := r.PostForm.Get(key); v != "" {
			q.Set(key, v)
		}
	}
	http.Redirect(w, r, Path+"/orgs/"+url.PathEscape(web.Param(r, "guid"))+"?"+q.Encode(), http.StatusSeeOther) //nolint:gosec // a path of the console
	return nil
}

func (c *Console) loadOrg(r *http.Request, s *Session, space string) (*orgData, error) {
	call, guid := c.platform(r, s), web.Param(r, "guid")
	d := &orgData{Space: space, Kinds: orgRoles, Query: strings.TrimSpace(r.URL.Query().Get("q")), MayCreate: s.has("scim.write", "scim.create", "uaa.admin")}
	if err := call.get(&d.Org, "/v3/organizations/"+url.PathEscape(guid), nil); err != nil {
		if gone(err) {
			return nil, fault.New(fault.NotFound, "This organization does not exist, or you have no role in it.")
		}
		return nil, err
	}
	users, err := d.loadRoles(call)
	if err != nil {
		return nil, err
	}
	at := Path + "/orgs/" + url.PathEscape(d.Org.GUID)
	d.Tabs = []tab{{Name: "Organization", Link: at, Current: space == ""}}
	for _, in := range d.spaces {
		d.Tabs = append(d.Tabs, tab{Name: in.Name, Link: at + "?space=" + url.QueryEscape(in.GUID), Current: in.GUID == space})
		if in.GUID == space {
			d.SpaceName, d.Kinds = in.Name, spaceRoles
		}
	}
	if space != "" && d.SpaceName == "" {
		return nil, fault.New(fault.NotFound, "This space does not exist, or you have no role in it.")
	}
	d.MayOrg = s.admin() || d.holds(s.UserID, roleOrgManager, "") != ""
	d.May = d.MayOrg || space != "" && d.holds(s.UserID, roleSpaceManager, space) != ""
	d.MayCreate = d.MayCreate && d.MayOrg
	d.rows(r, users)
	d.commands()
	d.Quotas, err = call.quotas(d)
	return d, err
}

func (d *orgData) commands() {
	if d.Space == "" {
		d.Commands.Set, d.Commands.Unset = command("cf", "set-org-role", "USER", d.Org.Name, "ROLE"), command("cf", "unset-org-role", "USER", d.Org.Name, "ROLE")
		d.Commands.Users = command("cf", "org-users", d.Org.Name, "--all-users")
	} else {
		d.Commands.Set = command("cf", "set-space-role", "USER", d.Org.Name, d.SpaceName, "ROLE")
		d.Commands.Unset = command("cf", "unset-space-role", "USER", d.Org.Name, d.SpaceName, "ROLE")
		d.Commands.Users = command("cf", "space-users", d.Org.Name, d.SpaceName)
	}
	d.Commands.Create = command("cf", "create-user", "USER", "PASSWORD")
}

// loadRoles loads all roles in the organization and its spaces, and returns the users.
func (d *orgData) loadRoles(call *caller) (map[string]platformUser, error) {
	var err error
	d.spaces, err = all[space](call, "/v3/spaces", url.Values{"organization_guids": {d.Org.GUID}, "order_by": {"name"}})
	if err != nil {
		return nil, err
	}
	users := map[string]platformUser{}
	load := func(q url.Values) error {
		q.Set("include", "user")
		q.Set("per_page", strconv.Itoa(most))
		for n := 1; ; n++ {
			q.Set("page", strconv.Itoa(n))
			var l included[memberRole, struct {
				Users []platformUser `json:"users"`
			}]
			if err := call.get(&l, "/v3/roles", q); err != nil {
				return err
			}
			d.roles = append(d.roles, l.Resources...)
			for _, u := range l.Included.Users {
				users[u.GUID] = u
			}
			if n >= l.Pagination.Pages {
				return nil
			}
		}
	}
	if err := load(url.Values{"organization_guids": {d.Org.GUID}}); err != nil {
		return nil, err
	}
	for some := range slices.Chunk(d.spaces, 50) {
		guids := make([]string, 0, len(some))
		for _, in := range some {
			guids = append(guids, in.GUID)
		}
		if err := load(url.Values{"space_guids": {strings.Join(guids, ",")}}); err != nil {
			return nil, err
		}
	}
	return users, nil
}

// holds returns the guid of a role of a user; "" if the user does not have it.
func (d *orgData) holds(user, kind, space string) string {
	for _, one := range d.roles {
		if one.user() == user && one.Type == kind && one.space() == space {
			return one.GUID
		}
	}
	return ""
}

// rows makes the matrix.
func (d *orgData) rows(r *http.Request, users map[string]platformUser) {
	list := slices.SortedFunc(maps.Values(users), func(a, b platformUser) int {
		return cmp.Or(strings.Compare(strings.ToLower(a.Name), strings.ToLower(b.Name)), strings.Compare(a.GUID, b.GUID))
	})
	list = slices.DeleteFunc(list, func(u platformUser) bool { return !matches(u.Name, d.Query) })
	d.Pager = newPager(r, len(list), perPage, "users")
	d.Pager.at = Path + "/orgs/" + url.PathEscape(d.Org.GUID)
	if d.Space != "" {
		d.Pager.query.Set("space", d.Space)
	}
	names := map[string]string{}
	for _, in := range d.spaces {
		names[in.GUID] = in.Name
	}
	for _, u := range part(d.Pager, list, perPage) {
		row := memberRow{platformUser: u}
		for _, kind := range d.Kinds {
			one := cell{Role: d.holds(u.GUID, kind.Type, d.Space), Type: kind.Type, Label: kind.Label}
			verb := "set"
			if one.Role != "" {
				verb = "unset"
			}
			if one.Command = command("cf", verb+"-org-role", u.Name, d.Org.Name, kind.CF); d.Space != "" {
				one.Command = command("cf", verb+"-space-role", u.Name, d.Org.Name, d.SpaceName, kind.CF)
			}
			row.Cells = append(row.Cells, one)
		}
		for _, one := range d.roles {
			if one.user() == u.GUID && one.space() != "" && d.Space == "" {
				row.Others = append(row.Others, names[one.space()]+": "+strings.TrimPrefix(one.Type, "space_"))
			}
		}
		slices.Sort(row.Others)
		d.Rows = append(d.Rows, row)
	}
}

func roleBody(kind, org, space string, user map[string]any) map[string]any {
	to := map[string]any{"user": map[string]any{"data": user}}
	if strings.HasPrefix(kind, "space_") {
		to["space"] = related(space)
	} else {
		to["organization"] = related(org)
	}
	return map[string]any{"type": kind, "relationships": to}
}

// addRole is POST /console/orgs/GUID/roles/add, with the fields user (a guid), type and space.
func (c *Console) addRole(w http.ResponseWriter, r *http.Request, s *Session) error {
	if err := c.giveRole(c.platform(r, s), r, map[string]any{"guid": r.PostForm.Get("user")}); err != nil {
		return c.orgFailed(w, r, s, err)
	}
	return backToOrg(w, r, "role")
}

// giveRole gives the role of a form to a user. As with cf, a user of a space becomes a member of
// its organization.
func (c *Console) giveRole(call *caller, r *http.Request, user map[string]any) error {
	org, kind := web.Param(r, "guid"), r.PostForm.Get("type")
	if strings.HasPrefix(kind, "space_") {
		err := call.do(http.MethodPost, "/v3/roles", roleBody(roleOrgUser, org, "", user), nil)
		// A manager of the space may not do this; a user who is a member needs it no more.
		if err != nil && !fault.Is(err, fault.Unprocessable) && !fault.Is(err, fault.Forbidden) {
			return err
		}
	}
	return call.do(http.MethodPost, "/v3/roles", roleBody(kind, org, r.PostForm.Get("space"), user), nil)
}

// removeRole is POST /console/orgs/GUID/roles/remove, with the field role, a guid.
func (c *Console) removeRole(w http.ResponseWriter, r *http.Request, s *Session) error {
	if err := c.platform(r, s).do(http.MethodDelete, "/v3/roles/"+url.PathEscape(r.PostForm.Get("role")), nil, nil); err != nil {
		return c.orgFailed(w, r, s, err)
	}
	return backToOrg(w, r, "norole")
}

// removeMember is POST /console/orgs/GUID/members/remove, with the field user: it removes all of
// a user's roles in the organization and its spaces.
func (c *Console) removeMember(w http.ResponseWriter, r *http.Request, s *Session) error {
	data, err := c.loadOrg(r, s, "")
	if err != nil {
		return err
	}
	// Those of spaces first: the last role in the organization cannot be removed before them.
	slices.SortStableFunc(data.roles, func(a, b memberRole) int { return strings.Compare(b.space(), a.space()) })
	call := c.platform(r, s)
	for _, one := range data.roles {
		if one.user() != r.PostForm.Get("user") {
			continue
		}
		if err := call.do(http.MethodDelete, "/v3/roles/"+url.PathEscape(one.GUID), nil, nil); err != nil && !gone(err) {
			return c.orgFailed(w, r, s, err)
		}
	}
	return backToOrg(w, r, "removed")
}

// invite is POST /console/orgs/GUID/members/invite, with the fields username, type, space and
// create: then a user that does not exist is created.
func (c *Console) invite(w http.ResponseWriter, r *http.Request, s *Session) error {
	name := strings.TrimSpace(r.PostForm.Get("username"))
	password := ""
	if r.PostForm.Get("create") != "" {
		var err error
		if password, err = c.createUser(r, s, name, strings.TrimSpace(r.PostForm.Get("email"))); err != nil {
			return c.orgFailed(w, r, s, err)
		}
	}
	if err := c.giveRole(c.platform(r, s), r, map[string]any{"username": name}); err != nil {
		return c.orgFailed(w, r, s, err)
	}
	if password == "" {
		return backToOrg(w, r, "role")
	}
	return c.showSecret(w, r, s, "members", secretData{
		Title: "The user " + name + " was created", Label: "Password", Value: password, Command: command("cf", "create-user", name, "PASSWORD"),
		Note: "Give it to the user over a channel that you trust. The user can change it after logging in with cf passwd.",
		Back: crumb{"Members", Path + "/orgs/" + url.PathEscape(web.Param(r, "guid"))},
	})
}

// createUser creates a user in the authorization server, and returns the password; "" if the user
// exists.
func (c *Console) createUser(r *http.Request, s *Session, name, email string) (string, error) {
	password := randomText()[:24]
	body := map[string]any{
		"userName": name, "password": password, "origin": "uaa", "name": map[string]string{"givenName": name, "familyName": name},
		"emails": []any{map[string]any{"value": cmp.Or(email, name), "primary": true}},
	}
	err := c.auth(r, s).do(http.MethodPost, "/Users", body, nil)
	if fault.Is(err, fault.Conflict) {
		return "", nil
	}
	return password, err
}

// secretData is a secret that is shown once.
type secretData struct {
	Title, Label, Value, Note, Command string
	Back                               crumb
}

// showSecret shows a secret as the response to a form, so that no address leads to it.
func (c *Console) showSecret(w http.ResponseWriter, r *http.Request, s *Session, section string, data secretData) error {
	return c.show(w, r, s, http.StatusOK, "secret.html", page{Title: data.Title, Section: section, Data: data, Crumbs: []crumb{data.Back}})
}

// findUsers returns users whose name contains a text: all for those who may see them, and
// otherwise those of the same organizations.
func (c *Console) findUsers(r *http.Request, s *Session, text string) ([]platformUser, error) {
	var list []platformUser
	if !s.has(userScopes...) {
		found, err := all[platformUser](c.platform(r, s), "/v3/users", nil)
		list = slices.DeleteFunc(found, func(u platformUser) bool { return !matches(u.Name, text) })
		return list[:min(len(list), perPage)], err
	}
	var l scimList[authUser]
	err := c.auth(r, s).get(&l, "/Users", url.Values{"filter": {"userName co " + scimText(text)}, "attributes": {"id,userName"}, "count": {strconv.Itoa(perPage)}})
	for _, u := range l.Resources {
		list = append(list, platformUser{u.ID, u.UserName})
	}
	return list, err
}
