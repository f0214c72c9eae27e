package api_test

import (
	"strings"
	"testing"
)

func TestOrganizationScenarios(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.play([]step{
		{do: "POST /v3/organizations",
			body: `{"name":"new","suspended":false,"metadata":{"labels":{"a":"b"},"annotations":{"n":"long text"}}}`, want: 201,
			has: []string{`"name":"new"`, `"a":"b"`, `"suspended":false`}, save: "new"},
		// An admin needs no role, and is none of those who get mail for the organization.
		{do: "GET /v3/roles?organization_guids=$new", want: 200, has: []string{`"total_results":0`}},
		{do: "POST /v3/organizations", body: `{"name":"new"}`, want: 422,
			has: []string{"Organization 'new' already exists."}},
		{do: "POST /v3/organizations", body: `{"name":"NEW"}`, want: 422, has: []string{"already exists."}},
		{do: "POST /v3/organizations", body: `{"name":""}`, want: 422, has: []string{"Name is too short"}},
		{do: "POST /v3/organizations", body: `{}`, want: 422, has: []string{"Name"}},
		{do: "POST /v3/organizations", body: `{"name":"a\nb"}`, want: 422,
			has: []string{"Name must not contain escaped characters"}},
		{do: "POST /v3/organizations", body: `{"name":5}`, want: 422, has: []string{"name must be a string"}},
		{as: "orgmanager", do: "POST /v3/organizations", body: `{"name":"mine"}`, want: 403, has: []string{"10003"}},
		{do: "PATCH /v3/feature_flags/user_org_creation", body: `{"enabled":true}`, want: 200},
		{as: "stranger", do: "POST /v3/organizations", body: `{"name":"mine"}`, want: 201, save: "mine"},
		{as: "stranger", do: "PATCH /v3/organizations/$mine", body: `{"name":"mine too"}`, want: 200,
			has: []string{"mine too"}},
		{as: "stranger", do: "PATCH /v3/organizations/$mine", body: `{"suspended":true}`, want: 403},
		{as: "stranger", do: "GET /v3/roles?organization_guids=$mine", want: 200, has: []string{"organization_manager",
			"organization_user", `"total_results":2`}},
		{do: "PATCH /v3/organizations/$mine", body: `{"suspended":true}`, want: 200, has: []string{`"suspended":true`}},
		{as: "stranger", do: "PATCH /v3/organizations/$mine", body: `{"name":"x"}`, want: 403, has: []string{"suspended"}},
		{as: "stranger", do: "POST /v3/spaces",
			body: `{"name":"x","relationships":{"organization":{"data":{"guid":"$mine"}}}}`, want: 403},
		{do: "POST /v3/spaces", body: `{"name":"x","relationships":{"organization":{"data":{"guid":"$mine"}}}}`, want: 201,
			has: []string{`"suspended":true`}},
		{do: "PATCH /v3/organizations/$new", body: `{"name":"elsewhere"}`, want: 422,
			has: []string{"Organization name 'elsewhere' is already taken."}},
		{as: "orgmanager", do: "PATCH /v3/organizations/$org", body: `{"metadata":{"labels":{"team":"a"}}}`, want: 200,
			has: []string{`"team":"a"`}},
		{as: "member", do: "PATCH /v3/organizations/$org", body: `{"name":"x"}`, want: 403},
		{as: "member", do: "PATCH /v3/organizations/$org2", body: `{"name":"x"}`, want: 404,
			has: []string{"Organization not found"}},
		{do: "GET /v3/organizations?label_selector=team%20in%20(a,b)&order_by=-name", want: 200, has: []string{"$org"},
			not: []string{"$org2"}},
		{do: "GET /v3/organizations?names=o,elsewhere&per_page=1", want: 200, has: []string{`"total_results":2`,
			`"total_pages":2`}},
		{as: "member", do: "GET /v3/organizations", want: 200, has: []string{"$org", `"total_results":1`},
			not: []string{"$org2"}},
		{do: "GET /v3/organizations/$org/usage_summary", want: 200, has: []string{`"started_instances":0`, `"routes":0`}},
		{do: "GET /v3/organizations/$org/relationships/default_isolation_segment", want: 200, has: []string{`"data":null`}},
		{do: "GET /v3/isolation_segments?organization_guids=$org", want: 200, has: []string{`"resources":[]`}},
		{as: "orgmanager", do: "DELETE /v3/organizations/$org", want: 403},
	})
	if job := w.job(step{do: "DELETE /v3/organizations/$new", want: 202}); job.at("state") != "COMPLETE" ||
		job.at("operation") != "organization.delete" {
		t.Errorf("job %s", job.body)
	}
	w.one(step{do: "GET /v3/organizations/$new", want: 404})
}

func TestSpaceScenarios(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.play([]step{
		{as: "orgmanager", do: "POST /v3/spaces",
			body: `{"name":"two","relationships":{"organization":{"data":{"guid":"$org"}}}}`, want: 201,
			has: []string{`"suspended":false`, "/actions/apply_manifest"}, save: "two"},
		{do: "POST /v3/spaces", body: `{"name":"two","relationships":{"organization":{"data":{"guid":"$org"}}}}`, want: 422,
			has: []string{"Name must be unique per organization"}},
		{do: "POST /v3/spaces", body: `{"name":"two","relationships":{"organization":{"data":{"guid":"$org2"}}}}`, want: 201},
		{do: "POST /v3/spaces", body: `{"name":"x"}`, want: 422,
			has: []string{"Relationships 'relationships' must include 'organization'"}},
		{do: "POST /v3/spaces", body: `{"name":"x","relationships":{"organization":{"data":{"guid":"$none"}}}}`, want: 422,
			has: []string{"Invalid organization. Ensure the organization exists and you have access to it."}},
		{as: "orgmanager", do: "POST /v3/spaces",
			body: `{"name":"x","relationships":{"organization":{"data":{"guid":"$org2"}}}}`, want: 422,
			has: []string{"Invalid organization"}},
		{as: "dev", do: "POST /v3/spaces", body: `{"name":"x","relationships":{"organization":{"data":{"guid":"$org"}}}}`,
			want: 403},
		{do: "POST /v3/spaces", body: `{"name":"x","relationships":{"organization":{"data":{"guid":5}}}}`, want: 422,
			has: []string{"must be a string"}},
		{as: "manager", do: "PATCH /v3/spaces/$space", body: `{"name":"renamed"}`, want: 200, has: []string{"renamed"}},
		{as: "dev", do: "PATCH /v3/spaces/$space", body: `{"name":"x"}`, want: 403},
		{do: "PATCH /v3/spaces/$space", body: `{"name":"two"}`, want: 422,
			has: []string{"Name must be unique per organization"}},
		{do: "PATCH /v3/spaces/$space", body: `{"relationships":{"organization":{"data":{"guid":"$org2"}}}}`, want: 422,
			has: []string{"Unknown field(s): 'relationships'"}},
		{as: "dev", do: "GET /v3/spaces?include=organization&order_by=name", want: 200,
			has: []string{`"included":{"organizations":[`, "$space"}, not: []string{"$two", "$space2"}},
		{as: "dev", do: "GET /v3/spaces/$space?include=org", want: 200, has: []string{`"included":{"organizations":[`}},
		{as: "dev", do: "GET /v3/spaces/$space/features", want: 200, has: []string{`"name":"ssh"`, `"enabled":true`}},
		{as: "dev", do: "GET /v3/spaces/$space/features/ssh", want: 200, has: []string{`"enabled":true`}},
		{as: "dev", do: "PATCH /v3/spaces/$space/features/ssh", body: `{"enabled":false}`, want: 403},
		{as: "manager", do: "PATCH /v3/spaces/$space/features/ssh", body: `{"enabled":false}`, want: 200,
			has: []string{`"enabled":false`}},
		{do: "PATCH /v3/spaces/$space/features/ssh", body: `{}`, want: 422, has: []string{"Enabled must be a boolean"}},
		{do: "PATCH /v3/spaces/$space/features/nonsense", body: `{"enabled":true}`, want: 404,
			has: []string{"Feature not found"}},
		{as: "dev", do: "GET /v3/spaces/$space/usage_summary", want: 200, has: []string{`"memory_in_mb":0`}},
		{as: "dev", do: "GET /v3/spaces/$space/relationships/isolation_segment", want: 200, has: []string{`"data":null`}},
		{as: "dev", do: "GET /v3/spaces/$space/running_security_groups", want: 200, has: []string{`"resources":[]`}},
		{as: "dev", do: "GET /v3/spaces/$space/users", want: 200, has: []string{`"username":"dev"`, `"username":"auditor"`},
			not: []string{`"username":"member"`}},
		{as: "dev", do: "GET /v3/organizations/$org/users", want: 200, has: []string{`"username":"member"`}},
		{as: "dev", do: "DELETE /v3/spaces/$space", want: 403},
		{as: "orgmanager", do: "DELETE /v3/spaces/$space", want: 202},
		{do: "GET /v3/apps/$app", want: 404},
		{do: "GET /v3/roles?space_guids=$space", want: 200, has: []string{`"resources":[]`}},
	})
}

func TestUserAndRoleScenarios(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.as("newcomer")
	give := func(kind, place, guid, user string) string {
		return `{"type":"` + kind + `","relationships":{"user":{"data":{` + user + `}},"` + place + `":{"data":{"guid":"` +
			guid + `"}}}}`
	}
	newcomer := `"username":"newcomer"`
	w.play([]step{
		// Clients of the authorization server can have roles too.
		{as: "orgmanager", do: "POST /v3/roles", body: give("organization_user", "organization", "$org",
			`"guid":"ci-client"`), want: 201},
		{as: "manager", do: "POST /v3/roles", body: give("space_developer", "space", "$space", `"guid":"ci-client"`),
			want: 201},
		{as: "orgmanager", do: "POST /v3/roles", body: give("organization_user", "organization", "$org",
			`"guid":"no-client"`), want: 422,
			has: []string{"Invalid user. Ensure that the user exists and you have access to it."}},
	})
	w.play([]step{
		{do: "POST /v3/users", body: `{"guid":"client-of-mine"}`, want: 201, has: []string{`"username":null`,
			`"presentation_name":"client-of-mine"`, `"origin":null`}},
		{do: "POST /v3/users", body: `{"guid":"client-of-mine"}`, want: 422,
			has: []string{"User with guid 'client-of-mine' already exists."}},
		{do: "POST /v3/users", body: `{}`, want: 422, has: []string{"Guid or 'username' and 'origin' must be provided"}},
		{do: "POST /v3/users", body: `{"guid":""}`, want: 422, has: []string{"Guid must be between 1 and 200 characters"}},
		{do: "POST /v3/users", body: `{"guid":"x","username":"y"}`, want: 422,
			has: []string{"Username cannot be provided with 'guid'"}},
		{do: "POST /v3/users", body: `{"origin":"ldap"}`, want: 422,
			has: []string{"Origin can only be provided together with 'username'"}},
		// A user of another identity provider is created, one with a password is not.
		{do: "POST /v3/users", body: `{"username":"ann","origin":"ldap"}`, want: 201, has: []string{`"guid":"shadow-ann"`,
			`"username":"ann"`, `"origin":"ldap"`}},
		{do: "POST /v3/users", body: `{"username":"ann","origin":"ldap"}`, want: 422,
			has: []string{"User with username 'ann' already exists."}},
		{do: "POST /v3/users", body: `{"username":"ann","origin":"uaa"}`, want: 422,
			has: []string{"No user exists with the username 'ann' and origin 'uaa'."}},
		{do: "POST /v3/users", body: `{"username":"missing"}`, want: 422,
			has: []string{"No user exists with the username 'missing'."}},
		{do: "POST /v3/users", body: `{"username":"newcomer","origin":"uaa"}`, want: 201,
			has: []string{`"guid":"newcomer-guid"`}},
		{as: "dev", do: "POST /v3/users", body: `{"guid":"x"}`, want: 403},
		{do: "PATCH /v3/users/client-of-mine", body: `{"metadata":{"labels":{"k":"v"}}}`, want: 200,
			has: []string{`"k":"v"`}},
		{do: "GET /v3/users?label_selector=k", want: 200, has: []string{"client-of-mine", `"total_results":1`}},
		{do: "GET /v3/users?usernames=dev", want: 200, has: []string{`"guid":"dev-guid"`, `"total_results":1`}},
		{do: "GET /v3/users?usernames=", want: 200, has: []string{`"resources":[]`}},
		{do: "GET /v3/users?partial_usernames=de", want: 400,
			has: []string{"Unknown query parameter(s): 'partial_usernames'"}},
		{do: "GET /v3/users?origins=uaa", want: 400, has: []string{"Origins filter cannot be provided without usernames"}},
		{as: "dev", do: "GET /v3/users", want: 200, has: []string{"orgmanager-guid"},
			not: []string{"newcomer", "client-of-mine"}},
		{as: "dev", do: "GET /v3/users/newcomer-guid", want: 404, has: []string{"User not found"}},

		{do: "POST /v3/roles", body: give("space_developer", "space", "$space", newcomer), want: 422,
			has: []string{"Users cannot be assigned roles in a space if they do not have a role in that space's organization."}},
		{as: "orgmanager", do: "POST /v3/roles", body: give("organization_user", "organization", "$org", newcomer), want: 201,
			has: []string{`"space":{"data":null}`}, save: "member"},
		{do: "POST /v3/roles", body: give("organization_user", "organization", "$org", newcomer), want: 422,
			has: []string{"User 'newcomer' already has 'organization_user' role in organization 'o'."}},
		{as: "manager", do: "POST /v3/roles", body: give("space_developer", "space", "$space", newcomer), want: 201,
			save: "devrole"},
		{do: "POST /v3/roles", body: give("space_developer", "space", "$space", newcomer), want: 422,
			has: []string{"User 'newcomer' already has 'space_developer' role in space 's'."}},
		{as: "dev", do: "POST /v3/roles", body: give("space_auditor", "space", "$space", newcomer), want: 403},
		{as: "manager", do: "POST /v3/roles", body: give("space_auditor", "space", "$space2", newcomer), want: 422,
			has: []string{"Invalid space. Ensure that the space exists and you have access to it."}},
		{as: "member", do: "POST /v3/roles", body: give("organization_user", "organization", "$org2", `"username":"missing"`),
			want: 422, has: []string{"Invalid organization"}, not: []string{"missing"}},
		{do: "POST /v3/roles", body: give("organization_king", "organization", "$org", newcomer), want: 422,
			has: []string{"Type must be one of the allowed types"}},
		{do: "POST /v3/roles", body: give("space_developer", "organization", "$org", newcomer), want: 422,
			has: []string{"requires a space"}},
		{do: "POST /v3/roles", body: give("organization_user", "space", "$space", newcomer), want: 422,
			has: []string{"requires an organization"}},
		{do: "POST /v3/roles", body: give("organization_user", "organization", "$org", `"guid":"$none"`), want: 422,
			has: []string{"Invalid user. Ensure that the user exists and you have access to it."}},
		{as: "orgmanager", do: "POST /v3/roles", body: give("organization_user", "organization", "$org",
			`"guid":"client-of-mine"`), want: 422, has: []string{"Invalid user"}},
		{do: "POST /v3/roles", body: give("organization_user", "organization", "$org", `"username":"missing"`), want: 422,
			has: []string{"No user exists with the username 'missing'."}},
		{do: "POST /v3/roles", body: `{"type":"organization_user","relationships":{"organization":{"data":{"guid":"$org"}}}}`,
			want: 422, has: []string{"must include 'user'"}},
		{do: "PATCH /v3/feature_flags/set_roles_by_username", body: `{"enabled":false}`, want: 200},
		{as: "orgmanager", do: "POST /v3/roles", body: give("organization_auditor", "organization", "$org", newcomer),
			want: 403, has: []string{"330002", "Feature Disabled: set_roles_by_username"}},

		{as: "dev", do: "GET /v3/roles?include=user,space,organization&types=space_developer", want: 200,
			has: []string{`"users":[`, `"spaces":[`, `"organizations":[`, "newcomer-guid"}, not: []string{"$space2", "$org2"}},
		{as: "dev", do: "GET /v3/roles/$devrole?include=user", want: 200, has: []string{`"username":"newcomer"`}},
		{as: "dev", do: "DELETE /v3/roles/$devrole", want: 403},
		{as: "orgmanager", do: "DELETE /v3/roles/$member", want: 422,
			has: []string{"Cannot delete organization_user role while user has roles in spaces in that organization."}},
		{as: "manager", do: "DELETE /v3/roles/$devrole", want: 202},
		{as: "orgmanager", do: "DELETE /v3/roles/$member", want: 202},
		{as: "stranger", do: "DELETE /v3/roles/$member", want: 404, has: []string{"Role not found"}},
		{do: "DELETE /v3/users/newcomer-guid", want: 202},
		{do: "GET /v3/users/newcomer-guid", want: 404, has: []string{"User not found"}},
	})
}

func TestFlagAndGroupScenarios(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.play([]step{
		{as: "stranger", do: "GET /v3/feature_flags?per_page=3&order_by=-name", want: 200,
			has: []string{`"user_org_creation"`, `"total_results":19`}},
		{as: "stranger", do: "GET /v3/feature_flags/app_scaling", want: 200, has: []string{`"enabled":true`,
			`"updated_at":null`, `"custom_error_message":null`}},
		{as: "dev", do: "PATCH /v3/feature_flags/app_scaling", body: `{"enabled":false}`, want: 403},
		{do: "PATCH /v3/feature_flags/nonsense", body: `{"enabled":false}`, want: 404,
			has: []string{"Feature flag not found"}},
		{do: "PATCH /v3/feature_flags/app_scaling", body: `{"enabled":"no"}`, want: 422,
			has: []string{"enabled must be a boolean"}},
		{do: "PATCH /v3/feature_flags/app_scaling", body: `{"enabled":false,"custom_error_message":"not on Fridays"}`,
			want: 200, has: []string{"not on Fridays"}},
		{as: "dev", do: "POST /v3/processes/$app/actions/scale", body: `{"instances":2}`, want: 403,
			has: []string{`"code":330002`, "CF-FeatureDisabled", "Feature Disabled: not on Fridays"}},
		{do: "POST /v3/processes/$app/actions/scale", body: `{"instances":2}`, want: 202},
		{do: "PATCH /v3/feature_flags/app_scaling", body: `{"custom_error_message":null}`, want: 200,
			has: []string{`"custom_error_message":null`, `"enabled":false`}},
		{as: "dev", do: "POST /v3/apps/$app/processes/web/actions/scale", body: `{"instances":2}`, want: 403,
			has: []string{"Feature Disabled: app_scaling"}},
		{do: "PATCH /v3/feature_flags/route_creation", body: `{"enabled":false}`, want: 200},
		{as: "dev", do: "POST /v3/routes",
			body: `{"host":"x","relationships":{"space":{"data":{"guid":"$space"}},"domain":{"data":{"guid":"$domain"}}}}`,
			want: 403, has: []string{"Feature Disabled: route_creation"}},
		{do: "PATCH /v3/feature_flags/env_var_visibility", body: `{"enabled":false}`, want: 200},
		{as: "dev", do: "GET /v3/apps/$app/env", want: 403, has: []string{"Feature Disabled: env_var_visibility"},
			not: []string{"hunter2"}},
		{as: "dev", do: "GET /v3/apps/$app/environment_variables", want: 403, not: []string{"hunter2"}},
		{do: "GET /v3/apps/$app/env", want: 200, has: []string{"hunter2"}},

		{do: "PATCH /v3/environment_variable_groups/running", body: `{"var":{"A":"1","B":"2"}}`, want: 200,
			has: []string{`"A":"1"`, `"name":"running"`, `"updated_at":"`}},
		{do: "PATCH /v3/environment_variable_groups/running", body: `{"var":{"A":null}}`, want: 200, has: []string{`"B":"2"`},
			not: []string{`"A"`}},
		{do: "PATCH /v3/environment_variable_groups/running", body: `{"var":{"A":1}}`, want: 422,
			has: []string{"must be a string"}},
		{do: "PATCH /v3/environment_variable_groups/running", body: `{"var":{"VCAP_X":"1"}}`, want: 422,
			has: []string{"VCAP_"}},
		{do: "PATCH /v3/environment_variable_groups/running", body: `{"var":{"PORT":"1"}}`, want: 422, has: []string{"PORT"}},
		{do: "PATCH /v3/environment_variable_groups/running", body: `{"var":[]}`, want: 422},
		{do: "PATCH /v3/environment_variable_groups/nonsense", body: `{"var":{}}`, want: 404,
			has: []string{"Environment variable group not found"}},
		{as: "dev", do: "PATCH /v3/environment_variable_groups/running", body: `{"var":{}}`, want: 403},
		{as: "dev", do: "GET /v3/environment_variable_groups/staging", want: 200,
			has: []string{`"var":{}`, `"updated_at":null`}},
	})
	manifest := w.job(step{as: "dev", do: "POST /v3/spaces/$space/actions/apply_manifest",
		body: "applications: [{name: app, default-route: true}]", want: 202})
	if manifest.at("state") != "FAILED" ||
		manifest.at("errors.0.detail") != "For application 'app': Feature Disabled: route_creation" ||
		manifest.at("errors.0.code") != 330002.0 {
		t.Errorf("a manifest goes around the flag: %s", manifest.body)
	}
}

func TestMetadataScenarios(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	long := strings.Repeat("x", 63)
	tooLong := long + "x"
	set := func(kind, key, value string) step {
		return step{do: "PATCH /v3/apps/$app", body: `{"metadata":{"` + kind + `":{"` + key + `":` + value + `}}}`}
	}
	for _, c := range []struct {
		step
		want int
		has  string
	}{
		{set("labels", "k", `"v"`), 200, `"k":"v"`},
		{set("labels", "k", `null`), 200, `"labels":{}`},
		{set("labels", "absent", `null`), 200, `"labels":{}`},
		{set("labels", "empty", `""`), 200, `"empty":""`},
		{set("labels", "empty", `null`), 200, `"labels":{}`},
		{set("labels", "example.com/k", `"v.w_x-y"`), 200, `"example.com/k":"v.w_x-y"`},
		{set("labels", "example.com/k", `null`), 200, `"labels":{}`},
		{set("labels", long, `"`+long+`"`), 200, long},
		{set("labels", long, `null`), 200, `"labels":{}`},
		{set("labels", tooLong, `"v"`), 422, "Metadata label key error"},
		{set("labels", "k", `"`+tooLong+`"`), 422, "Metadata label value error"},
		{set("labels", "", `"v"`), 422, "Metadata label key error"},
		{set("labels", "a b", `"v"`), 422, "Metadata label key error"},
		{set("labels", "-a", `"v"`), 422, "Metadata label key error"},
		{set("labels", "a/b/c", `"v"`), 422, "Metadata label key error"},
		{set("labels", "no_dns/b", `"v"`), 422, "Metadata label key error"},
		{set("labels", "cloudfoundry.org/b", `"v"`), 422, "prefix 'cloudfoundry.org' is reserved"},
		{set("labels", "k", `"-v"`), 422, "Metadata label value error"},
		{set("labels", "k", `"a b"`), 422, "Metadata label value error"},
		{set("labels", "k", `5`), 422, "must be a string"},
		{set("annotations", "k", `"any text, ünïcode"`), 200, "any text, ünïcode"},
		{set("annotations", "-k", `"v"`), 422, "Metadata annotation key error"},
		{set("annotations", "k", `null`), 200, `"annotations":{}`},
		{step{do: "PATCH /v3/apps/$app", body: `{"metadata":{"nonsense":{}}}`}, 422, "Unknown field(s): 'nonsense'"},
		{step{do: "PATCH /v3/apps/$app", body: `{"metadata":{"labels":[]}}`}, 422, "must be an object"},
		{step{do: "PATCH /v3/apps/$app", body: `{"metadata":null}`}, 200, `"labels":{}`},
	} {
		c.step.want, c.step.has = c.want, []string{c.has}
		w.one(c.step)
	}
	huge := strings.Repeat("x", 5001)
	w.one(step{do: "PATCH /v3/apps/$app", body: `{"metadata":{"annotations":{"k":"` + huge + `"}}}`, want: 422,
		has: []string{"greater than 5000"}})
	w.one(step{do: "PATCH /v3/apps/$app", body: `{"metadata":{"annotations":{"k":"` + huge[1:] + `"}}}`, want: 200})
}
