package access

import (
	"cmp"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"ingot/internal/base/cfapi"
	"ingot/internal/base/fault"
	"ingot/internal/base/web"
	"ingot/internal/console/page"
)

// roleKind is a role that users can have.
type roleKind struct{ Type, Label, CF string }

var (
	orgRoles = []roleKind{
		{roleOrgUser, "Member", "OrgUser"}, {roleOrgManager, "Manager", "OrgManager"}, {"organization_auditor", "Auditor",
			"OrgAuditor"},
		{"organization_billing_manager", "Billing", "BillingManager"},
	}
	spaceRoles = []roleKind{
		{roleSpaceDeveloper, "Developer", "SpaceDeveloper"}, {roleSpaceManager, "Manager", "SpaceManager"},
		{"space_auditor", "Auditor", "SpaceAuditor"},
		{"space_supporter", "Supporter", "SpaceSupporter"},
	}
)

const (
	roleOrgUser        = "organization_user"
	roleOrgManager     = "organization_manager"
	roleSpaceManager   = "space_manager"
	roleSpaceDeveloper = "space_developer"
)

type orgSummary struct {
	cfapi.Thing
	Spaces []cfapi.Space
}

// membersData are the organizations that the user sees.
type membersData struct {
	Orgs    []orgSummary
	Place   *page.Place // nil for users who may not create organizations
	Command string
}

// members is GET /console/members.
func (c pages) members(r *http.Request, s *page.Session) (any, error) { return c.loadMembers(r, s) }

func (c pages) loadMembers(r *http.Request, s *page.Session) (*membersData, error) {
	call := c.Platform(r, s)
	var orgs []cfapi.Thing
	var spaces []cfapi.Space
	err := page.Together(
		page.List(call, &orgs, "/v3/organizations", url.Values{"order_by": {"name"}}),
		page.List(call, &spaces, "/v3/spaces", url.Values{"order_by": {"name"}}),
	)
	if err != nil {
		return nil, err
	}
	var list []orgSummary
	for _, org := range orgs {
		one := orgSummary{Thing: org}
		for _, in := range spaces {
			if in.Relationships.Organization.GUID() == org.GUID {
				one.Spaces = append(one.Spaces, in)
			}
		}
		list = append(list, one)
	}
	return &membersData{Orgs: list, Place: s.NewPlace(), Command: page.Command("cf", "orgs")}, nil
}

type cell struct {
	Role    string // guid, if the user has it
	Type    string
	Label   string
	Command string
}

type memberRow struct {
	cfapi.User
	Cells  []cell
	Others []string // roles in spaces
}

type orgData struct {
	Org       cfapi.Thing
	Space     string // guid; empty means the roles of the organization
	SpaceName string
	Tabs      []page.Tab
	Kinds     []roleKind
	Rows      []memberRow
	Query     string
	Pager     page.Pager
	Quotas    []quotaCard
	May       bool // change these roles
	MayOrg    bool // change those of the organization
	MayCreate bool // users
	Typed     url.Values
	Commands  struct{ Set, Unset, Users, Create, Space string }
	// roles of all users, and those of spaces
	roles  []cfapi.Role
	spaces []cfapi.Space
}

// org is GET /console/orgs/GUID: a matrix of members and roles; ?space= guid shows the roles of
// a space, ?q= part of a user name.
func (c pages) org(w http.ResponseWriter, r *http.Request, s *page.Session) error {
	data, err := c.loadOrg(r, s, r.URL.Query().Get("space"))
	if err != nil {
		return err
	}
	return c.showOrg(w, r, s, http.StatusOK, "", data)
}

func (c pages) showOrg(w http.ResponseWriter, r *http.Request, s *page.Session, status int, problem string,
	data *orgData) error {
	return c.Show(w, r, s, status, "org.html", page.Page{
		Title: data.Org.Name, Section: "members", Data: data, Problem: problem,
		Crumbs: []page.Crumb{{Name: "Members", Link: page.Path + "/members"}},
	})
}

// orgFailed shows the page of an organization again, with a problem and what was typed.
func (c pages) orgFailed(w http.ResponseWriter, r *http.Request, s *page.Session, err error) error {
	status, text, ok := page.ProblemOf(err)
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
	http.Redirect(w, r, page.Path+"/orgs/"+url.PathEscape(web.Param(r, "guid"))+ //nolint:gosec // a path of the console
		"?"+q.Encode(), http.StatusSeeOther)
	return nil
}

func (c pages) loadOrg(r *http.Request, s *page.Session, space string) (*orgData, error) {
	call, guid := c.Platform(r, s), web.Param(r, "guid")
	d := &orgData{Space: space, Kinds: orgRoles, Query: strings.TrimSpace(r.URL.Query().Get("q")),
		MayCreate: s.Has("scim.write", "scim.create", "uaa.admin")}
	if err := call.Get(&d.Org, "/v3/organizations/"+url.PathEscape(guid), nil); err != nil {
		if page.Gone(err) {
			return nil, fault.New(fault.NotFound, "This organization does not exist, or you have no role in it.")
		}
		return nil, err
	}
	users, err := d.loadRoles(call)
	if err != nil {
		return nil, err
	}
	at := page.Path + "/orgs/" + url.PathEscape(d.Org.GUID)
	d.Tabs = []page.Tab{{Name: "Organization", Link: at, Current: space == ""}}
	for _, in := range d.spaces {
		d.Tabs = append(d.Tabs, page.Tab{Name: in.Name, Link: at + "?space=" + url.QueryEscape(in.GUID),
			Current: in.GUID == space})
		if in.GUID == space {
			d.SpaceName, d.Kinds = in.Name, spaceRoles
		}
	}
	if space != "" && d.SpaceName == "" {
		return nil, fault.New(fault.NotFound, "This space does not exist, or you have no role in it.")
	}
	d.MayOrg = s.Admin() || d.holds(s.UserID, roleOrgManager, "") != ""
	d.May = d.MayOrg || space != "" && d.holds(s.UserID, roleSpaceManager, space) != ""
	d.MayCreate = d.MayCreate && d.MayOrg
	d.rows(r, users)
	d.commands()
	d.Quotas, err = loadQuotas(call, d)
	return d, err
}

func (d *orgData) commands() {
	if d.Space == "" {
		d.Commands.Set, d.Commands.Unset = page.Command("cf", "set-org-role", "USER", d.Org.Name, "ROLE"),
			page.Command("cf", "unset-org-role", "USER", d.Org.Name, "ROLE")
		d.Commands.Users = page.Command("cf", "org-users", d.Org.Name, "--all-users")
	} else {
		d.Commands.Set = page.Command("cf", "set-space-role", "USER", d.Org.Name, d.SpaceName, "ROLE")
		d.Commands.Unset = page.Command("cf", "unset-space-role", "USER", d.Org.Name, d.SpaceName, "ROLE")
		d.Commands.Users = page.Command("cf", "space-users", d.Org.Name, d.SpaceName)
	}
	d.Commands.Space = page.Command("cf", "create-space", "SPACE", "-o", d.Org.Name)
	d.Commands.Create = page.Command("cf", "create-user", "USER", "PASSWORD")
}

// loadRoles loads all roles in the organization and its spaces, and returns the users.
func (d *orgData) loadRoles(call *page.Caller) (map[string]cfapi.User, error) {
	var err error
	d.spaces, err = page.All[cfapi.Space](call, "/v3/spaces", url.Values{"organization_guids": {d.Org.GUID},
		"order_by": {"name"}})
	if err != nil {
		return nil, err
	}
	users := map[string]cfapi.User{}
	load := func(q url.Values) error {
		q.Set("include", "user")
		q.Set("per_page", strconv.Itoa(page.MaxResources))
		for n := 1; ; n++ {
			q.Set("page", strconv.Itoa(n))
			var l cfapi.List[cfapi.Role, struct {
				Users []cfapi.User `json:"users"`
			}]
			if err := call.Get(&l, "/v3/roles", q); err != nil {
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
		if one.Relationships.User.GUID() == user && one.Type == kind && one.Relationships.Space.GUID() == space {
			return one.GUID
		}
	}
	return ""
}

// rows makes the matrix.
func (d *orgData) rows(r *http.Request, users map[string]cfapi.User) {
	list := slices.SortedFunc(maps.Values(users), func(a, b cfapi.User) int {
		return cmp.Or(strings.Compare(strings.ToLower(a.Name), strings.ToLower(b.Name)), strings.Compare(a.GUID, b.GUID))
	})
	list = slices.DeleteFunc(list, func(u cfapi.User) bool { return !page.Matches(u.Name, d.Query) })
	d.Pager = page.NewPager(r, len(list), page.PerPage, "users")
	d.Pager.At = page.Path + "/orgs/" + url.PathEscape(d.Org.GUID)
	if d.Space != "" {
		d.Pager.Query.Set("space", d.Space)
	}
	names := cfapi.Names(d.spaces)
	for _, u := range page.Visible(d.Pager, list, page.PerPage) {
		row := memberRow{User: u}
		for _, kind := range d.Kinds {
			one := cell{Role: d.holds(u.GUID, kind.Type, d.Space), Type: kind.Type, Label: kind.Label}
			verb := "set"
			if one.Role != "" {
				verb = "unset"
			}
			if one.Command = page.Command("cf", verb+"-org-role", u.Name, d.Org.Name, kind.CF); d.Space != "" {
				one.Command = page.Command("cf", verb+"-space-role", u.Name, d.Org.Name, d.SpaceName, kind.CF)
			}
			row.Cells = append(row.Cells, one)
		}
		for _, one := range d.roles {
			if one.Relationships.User.GUID() == u.GUID && one.Relationships.Space.GUID() != "" && d.Space == "" {
				row.Others = append(row.Others, names[one.Relationships.Space.GUID()]+": "+strings.TrimPrefix(one.Type, "space_"))
			}
		}
		slices.Sort(row.Others)
		d.Rows = append(d.Rows, row)
	}
}

func roleBody(kind, org, space string, user map[string]any) map[string]any {
	to := map[string]any{"user": map[string]any{"data": user}}
	if strings.HasPrefix(kind, "space_") {
		to["space"] = cfapi.Relate(space)
	} else {
		to["organization"] = cfapi.Relate(org)
	}
	return map[string]any{"type": kind, "relationships": to}
}

// addRole is POST /console/orgs/GUID/roles/add, with the fields user (a guid), type and space.
func (c pages) addRole(w http.ResponseWriter, r *http.Request, s *page.Session) error {
	if err := c.giveRole(c.Platform(r, s), r, map[string]any{"guid": r.PostForm.Get("user")}); err != nil {
		return c.orgFailed(w, r, s, err)
	}
	return backToOrg(w, r, "role")
}

// giveRole gives the role of a form to a user. As with cf, a user of a space becomes a member of
// its organization.
func (c pages) giveRole(call *page.Caller, r *http.Request, user map[string]any) error {
	org, kind := web.Param(r, "guid"), r.PostForm.Get("type")
	if strings.HasPrefix(kind, "space_") {
		err := call.Do(http.MethodPost, "/v3/roles", roleBody(roleOrgUser, org, "", user), nil)
		// A manager of the space may not do this; a user who is a member needs it no more.
		if err != nil && !fault.Is(err, fault.Unprocessable) && !fault.Is(err, fault.Forbidden) {
			return err
		}
	}
	return call.Do(http.MethodPost, "/v3/roles", roleBody(kind, org, r.PostForm.Get("space"), user), nil)
}

// removeRole is POST /console/orgs/GUID/roles/remove, with the field role, a guid.
func (c pages) removeRole(w http.ResponseWriter, r *http.Request, s *page.Session) error {
	if err := c.Platform(r, s).Do(http.MethodDelete, "/v3/roles/"+url.PathEscape(r.PostForm.Get("role")), nil,
		nil); err != nil {
		return c.orgFailed(w, r, s, err)
	}
	return backToOrg(w, r, "norole")
}

// removeMember is POST /console/orgs/GUID/members/remove, with the field user: it removes all of
// a user's roles in the organization and its spaces.
func (c pages) removeMember(w http.ResponseWriter, r *http.Request, s *page.Session) error {
	data, err := c.loadOrg(r, s, "")
	if err != nil {
		return err
	}
	// Those of spaces first: the last role in the organization cannot be removed before them.
	slices.SortStableFunc(data.roles, func(a, b cfapi.Role) int {
		return strings.Compare(b.Relationships.Space.GUID(), a.Relationships.Space.GUID())
	})
	call := c.Platform(r, s)
	for _, one := range data.roles {
		if one.Relationships.User.GUID() != r.PostForm.Get("user") {
			continue
		}
		if err := call.Do(http.MethodDelete, "/v3/roles/"+url.PathEscape(one.GUID), nil, nil); err != nil && !page.Gone(err) {
			return c.orgFailed(w, r, s, err)
		}
	}
	return backToOrg(w, r, "removed")
}

// invite is POST /console/orgs/GUID/members/invite, with the fields username, type, space and
// create: then a user that does not exist is created.
func (c pages) invite(w http.ResponseWriter, r *http.Request, s *page.Session) error {
	name := strings.TrimSpace(r.PostForm.Get("username"))
	password := ""
	if r.PostForm.Get("create") != "" {
		var err error
		if password, err = c.createUser(r, s, name, strings.TrimSpace(r.PostForm.Get("email"))); err != nil {
			return c.orgFailed(w, r, s, err)
		}
	}
	if err := c.giveRole(c.Platform(r, s), r, map[string]any{"username": name}); err != nil {
		return c.orgFailed(w, r, s, err)
	}
	if password == "" {
		return backToOrg(w, r, "role")
	}
	return c.showSecret(w, r, s, "members", secretData{
		Title: "The user " + name + " was created", Label: "Password", Value: password,
		Command: page.Command("cf", "create-user", name, "PASSWORD"),
		Note:    "Give it to the user over a channel that you trust. The user can change it after logging in with cf passwd.",
		Back:    page.Crumb{Name: "Members", Link: page.Path + "/orgs/" + url.PathEscape(web.Param(r, "guid"))},
	})
}

// createUser creates a user in the authorization server, and returns the password; "" if the user
// exists.
func (c pages) createUser(r *http.Request, s *page.Session, name, email string) (string, error) {
	password := page.RandomText()[:24]
	body := map[string]any{
		"userName": name, "password": password, "origin": "uaa", "name": map[string]string{"givenName": name,
			"familyName": name},
		"emails": []any{map[string]any{"value": cmp.Or(email, name), "primary": true}},
	}
	err := c.Auth(r, s).Do(http.MethodPost, "/Users", body, nil)
	if fault.Is(err, fault.Conflict) {
		return "", nil
	}
	return password, err
}
