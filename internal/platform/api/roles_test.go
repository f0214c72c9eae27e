package api_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"ingot/internal/base/db"
	"ingot/internal/base/db/dbtest"
)

// who sees and does what in a space with an app, by role.
var matrix = []struct {
	user      string
	roles     []string // "organization_x" in the org, "space_x" in the space
	sees      bool     // the app
	seesOrg   bool
	env       bool // its environment
	develops  bool // creates and changes
	operates  bool // starts, stops, scales
	manages   bool // gives roles in the space
	managesOf bool // gives roles in the organization
}{
	{user: "stranger"},
	{user: "orguser", roles: []string{"organization_user"}, seesOrg: true},
	{user: "orgauditor", roles: []string{"organization_auditor"}, seesOrg: true},
	{user: "billing", roles: []string{"organization_billing_manager"}, seesOrg: true},
	{user: "orgmanager", roles: []string{"organization_manager"}, seesOrg: true, sees: true, manages: true,
		managesOf: true},
	{user: "developer", roles: []string{"organization_user", "space_developer"}, seesOrg: true, sees: true, env: true,
		develops: true, operates: true},
	{user: "manager", roles: []string{"organization_user", "space_manager"}, seesOrg: true, sees: true, manages: true},
	{user: "auditor", roles: []string{"organization_user", "space_auditor"}, seesOrg: true, sees: true},
	{user: "supporter", roles: []string{"organization_user", "space_supporter"}, seesOrg: true, sees: true, env: true,
		operates: true},
}

func TestRoleMatrix(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := setupOn(t, d.Dialect())
		org := f.org("o")
		space := f.space(org, "s")
		app := f.app(space, "a", map[string]any{"environment_variables": map[string]string{"SECRET": "hunter2"}})
		other := f.space(f.org("elsewhere"), "s2")
		f.app(other, "foreign")
		f.as("newcomer")
		for _, m := range matrix {
			for _, r := range m.roles {
				place := space
				if strings.HasPrefix(r, "organization") {
					place = org
				}
				f.role(m.user, r, place)
			}
		}
		for _, m := range matrix {
			t.Run(m.user, func(t *testing.T) {
				tok := f.as(m.user)
				check := func(what string, a *answer, allowed bool, refusal int) {
					t.Helper()
					if allowed && a.status >= 300 || !allowed && a.status != refusal {
						t.Errorf("%s: %d %s (allowed: %v, refusal %d)", what, a.status, a.body, allowed, refusal)
					}
				}
				hide := func(visible bool) int {
					if visible {
						return 403
					}
					return 404
				}
				check("see org", f.call(tok, "GET", "/v3/organizations/"+org, nil), m.seesOrg, 404)
				check("see space", f.call(tok, "GET", "/v3/spaces/"+space, nil), m.sees, 404)
				check("see app", f.call(tok, "GET", "/v3/apps/"+app, nil), m.sees, 404)
				check("see process", f.call(tok, "GET", "/v3/processes/"+app, nil), m.sees, 404)
				if got := names(f.call(tok, "GET", "/v3/apps", nil)); slices.Contains(got, "foreign") ||
					slices.Contains(got, "a") != m.sees {
					t.Errorf("lists %v", got)
				}
				env := f.call(tok, "GET", "/v3/apps/"+app+"/env", nil)
				check("see env", env, m.env, hide(m.sees))
				if !m.env && strings.Contains(env.body, "hunter2") {
					t.Error("the environment leaks")
				}
				check("change app", f.call(tok, "PATCH", "/v3/apps/"+app,
					map[string]any{"metadata": map[string]any{"labels": map[string]string{"x": "y"}}}), m.develops, hide(m.sees))
				check("set env", f.call(tok, "PATCH", "/v3/apps/"+app+"/environment_variables",
					map[string]any{"var": map[string]string{"A": "b"}}), m.operates, hide(m.sees))
				check("stop", f.call(tok, "POST", "/v3/apps/"+app+"/actions/stop", nil), m.operates, hide(m.sees))
				check("scale", f.call(tok, "POST", "/v3/processes/"+app+"/actions/scale", map[string]any{"instances": 1}),
					m.operates, hide(m.sees))
				check("create app", f.call(tok, "POST", "/v3/apps", map[string]any{"name": "by-" + m.user,
					"relationships": rel("space", space)}), m.develops, map[bool]int{true: 403, false: 422}[m.sees])
				check("apply manifest", f.call(tok, "POST", "/v3/spaces/"+space+"/actions/apply_manifest",
					"applications: [{name: m-"+m.user+"}]"), m.develops, hide(m.sees))
				giveOrg := rel("organization", org)
				giveOrg["user"] = map[string]any{"data": map[string]any{"username": "newcomer"}}
				kind := map[string]any{"type": "organization_auditor", "relationships": giveOrg}
				a := f.call(tok, "POST", "/v3/roles", kind)
				if a.status == 422 && strings.Contains(a.body, "already has") {
					a.status = 201
				}
				check("give org role", a, m.managesOf, map[bool]int{true: 403, false: 422}[m.seesOrg])
				check("delete org", f.call(tok, "DELETE", "/v3/organizations/"+org, nil), false, 403)
			})
		}
		for _, scope := range []string{"cloud_controller.admin_read_only", "cloud_controller.global_auditor"} {
			tok := f.as("reader", scope)
			f.want(f.call(tok, "GET", "/v3/apps/"+app, nil), 200)
			f.want(f.call(tok, "POST", "/v3/apps/"+app+"/actions/stop", nil), 403)
			want := map[string]int{"cloud_controller.admin_read_only": 200, "cloud_controller.global_auditor": 403}[scope]
			if a := f.call(tok, "GET", "/v3/apps/"+app+"/env", nil); a.status != want {
				t.Errorf("%s sees the environment: %d, want %d", scope, a.status, want)
			}
		}
	})
}

// What cf create-space does: the same role twice is told in words it knows.
func TestDuplicateRoles(t *testing.T) {
	t.Parallel()
	f := setup(t)
	org := f.org("o")
	space := f.space(org, "s")
	f.role("ann", "organization_user", org)
	f.role("ann", "space_developer", space)
	give := rel("space", space)
	give["user"] = map[string]any{"data": map[string]any{"username": "ann", "origin": "uaa"}}
	a := f.call(f.admin(), "POST", "/v3/roles", map[string]any{"type": "space_developer", "relationships": give})
	if a.status != 422 || !strings.HasPrefix(a.detail(), "User 'ann' already has 'space_developer' role") {
		t.Errorf("answer is %d %s, want 422 and the role ann already has", a.status, a.body)
	}
	list := f.want(f.call(f.admin(), "GET", "/v3/roles?include=user&space_guids="+space, nil), 200)
	if list.at("included.users.0.username") != "ann" || list.at("resources.0.relationships.user.data.guid") != "ann-guid" {
		t.Errorf("list %s", list.body)
	}
	orgRole := f.want(f.call(f.admin(), "GET", "/v3/roles?types=organization_user&user_guids=ann-guid&organization_guids="+
		org, nil), 200)
	guid, _ := orgRole.at("resources.0.guid").(string)
	if a := f.call(f.admin(), "DELETE", "/v3/roles/"+guid, nil); a.status != 422 {
		t.Errorf("the last role in the organization went: %d %s", a.status, a.body)
	}
}

func TestLists(t *testing.T) {
	t.Parallel()
	f := setup(t)
	org := f.org("o")
	space := f.space(org, "s")
	for i := range 7 {
		f.app(space, fmt.Sprintf("app-%d", i),
			map[string]any{"metadata": map[string]any{"labels": map[string]string{"n": fmt.Sprint(i % 2)}}})
	}
	f.app(space, "with,comma")
	admin := f.admin()
	made, _ := f.call(admin, "GET", "/v3/apps?names=app-1", nil).at("resources.0.created_at").(string)
	for query, want := range map[string][]string{
		"names=app-1&created_ats=2001-01-01T00:00:00Z,2002-01-01T00:00:00Z": nil,
		"names=app-1&created_ats=2001-01-01T00:00:00Z," + made:              {"app-1"},
		"names=app-1&created_ats=" + made + ",2999-01-01T00:00:00Z," + made: {"app-1"},
		"names=app-1&updated_ats=2001-01-01T00:00:00Z," + made:              {"app-1"},
		"names=app-1&updated_ats=1000-01-01T00:00:00Z,9999-12-31T23:59:59Z": nil,
		"names=app-1,app-3&order_by=name":                                   {"app-1", "app-3"},
		"names=with%252Ccomma":                                              {"with,comma"},
		"label_selector=n=1&order_by=-name":                                 {"app-5", "app-3", "app-1"},
		"label_selector=!n":                                                 {"with,comma"},
		"label_selector=n%20in%20(0)&order_by=name":                         {"app-0", "app-2", "app-4", "app-6"},
		"label_selector=n!=0,n":                                             {"app-1", "app-3", "app-5"},
		"per_page=3&page=3&order_by=name":                                   {"app-6", "with,comma"},
		"names=":                                                            nil,
		"created_ats[gt]=2999-01-01T00:00:00Z":                              nil,
		"organization_guids=" + org + "&names=app-0":                        {"app-0"},
		"organization_guids=nowhere":                                        nil,
	} {
		if got := names(f.want(f.call(admin, "GET", "/v3/apps?"+query, nil), 200)); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", query, got, want)
		}
	}
	for _, query := range []string{
		"nonsense=1", "page=0", "page=x", "per_page=5001", "per_page=0", "order_by=color", "names=a&names=b",
		"label_selector=a%20b",
		"created_ats=yesterday", "created_ats=2020-01-01T00:00:00Z,",
		"created_ats[gt]=2020-01-01T00:00:00Z,2021-01-01T00:00:00Z", "created_ats[foo]=2020-01-01T00:00:00Z",
		"include=nothing", "lifecycle_type=sorcery",
	} {
		a := f.call(admin, "GET", "/v3/apps?"+query, nil)
		if a.status != 400 || a.at("errors.0.code") != 10005.0 {
			t.Errorf("%s answers %d %s, want 400 with code 10005", query, a.status, a.body)
		}
	}
	page := f.want(f.call(admin, "GET", "/v3/apps?per_page=3&page=2&order_by=name", nil), 200)
	if page.at("pagination.total_results") != 8.0 || page.at("pagination.total_pages") != 3.0 ||
		page.at("pagination.next.href") != "http://example.com/v3/apps?order_by=name&page=3&per_page=3" ||
		page.at("pagination.previous.href") != "http://example.com/v3/apps?order_by=name&page=1&per_page=3" {
		t.Errorf("page %s", page.body)
	}
	with := f.want(f.call(admin, "GET", "/v3/apps?names=app-0&include=space.organization", nil), 200)
	if with.at("included.spaces.0.name") != "s" || with.at("included.organizations.0.name") != "o" {
		t.Errorf("included %s", with.body)
	}
	empty := f.want(f.call(admin, "GET", "/v3/apps?names=none", nil), 200)
	if !strings.Contains(empty.body, `"resources":[]`) {
		t.Errorf("an empty list is %s", empty.body)
	}
}
