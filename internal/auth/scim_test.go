package auth_test

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"
)

func resources(a *answer) []map[string]any {
	var out []map[string]any
	list, _ := a.json["resources"].([]any)
	for _, r := range list {
		out = append(out, r.(map[string]any))
	}
	return out
}

func TestUsers(t *testing.T) {
	t.Parallel()
	f := setup(t)
	admin := bearer(f.admin())
	create := func(body any) *answer { return f.call(http.MethodPost, "/Users", body, admin) }

	t.Run("AsCFCreatesThem", func(t *testing.T) {
		t.Parallel()
		// cf sends the origin empty and the plain name as address.
		a := f.want(create(map[string]any{
			"userName": "plain", "password": "pw", "origin": "", "name": map[string]string{"familyName": "plain",
				"givenName": "plain"},
			"emails": []map[string]any{{"value": "plain", "primary": true}},
		}), 201)
		if a.text("id") == "" || a.text("origin") != "uaa" || a.json["active"] != true ||
			strings.Contains(a.body, "argon2") || strings.Contains(a.body, `"pw"`) {
			t.Errorf("answer %s", a.body)
		}
		f.wantError(create(map[string]any{"userName": "PLAIN", "password": "pw",
			"emails": []map[string]any{{"value": "plain@x.org"}}}), 409, "scim_resource_already_exists")
		f.want(f.call(http.MethodDelete, "/Users/"+a.text("id"), nil, admin), 200)
		f.wantError(f.call(http.MethodDelete, "/Users/"+a.text("id"), nil, admin), 404, "scim_resource_not_found")
	})
	t.Run("Refused", func(t *testing.T) {
		t.Parallel()
		email := []map[string]any{{"value": "x@example.org"}}
		for name, tc := range map[string]struct {
			body   any
			status int
			word   string
		}{
			"no name":  {map[string]any{"password": "pw", "emails": email}, 400, "invalid_scim_resource"},
			"no email": {map[string]any{"userName": "x1", "password": "pw"}, 400, "invalid_scim_resource"},
			"bad email": {map[string]any{"userName": "x2", "password": "pw",
				"emails": []map[string]any{{"value": "a@b\r\nBcc: c@d"}}}, 400, "invalid_scim_resource"},
			"no password": {map[string]any{"userName": "x3", "emails": email}, 422, "invalid_password"},
			"wrong type":  {`{"userName": 3}`, 422, "invalid_request"},
			"broken JSON": {`{"userName": `, 400, "invalid_request"},
			"empty":       {``, 400, "invalid_request"},
			"two values":  {`{} {}`, 400, "invalid_request"},
			"too large":   {`{"userName": "` + strings.Repeat("x", 1<<20) + `"}`, 413, "invalid_request"},
		} {
			if a := create(tc.body); a.status != tc.status || a.text("error") != tc.word {
				t.Errorf("%s: answer is %d %s, want %d %s", name, a.status, a.body, tc.status, tc.word)
			}
		}
	})
	t.Run("UpdateNeedsItsVersion", func(t *testing.T) {
		t.Parallel()
		id := f.user("upd", "pw")
		put := func(match, name string) *answer {
			return f.call(http.MethodPut, "/Users/"+id, map[string]any{
				"userName": "upd", "name": map[string]string{"givenName": name, "familyName": "F"},
				"emails": []map[string]any{{"value": "upd@example.org"}},
			}, admin, header("If-Match", match))
		}
		f.wantError(put("", "A"), 400, "invalid_scim_resource")
		a := f.want(put("0", "A"), 200)
		if a.header.Get("ETag") != `"1"` || !strings.Contains(a.body, `"givenName":"A"`) {
			t.Errorf("ETag is %s, want \"1\", and the given name A: %s", a.header.Get("ETag"), a.body)
		}
		f.wantError(put("0", "B"), 412, "scim_resource_conflict")
		f.want(put(`"1"`, "C"), 200)
		f.want(put("*", "D"), 200)
		f.want(f.password("upd", "pw"), 200)
	})
	t.Run("Locale", func(t *testing.T) {
		t.Parallel()
		id := f.user("speaks", "pw")
		change := func(locale any) *answer {
			return f.call(http.MethodPatch, "/Users/"+id, map[string]any{"locale": locale}, admin, header("If-Match", "*"))
		}
		if a := f.want(f.call(http.MethodGet, "/Users/"+id, nil, admin), 200); strings.Contains(a.body, "locale") {
			t.Errorf("a user without a locale is %s", a.body)
		}
		for _, locale := range []string{"de-CH", "en_US", "zh-Hant-TW"} {
			if a := f.want(change(locale), 200); a.text("locale") != locale {
				t.Errorf("%s became %s", locale, a.body)
			}
		}
		f.wantError(change("not a locale"), 400, "invalid_scim_resource")
		f.wantError(change(strings.Repeat("a", 100)), 400, "invalid_scim_resource")
		f.want(change(""), 200)
	})
	t.Run("SelfService", func(t *testing.T) {
		t.Parallel()
		id, other := f.user("self", "pw"), f.user("other", "pw")
		me := bearer(f.want(f.password("self", "pw"), 200).text("access_token"))
		f.want(f.call(http.MethodGet, "/Users/"+id, nil, me), 200)
		f.wantError(f.call(http.MethodGet, "/Users/"+other, nil, me), 403, "insufficient_scope")
		f.wantError(f.call(http.MethodGet, "/Users", nil, me), 403, "insufficient_scope")
		a := f.want(f.call(http.MethodPatch, "/Users/"+id, map[string]any{
			"userName": "admin2", "verified": false, "active": false, "name": map[string]string{"givenName": "Me"},
			"emails": []map[string]any{{"value": "boss@example.org"}},
		}, me, header("If-Match", "*")), 200)
		if a.text("userName") != "self" || a.json["active"] != true || a.json["verified"] != true ||
			strings.Contains(a.body, "boss@") || !strings.Contains(a.body, `"Me"`) {
			t.Errorf("answer %s", a.body)
		}
		f.wantError(f.call(http.MethodPatch, "/Users/"+other, map[string]any{}, me, header("If-Match", "*")), 403,
			"insufficient_scope")
		f.wantError(f.call(http.MethodDelete, "/Users/"+other, nil, me), 403, "insufficient_scope")
	})
	t.Run("Password", func(t *testing.T) {
		t.Parallel()
		id, other := f.user("pass", "old"), f.user("pass2", "old")
		me := bearer(f.want(f.password("pass", "old"), 200).text("access_token"))
		change := func(id string, body map[string]string, who edit) *answer {
			return f.call(http.MethodPut, "/Users/"+id+"/password", body, who)
		}
		f.wantError(change(id, map[string]string{"oldPassword": "wrong", "password": "new"}, me), 401, "unauthorized")
		f.wantError(change(id, map[string]string{"oldPassword": "old", "password": ""}, me), 422, "invalid_password")
		f.wantError(change(id, map[string]string{"oldPassword": "old", "password": "old"}, me), 422, "invalid_password")
		f.wantError(change(other, map[string]string{"oldPassword": "old", "password": "new"}, me), 403, "insufficient_scope")
		f.want(change(id, map[string]string{"oldPassword": "old", "password": "new"}, me), 200)
		f.wantError(f.password("pass", "old"), 401, "unauthorized")
		f.want(f.password("pass", "new"), 200)
		f.want(change(other, map[string]string{"password": "set by admin"}, admin), 200)
		f.want(f.password("pass2", "set by admin"), 200)
	})
}

func TestPasswordChangeEndsAllTokens(t *testing.T) {
	t.Parallel()
	f := setup(t)
	id := f.user("eve", "old")
	a := f.want(f.password("eve", "old"), 200)
	b := f.browser()
	f.want(f.logIn(b, "eve", "old", ""), 303)
	f.clock.Advance(2 * time.Second)
	f.want(f.call(http.MethodPut, "/Users/"+id+"/password", map[string]string{"password": "new"}, bearer(f.admin())), 200)
	f.wantError(f.call(http.MethodGet, "/userinfo", nil, bearer(a.text("access_token"))), 401, "invalid_token")
	f.wantError(f.refresh(a.text("refresh_token")), 401, "invalid_token")
	if f.callWith(b, http.MethodGet, "/passcode", nil, asBrowser).status != http.StatusFound {
		t.Error("the browser is still logged in")
	}
	f.want(f.password("eve", "new"), 200)
}

func TestUserLists(t *testing.T) {
	t.Parallel()
	f := setup(t)
	admin := bearer(f.admin())
	ids := map[string]string{}
	for _, n := range []string{"alice", "alfred", "bert", "o'hara", "per%cent", "zoë"} {
		ids[n] = f.user(n, "pw")
	}
	list := func(params ...string) *answer {
		v := url.Values{}
		for i := 0; i < len(params); i += 2 {
			v.Set(params[i], params[i+1])
		}
		return f.call(http.MethodGet, "/Users?"+v.Encode(), nil, admin)
	}
	names := func(a *answer) []string {
		var out []string
		for _, r := range resources(f.want(a, 200)) {
			out = append(out, r["userName"].(string))
		}
		slices.Sort(out)
		return out
	}
	for filter, want := range map[string][]string{
		`userName eq "alice"`:                                            {"alice"},
		`username Eq "ALICE" and origin eq "uaa"`:                        {"alice"},
		`userName eq "alice" and origin eq "ldap"`:                       nil,
		`userName sw "al"`:                                               {"alfred", "alice"},
		`userName co "er"`:                                               {"bert", "per%cent"},
		`userName sw "al" or userName eq "bert"`:                         {"alfred", "alice", "bert"},
		`emails.value eq "bert@example.org"`:                             {"bert"},
		`userName eq "o'hara"`:                                           {"o'hara"},
		`userName co "%"`:                                                {"per%cent"},
		`userName eq "' OR '1'='1"`:                                      nil,
		`id eq "` + ids["zoë"] + `"`:                                     {"zoë"},
		`id eq "` + ids["bert"] + `" or id eq "nobody"`:                  {"bert"},
		`(userName eq "alice" or userName eq "bert") and active eq true`: {"alice", "bert"},
	} {
		if got := names(list("filter", filter)); !slices.Equal(got, want) {
			t.Errorf("filter %s: %v, want %v", filter, got, want)
		}
	}
	for _, bad := range []string{`userName eq`, `userName like "x"`, `shoeSize eq "3"`, `userName eq "x" and`, `((((`,
		`active eq "maybe"`} {
		f.wantError(list("filter", bad), 400, "invalid_scim_resource")
	}
	f.wantError(list("count", "many"), 400, "invalid_scim_resource")
	f.wantError(list("sortBy", "shoeSize"), 400, "invalid_scim_resource")
	f.wantError(list("sortOrder", "sideways"), 400, "invalid_scim_resource")

	// Pages hold every user once.
	var all []string
	for start := 1; ; start += 2 {
		a := f.want(list("startIndex", fmt.Sprint(start), "count", "2", "sortBy", "userName"), 200)
		if a.json["totalResults"].(float64) != 7 || a.json["itemsPerPage"].(float64) != 2 ||
			int(a.json["startIndex"].(float64)) != start {
			t.Fatalf("page %d: %s", start, a.body)
		}
		page := resources(a)
		if len(page) == 0 {
			break
		}
		for _, r := range page {
			all = append(all, r["userName"].(string))
		}
	}
	if want := []string{"admin", "alfred", "alice", "bert", "o'hara", "per%cent", "zoë"}; !slices.Equal(all, want) {
		t.Errorf("pages hold %v, want %v", all, want)
	}
	only := resources(f.want(list("attributes", "id,emails", "count", "1"), 200))[0]
	if len(only) != 2 || only["id"] == nil || only["emails"] == nil {
		t.Errorf("attributes=id,emails gave %v", only)
	}
}

func TestGroups(t *testing.T) {
	t.Parallel()
	f := setup(t)
	admin := bearer(f.admin())
	eve := f.user("eve", "pw")
	create := func(name string, members ...map[string]any) *answer {
		return f.call(http.MethodPost, "/Groups", map[string]any{"displayName": name, "members": members}, admin)
	}
	inner := f.want(create("team.inner", map[string]any{"value": eve, "type": "USER"}), 201).text("id")
	outer := f.want(create("team.outer", map[string]any{"value": inner, "type": "GROUP"}), 201).text("id")
	f.wantError(create("team.inner"), 409, "scim_resource_already_exists")
	f.wantError(create("two words"), 400, "invalid_scim_resource")
	f.wantError(create("team.ghost", map[string]any{"value": "nobody"}), 400, "invalid_scim_resource")

	// Membership is transitive: the user has both scopes, if the client may request them.
	f.want(f.client(map[string]any{
		"client_id": "teamwork", "client_secret": "x", "authorized_grant_types": []string{"password"},
		"scope": []string{"team.*"},
	}), 201)
	scope := func() string {
		form := url.Values{"grant_type": {"password"}, "username": {"eve"}, "password": {"pw"}}
		return f.token(form, basic("teamwork", "x")).text("scope")
	}
	if got := scope(); got != "team.inner team.outer" {
		t.Errorf("scope %q", got)
	}
	// Groups that contain each other must not cause an endless loop.
	f.want(f.call(http.MethodPost, "/Groups/"+inner+"/members", map[string]any{"value": outer, "type": "GROUP"},
		admin), 201)
	if got := scope(); got != "team.inner team.outer" {
		t.Errorf("scope %q", got)
	}
	f.wantError(f.call(http.MethodPost, "/Groups/"+inner+"/members", map[string]any{"value": inner, "type": "GROUP"},
		admin), 400, "invalid_scim_resource")
	f.wantError(f.call(http.MethodPost, "/Groups/"+inner+"/members", map[string]any{"value": eve}, admin), 409,
		"member_already_exists")
	f.wantError(f.call(http.MethodPost, "/Groups/ghost/members", map[string]any{"value": eve}, admin), 404,
		"scim_resource_not_found")
	f.want(f.call(http.MethodGet, "/Groups/"+inner+"/members/"+eve, nil, admin), 200)
	if a := f.want(f.call(http.MethodGet, "/Groups/"+inner+"/members", nil, admin), 200); !strings.Contains(a.body, eve) {
		t.Errorf("members %s", a.body)
	}

	a := f.want(f.call(http.MethodPatch, "/Groups/"+inner, map[string]any{
		"members": []map[string]any{{"value": eve, "operation": "delete"}}, "description": "d",
	}, admin, header("If-Match", "*")), 200)
	if strings.Contains(a.body, eve) || a.text("description") != "d" {
		t.Errorf("after PATCH: %s", a.body)
	}
	f.wantError(f.call(http.MethodPut, "/Groups/"+inner, map[string]any{"displayName": "team.outer"}, admin,
		header("If-Match", "*")), 409, "scim_resource_already_exists")
	a = f.want(f.call(http.MethodPut, "/Groups/"+inner, map[string]any{"displayName": "team.renamed",
		"members": []map[string]any{{"value": eve}}}, admin, header("If-Match", "*")), 200)
	if a.text("displayName") != "team.renamed" {
		t.Errorf("after PUT: %s", a.body)
	}
	f.wantError(f.call(http.MethodDelete, "/Groups/"+inner+"/members/nobody", nil, admin), 404, "member_not_found")
	f.want(f.call(http.MethodDelete, "/Groups/"+inner, nil, admin), 200)
	f.wantError(f.call(http.MethodGet, "/Groups/"+inner, nil, admin), 404, "scim_resource_not_found")
	list := f.want(f.call(http.MethodGet, "/Groups?filter="+url.QueryEscape(`displayName sw "team."`), nil, admin), 200)
	if got := resources(list); len(got) != 1 || got[0]["id"] != outer {
		t.Errorf("left over: %s", list.body)
	}
}

func TestClients(t *testing.T) {
	t.Parallel()
	f := setup(t)
	admin := bearer(f.admin())
	body := func(kv ...any) map[string]any {
		m := map[string]any{"client_id": "c", "client_secret": "s", "authorized_grant_types": []string{"client_credentials"}}
		for i := 0; i < len(kv); i += 2 {
			m[kv[i].(string)] = kv[i+1]
		}
		return m
	}
	a := f.want(f.client(body("authorities", "a.read,a.write", "access_token_validity", 120, "team", "blue")), 201)
	if strings.Contains(a.body, `"s"`) || strings.Contains(a.body, "argon2") || a.text("team") != "blue" ||
		a.json["access_token_validity"].(float64) != 120 {
		t.Errorf("answer %s", a.body)
	}
	f.wantError(f.client(body()), 409, "invalid_client")
	for name, b := range map[string]map[string]any{
		"no id":             body("client_id", ""),
		"slash":             body("client_id", "a/b"),
		"no secret":         {"client_id": "d", "authorized_grant_types": []string{"client_credentials"}},
		"no grants":         body("client_id", "d", "authorized_grant_types", []string{}),
		"unknown grant":     body("client_id", "d", "authorized_grant_types", []string{"implicit"}),
		"no redirect":       body("client_id", "d", "authorized_grant_types", []string{"authorization_code"}),
		"wildcard redirect": body("client_id", "d", "redirect_uri", "https://*.example.org/"),
		"script redirect":   body("client_id", "d", "redirect_uri", "javascript:alert(1)"),
		"bad scope":         body("client_id", "d", "authorities", []string{"a b"}),
		"validity":          body("client_id", "d", "access_token_validity", "soon"),
	} {
		if a := f.client(b); a.status != 400 || a.text("error") != "invalid_client" {
			t.Errorf("%s: answer is %d %s, want 400 invalid_client", name, a.status, a.body)
		}
	}
	got := f.want(f.call(http.MethodGet, "/oauth/clients/c", nil, admin), 200)
	if !strings.Contains(got.body, `"a.write"`) {
		t.Errorf("answer %s", got.body)
	}
	tok := f.claims(f.want(f.token(url.Values{"grant_type": {"client_credentials"}}, basic("c", "s")), 200).
		text("access_token"))
	if tok.ExpiresAt-tok.IssuedAt != 120 {
		t.Errorf("the token lives %d s", tok.ExpiresAt-tok.IssuedAt)
	}
	upd := f.want(f.call(http.MethodPut, "/oauth/clients/c", body("authorities", []string{"a.read"}), admin), 200)
	if strings.Contains(upd.body, "a.write") {
		t.Errorf("answer %s", upd.body)
	}
	// As with UAA, an update keeps what it does not name.
	for _, partial := range []map[string]any{
		{"client_id": "c"}, {"client_id": "c", "authorized_grant_types": []string{}, "scope": []string{},
			"authorities": []string{}, "redirect_uri": []string{}}, {"name": "C", "more": 1},
	} {
		f.want(f.call(http.MethodPut, "/oauth/clients/c", partial, admin), 200)
	}
	kept := f.want(f.call(http.MethodGet, "/oauth/clients/c", nil, admin), 200)
	for _, want := range []string{`"authorized_grant_types":["client_credentials"]`, `"authorities":["a.read"]`,
		`"access_token_validity":120`, `"name":"C"`, `"more":1`} {
		if !strings.Contains(kept.body, want) {
			t.Errorf("after updates without it: %s, want %s", kept.body, want)
		}
	}
	f.want(f.token(url.Values{"grant_type": {"client_credentials"}}, basic("c", "s")), 200)
	f.wantError(f.call(http.MethodPut, "/oauth/clients/c", body("client_id", "other"), admin), 400, "invalid_client")
	f.wantError(f.call(http.MethodPut, "/oauth/clients/ghost", body("client_id", "ghost"), admin), 404, "not_found")
	list := f.want(f.call(http.MethodGet, "/oauth/clients?filter="+url.QueryEscape(`client_id eq "c"`), nil, admin), 200)
	if len(resources(list)) != 1 {
		t.Errorf("list %s", list.body)
	}
	f.want(f.call(http.MethodDelete, "/oauth/clients/c", nil, admin), 200)
	f.wantError(f.call(http.MethodGet, "/oauth/clients/c", nil, admin), 404, "not_found")
	f.wantError(f.token(url.Values{"grant_type": {"client_credentials"}}, basic("c", "s")), 401, "invalid_client")
}

// clients.write alone is not a way to become administrator.
func TestClientsCannotGiveWhatTheyLack(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.want(f.client(map[string]any{
		"client_id": "maker", "client_secret": "s", "authorized_grant_types": "client_credentials",
		"authorities": []string{"clients.write", "a.read"},
	}), 201)
	maker := bearer(f.token(url.Values{"grant_type": {"client_credentials"}}, basic("maker", "s")).text("access_token"))
	make := func(id string, authorities ...string) *answer {
		return f.call(http.MethodPost, "/oauth/clients", map[string]any{
			"client_id": id, "client_secret": "s", "authorized_grant_types": "client_credentials", "authorities": authorities,
		}, maker)
	}
	f.wantError(make("evil", "uaa.admin"), 400, "invalid_client")
	f.wantError(make("uaa", "uaa.admin"), 400, "invalid_client")
	f.wantError(make("*", "a.read"), 400, "invalid_client")
	f.wantError(make("mine", "mine.own"), 400, "invalid_client")
	f.wantError(make(f.user("victim", "pw"), "a.read"), 400, "invalid_client")
	f.want(make("good", "a.read"), 201)
	f.wantError(f.call(http.MethodDelete, "/oauth/clients/ingot-notifications", nil, maker), 400, "invalid_client")
	f.want(f.call(http.MethodDelete, "/oauth/clients/good", nil, maker), 200)
	f.want(make("good", "a.read"), 201)
	f.wantError(f.call(http.MethodPut, "/oauth/clients/good", map[string]any{
		"authorized_grant_types": "client_credentials", "authorities": []string{"uaa.admin"},
	}, maker), 400, "invalid_client")
	f.wantError(f.call(http.MethodPut, "/oauth/clients/admin/secret", map[string]any{"secret": "mine"}, maker), 403,
		"insufficient_scope")
	f.wantError(f.call(http.MethodPut, "/oauth/clients/ingot-console", map[string]any{
		"authorized_grant_types": "authorization_code", "redirect_uri": "https://evil.example/", "scope": "a.read",
	}, maker), 400, "invalid_client")

	f.want(f.client(map[string]any{
		"client_id": "own", "client_secret": "s", "authorized_grant_types": "client_credentials",
		"authorities": "clients.secret",
	}), 201)
	own := bearer(f.token(url.Values{"grant_type": {"client_credentials"}}, basic("own", "s")).text("access_token"))
	f.wantError(f.call(http.MethodPut, "/oauth/clients/admin/secret", map[string]any{"secret": "mine"}, own), 403,
		"insufficient_scope")
	f.wantError(f.call(http.MethodPut, "/oauth/clients/own/secret", map[string]any{"oldSecret": "x", "secret": "mine"},
		own), 401, "invalid_client")
	f.want(f.call(http.MethodPut, "/oauth/clients/own/secret", map[string]any{"oldSecret": "s", "secret": "mine"}, own),
		200)
}

// When the clock is set back, what was issued before stays valid, what was revoked stays
// revoked, and users whose tokens were revoked just before can log in.
func TestClockSetBack(t *testing.T) {
	t.Parallel()
	f := setup(t)
	id := f.user("eve", "old")
	kept := f.want(f.password("eve", "old"), 200)
	f.clock.Advance(-time.Hour)
	f.want(f.call(http.MethodGet, "/userinfo", nil, bearer(kept.text("access_token"))), 200)
	f.clock.Advance(time.Hour + 2*time.Second)
	change := func(password string) {
		t.Helper()
		f.want(f.call(http.MethodPut, "/Users/"+id+"/password", map[string]string{"password": password}, bearer(f.admin())),
			200)
	}
	change("new")
	f.clock.Advance(-time.Hour)
	f.wantError(f.call(http.MethodGet, "/userinfo", nil, bearer(kept.text("access_token"))), 401, "invalid_token")
	fresh := f.want(f.password("eve", "new"), 200)
	f.want(f.call(http.MethodGet, "/userinfo", nil, bearer(fresh.text("access_token"))), 200)
	f.want(f.refresh(fresh.text("refresh_token")), 200)
	b := f.browser()
	f.want(f.logIn(b, "eve", "new", ""), 303)
	if got := f.callWith(b, http.MethodGet, "/passcode", nil, asBrowser).status; got != http.StatusOK {
		t.Errorf("the browser is not logged in: %d, want 200", got)
	}
	// What was issued before the clock was set back is revoked as well.
	f.clock.Advance(time.Hour)
	ahead := f.want(f.password("eve", "new"), 200)
	f.clock.Advance(-time.Hour)
	change("newest")
	f.clock.Advance(2 * time.Second)
	f.wantError(f.refresh(ahead.text("refresh_token")), 401, "invalid_token")
	f.want(f.password("eve", "newest"), 200)
}
