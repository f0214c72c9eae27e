package auth_test

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"ingot/internal/auth"
)

var seedAuthorities = []string{
	"notifications.write", "notifications.manage", "notification_templates.write", "notification_templates.read",
	"critical_notifications.write",
}

func TestClientCredentials(t *testing.T) {
	t.Parallel()
	f := setup(t)
	// As in the notification service's interface: the grant type is a plain string.
	f.want(f.client(map[string]any{
		"client_id": "sender", "client_secret": "s3cret", "authorized_grant_types": "client_credentials",
		"authorities": seedAuthorities,
	}), 201)
	ask := func(scope string, edits ...edit) *answer {
		form := url.Values{"grant_type": {"client_credentials"}}
		if scope != "" {
			form.Set("scope", scope)
		}
		return f.token(form, edits...)
	}

	t.Run("CarriesExactlyItsAuthorities", func(t *testing.T) {
		t.Parallel()
		a := f.want(ask("", basic("sender", "s3cret")), 200)
		c := f.claims(a.text("access_token"))
		got, want := slices.Sorted(slices.Values(c.Scope)), slices.Sorted(slices.Values(seedAuthorities))
		if !slices.Equal(got, want) {
			t.Errorf("scopes %v, want %v", got, want)
		}
		if c.Subject != "sender" || c.ClientID != "sender" || c.CID != "sender" || c.AZP != "sender" || c.ZoneID != "uaa" ||
			c.GrantType != "client_credentials" || c.UserID != "" || c.UserName != "" || c.Issuer != f.url+"/oauth/token" ||
			c.ID == "" {
			t.Errorf("claims %+v", c)
		}
		for _, aud := range []string{"sender", "notifications", "notification_templates", "critical_notifications"} {
			if !slices.Contains(c.Audience, aud) {
				t.Errorf("audience %v lacks %s", c.Audience, aud)
			}
		}
		if a.text("token_type") != "bearer" || a.text("refresh_token") != "" || a.json["expires_in"].(float64) <= 0 ||
			a.text("jti") != c.ID {
			t.Errorf("answer %s", a.body)
		}
		if a.header.Get("Cache-Control") != "no-store" {
			t.Error("the answer may be cached")
		}
	})
	t.Run("CredentialsInTheForm", func(t *testing.T) {
		t.Parallel()
		f.want(f.token(url.Values{"grant_type": {"client_credentials"}, "client_id": {"sender"},
			"client_secret": {"s3cret"}}), 200)
	})
	t.Run("EncodedCredentials", func(t *testing.T) {
		t.Parallel()
		f.want(f.client(map[string]any{
			"client_id": "odd+id", "client_secret": "a%b c", "authorized_grant_types": []string{"client_credentials"},
			"authorities": "uaa.resource",
		}), 201)
		f.want(ask("", basic("odd+id", "a%b c")), 200)
		f.want(ask("", basic(url.QueryEscape("odd+id"), url.QueryEscape("a%b c")), header("X-CF-ENCODED-CREDENTIALS",
			"true")), 200)
	})
	t.Run("Subset", func(t *testing.T) {
		t.Parallel()
		a := f.want(ask("notifications.write", basic("sender", "s3cret")), 200)
		if a.text("scope") != "notifications.write" {
			t.Errorf("scope %q", a.text("scope"))
		}
	})
	t.Run("UnknownScopeIsNeverGranted", func(t *testing.T) {
		t.Parallel()
		for _, scope := range []string{"uaa.admin", "nonsense", "notifications.write uaa.admin", "uaa.none", "*",
			"notifications.*"} {
			a := f.wantError(ask(scope, basic("sender", "s3cret")), 400, "invalid_scope")
			if a.text("access_token") != "" {
				t.Errorf("scope %q: a token was issued", scope)
			}
		}
	})
	t.Run("BadCredentials", func(t *testing.T) {
		t.Parallel()
		f.wantError(ask("", basic("sender", "wrong")), 401, "invalid_client")
		f.wantError(ask("", basic("sender", "")), 401, "invalid_client")
		f.wantError(ask("", basic("nobody", "s3cret")), 401, "invalid_client")
		f.wantError(ask(""), 401, "unauthorized")
		f.wantError(f.token(url.Values{"grant_type": {"client_credentials"}}, basic("cf", "x")), 401, "invalid_client")
	})
	t.Run("GrantNotAllowed", func(t *testing.T) {
		t.Parallel()
		f.wantError(f.token(url.Values{"grant_type": {"client_credentials"}}, basic("cf", "")), 401, "unauthorized_client")
		f.wantError(f.token(url.Values{"grant_type": {"password"}, "username": {"admin"}, "password": {adminPassword}},
			basic("sender", "s3cret")),
			401, "unauthorized_client")
	})
	t.Run("BadRequests", func(t *testing.T) {
		t.Parallel()
		f.wantError(f.token(url.Values{}, basic("sender", "s3cret")), 400, "invalid_request")
		f.wantError(f.token(url.Values{"grant_type": {"implicit"}}, basic("sender", "s3cret")), 400, "unsupported_grant_type")
		f.wantError(f.token(url.Values{"grant_type": {"client_credentials", "password"}}, basic("sender", "s3cret")), 400,
			"invalid_request")
		f.wantError(f.call(http.MethodPost, "/oauth/token", `{"grant_type":"client_credentials"}`, basic("sender", "s3cret")),
			400, "invalid_request")
		f.wantError(f.token(url.Values{"grant_type": {"client_credentials"}, "client_id": {"admin"}},
			basic("sender", "s3cret")), 400, "invalid_request")
		// Secrets in the query end up in logs, so they are ignored.
		f.wantError(f.call(http.MethodPost,
			"/oauth/token?grant_type=client_credentials&client_id=sender&client_secret=s3cret", url.Values{}), 401,
			"unauthorized")
	})
}

func TestTwoSecretsOfAClient(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.want(f.client(map[string]any{
		"client_id": "c", "client_secret": "one", "authorized_grant_types": []string{"client_credentials"},
		"authorities": []string{"uaa.resource"},
	}), 201)
	works := func(secret string) bool {
		return f.token(url.Values{"grant_type": {"client_credentials"}}, basic("c", secret)).status == 200
	}
	change := func(body map[string]any, status int) {
		t.Helper()
		f.want(f.call(http.MethodPut, "/oauth/clients/c/secret", body, bearer(f.admin())), status)
	}
	if !works("one") {
		t.Fatal("the first secret does not work")
	}
	change(map[string]any{"secret": "two", "changeMode": "ADD"}, 200)
	if !works("one") || !works("two") {
		t.Error("after ADD both secrets must work")
	}
	change(map[string]any{"secret": "three", "changeMode": "ADD"}, 400)
	change(map[string]any{"changeMode": "DELETE"}, 200)
	if works("one") || !works("two") {
		t.Error("after DELETE only the newer secret may work")
	}
	change(map[string]any{"changeMode": "DELETE"}, 400)
	change(map[string]any{"secret": "four"}, 200)
	if works("two") || !works("four") {
		t.Error("after a change only the new secret may work: a remembered one was accepted")
	}
	change(map[string]any{"changeMode": "SHUFFLE", "secret": "x"}, 400)
	change(map[string]any{"secret": ""}, 400)
}

func TestPasswordGrant(t *testing.T) {
	t.Parallel()
	f := setup(t)
	id := f.user("ann", "pa ss wörd✓")

	t.Run("Claims", func(t *testing.T) {
		t.Parallel()
		a := f.want(f.password("ANN", "pa ss wörd✓"), 200)
		c := f.claims(a.text("access_token"))
		if c.UserID != id || c.Subject != id || c.UserName != "ann" || c.Origin != "uaa" || c.Email != "ann@example.org" ||
			c.ClientID != "cf" || c.GrantType != "password" || !c.Revocable || c.AuthTime == 0 {
			t.Errorf("claims %+v", c)
		}
		for _, s := range []string{"cloud_controller.read", "cloud_controller.write", "openid",
			"notification_preferences.read", "notification_preferences.write"} {
			if !slices.Contains(c.Scope, s) {
				t.Errorf("scopes %v lack %s", c.Scope, s)
			}
		}
		if slices.Contains(c.Scope, "cloud_controller.admin") || slices.Contains(c.Scope, "uaa.admin") {
			t.Errorf("an ordinary user got %v", c.Scope)
		}
		if a.text("token_type") != "bearer" || a.text("refresh_token") == "" {
			t.Errorf("answer %s", a.body)
		}
	})
	t.Run("AdminIsAdmin", func(t *testing.T) {
		t.Parallel()
		c := f.claims(f.want(f.password("admin", adminPassword), 200).text("access_token"))
		if !c.HasAny("cloud_controller.admin") || !c.HasAny("uaa.admin") || !c.HasAny("scim.write") {
			t.Errorf("scopes %v", c.Scope)
		}
	})
	t.Run("RequestedScopes", func(t *testing.T) {
		t.Parallel()
		form := url.Values{"grant_type": {"password"}, "username": {"ann"}, "password": {"pa ss wörd✓"},
			"scope": {"openid cloud_controller.read"}}
		if got := f.want(f.token(form, basic("cf", "")), 200).text("scope"); got != "cloud_controller.read openid" {
			t.Errorf("scope %q", got)
		}
		form.Set("scope", "bananas")
		f.wantError(f.token(form, basic("cf", "")), 400, "invalid_scope")
		form.Set("scope", "uaa.admin") // the client may request it, but the user does not have it
		f.wantError(f.token(form, basic("cf", "")), 400, "invalid_scope")
	})
	t.Run("Refused", func(t *testing.T) {
		t.Parallel()
		for _, a := range []*answer{f.password("ann", "wrong"), f.password("nobody", "x"), f.password("ann", ""),
			f.password("", "x")} {
			f.wantError(a, 401, "unauthorized")
			if a.text("error_description") != "Bad credentials" {
				t.Errorf("%s tells too much", a.body)
			}
		}
	})
	t.Run("Origin", func(t *testing.T) {
		t.Parallel()
		form := url.Values{"grant_type": {"password"}, "username": {"ann"}, "password": {"pa ss wörd✓"}}
		hint := "/oauth/token?login_hint=" + url.QueryEscape(`{"origin":"uaa"}`)
		f.want(f.call(http.MethodPost, hint, form, basic("cf", "")), 200)
		hint = "/oauth/token?login_hint=" + url.QueryEscape(`{"origin":"ldap"}`)
		f.wantError(f.call(http.MethodPost, hint, form, basic("cf", "")), 401, "unauthorized")
	})
}

func TestPasswordGrantSwitchedOff(t *testing.T) {
	t.Parallel()
	f := setup(t, func(o *auth.Options) { o.PasswordGrant = false })
	a := f.wantError(f.password("admin", adminPassword), 400, "unsupported_grant_type")
	if !strings.Contains(a.text("error_description"), "cf login --sso") {
		t.Errorf("no way out is named: %s", a.body)
	}
	if strings.Contains(f.call(http.MethodGet, "/.well-known/openid-configuration", nil).body, `"password"`) {
		t.Error("discovery still offers the password grant")
	}
}

func TestLockout(t *testing.T) {
	t.Parallel()
	f := setup(t)
	id := f.user("bob", "right")
	locked := "Your account has been locked because of too many failed attempts to login."
	fail := func(n int) {
		for range n {
			f.wantError(f.password("bob", wrong()), 401, "unauthorized")
			f.clock.Advance(time.Second)
		}
	}
	fail(5)
	if got := f.password("bob", "right").text("error_description"); got != locked {
		t.Fatalf("after five failures: %q", got)
	}
	f.clock.Advance(time.Minute)
	fail(1) // the sixth doubles the time
	f.clock.Advance(90 * time.Second)
	if got := f.password("bob", "right").text("error_description"); got != locked {
		t.Fatalf("the lock did not last longer: %q", got)
	}
	f.clock.Advance(31 * time.Second)
	f.want(f.password("bob", "right"), 200)
	fail(4)
	f.want(f.password("bob", "right"), 200) // a success resets the failures

	fail(5)
	// Unknown names are locked too, so that a lock does not reveal which exist.
	for range 5 {
		f.wantError(f.password("nobody-at-all", wrong()), 401, "unauthorized")
	}
	if got := f.password("nobody-at-all", wrong()).text("error_description"); got != locked {
		t.Errorf("a stranger after five failures: %q", got)
	}

	status := f.want(f.call(http.MethodGet, "/Users/"+id+"/status", nil, bearer(f.admin())), 200)
	if status.json["locked"] != true {
		t.Errorf("status %s", status.body)
	}
	f.want(f.call(http.MethodPatch, "/Users/"+id+"/status", map[string]any{"locked": true}, bearer(f.admin())), 400)
	f.want(f.call(http.MethodPatch, "/Users/"+id+"/status", map[string]any{"locked": false}, bearer(f.admin())), 200)
	f.want(f.password("bob", "right"), 200)
}

func TestRefresh(t *testing.T) {
	t.Parallel()
	login := func(f *fixture) string {
		f.user("eve", "pw")
		return f.want(f.password("eve", "pw"), 200).text("refresh_token")
	}
	t.Run("RotatesWithGrace", func(t *testing.T) {
		t.Parallel()
		f := setup(t)
		first := login(f)
		a := f.want(f.refresh(first), 200)
		second := a.text("refresh_token")
		if second == "" || second == first {
			t.Fatal("the refresh token did not change")
		}
		if a.text("token_type") != "bearer" || f.claims(a.text("access_token")).UserName != "eve" {
			t.Errorf("answer %s", a.body)
		}
		// Another cf with the same configuration file still has the first.
		f.clock.Advance(time.Minute)
		f.want(f.refresh(first), 200)
		f.want(f.refresh(second), 200)
	})
	// Two clients with one token, which may be stolen, share one chain: the login is
	// revoked when one of them uses a token rotated longer ago than the grace period.
	t.Run("TwiceInGraceIsOneChain", func(t *testing.T) {
		t.Parallel()
		f := setup(t)
		first := login(f)
		id := func(a *answer) string { return f.claims(a.text("refresh_token")).ID }
		mine, theirs := f.want(f.refresh(first), 200), f.want(f.refresh(first), 200)
		if id(mine) != id(theirs) {
			t.Fatal("one refresh token gave two chains")
		}
		if mine.text("access_token") == "" || theirs.text("access_token") == "" {
			t.Fatal("no access token")
		}
		next := f.want(f.refresh(mine.text("refresh_token")), 200)
		if again := f.want(f.refresh(first), 200); id(again) != id(next) {
			t.Error("an older token does not give the newest of its chain")
		}
		f.clock.Advance(3 * time.Minute)
		f.wantError(f.refresh(theirs.text("refresh_token")), 401, "invalid_token")
		f.wantError(f.refresh(next.text("refresh_token")), 401, "invalid_token")
	})
	t.Run("AtOnceIsOneChain", func(t *testing.T) {
		t.Parallel()
		f := setup(t)
		first := login(f)
		ids := make([]string, 8)
		var all sync.WaitGroup
		for i := range ids {
			all.Go(func() { ids[i] = f.claims(f.refresh(first).text("refresh_token")).ID })
		}
		all.Wait()
		if slices.ContainsFunc(ids, func(s string) bool { return s != ids[0] }) {
			t.Errorf("chains %q", ids)
		}
	})
	t.Run("ReuseAfterGraceEndsTheLogin", func(t *testing.T) {
		t.Parallel()
		f := setup(t)
		first := login(f)
		second := f.want(f.refresh(first), 200).text("refresh_token")
		f.clock.Advance(3 * time.Minute)
		f.wantError(f.refresh(first), 401, "invalid_token")
		f.wantError(f.refresh(second), 401, "invalid_token")
		f.want(f.password("eve", "pw"), 200) // only that login was revoked
	})
	t.Run("Expires", func(t *testing.T) {
		t.Parallel()
		f := setup(t)
		first := login(f)
		f.clock.Advance(20 * 24 * time.Hour)
		second := f.want(f.refresh(first), 200).text("refresh_token")
		f.clock.Advance(11 * 24 * time.Hour)
		f.wantError(f.refresh(second), 401, "invalid_token")
	})
	t.Run("KeepsToTheLogin", func(t *testing.T) {
		t.Parallel()
		f := setup(t)
		f.user("eve", "pw")
		form := url.Values{"grant_type": {"password"}, "username": {"eve"}, "password": {"pw"},
			"scope": {"openid cloud_controller.read"}}
		refresh := f.want(f.token(form, basic("cf", "")), 200).text("refresh_token")
		form = url.Values{"grant_type": {"refresh_token"}, "refresh_token": {refresh}, "scope": {"cloud_controller.write"}}
		f.wantError(f.token(form, basic("cf", "")), 400, "invalid_scope")
		form.Set("scope", "openid")
		narrow := f.want(f.token(form, basic("cf", "")), 200)
		if narrow.text("scope") != "openid" {
			t.Errorf("scope %q", narrow.text("scope"))
		}
		if got := f.want(f.refresh(narrow.text("refresh_token")), 200).text("scope"); got != "cloud_controller.read openid" {
			t.Errorf("a narrowed token narrowed the login: %q", got)
		}
	})
	t.Run("ForOneClientOnly", func(t *testing.T) {
		t.Parallel()
		f := setup(t)
		refresh := login(f)
		f.want(f.client(map[string]any{
			"client_id": "other", "client_secret": "x", "authorized_grant_types": []string{"refresh_token", "password"},
			"scope": []string{"openid"},
		}), 201)
		form := url.Values{"grant_type": {"refresh_token"}, "refresh_token": {refresh}}
		f.wantError(f.token(form, basic("other", "x")), 401, "invalid_token")
		f.want(f.refresh(refresh), 200) // still valid after the failure
	})
	t.Run("IsNoAccessTokenAndViceVersa", func(t *testing.T) {
		t.Parallel()
		f := setup(t)
		f.user("eve", "pw")
		a := f.want(f.password("eve", "pw"), 200)
		f.wantError(f.call(http.MethodGet, "/userinfo", nil, bearer(a.text("refresh_token"))), 401, "invalid_token")
		f.wantError(f.refresh(a.text("access_token")), 401, "invalid_token")
		f.wantError(f.refresh("garbage"), 401, "invalid_token")
		f.wantError(f.refresh(""), 401, "invalid_token")
	})
	t.Run("EndsWithTheUser", func(t *testing.T) {
		t.Parallel()
		f := setup(t)
		id := f.user("eve", "pw")
		a := f.want(f.password("eve", "pw"), 200)
		f.clock.Advance(2 * time.Second)
		f.want(f.call(http.MethodPatch, "/Users/"+id, map[string]any{"active": false}, bearer(f.admin()),
			header("If-Match", "*")), 200)
		f.wantError(f.refresh(a.text("refresh_token")), 401, "invalid_token")
		f.wantError(f.call(http.MethodGet, "/userinfo", nil, bearer(a.text("access_token"))), 401, "invalid_token")
		f.wantError(f.password("eve", "pw"), 401, "unauthorized")
	})
	t.Run("LosesScopesTheUserLost", func(t *testing.T) {
		t.Parallel()
		f := setup(t)
		id := f.user("eve", "pw")
		group := f.call(http.MethodGet, "/Groups?filter="+url.QueryEscape(`displayName eq "cloud_controller.admin"`), nil,
			bearer(f.admin()))
		gid := group.json["resources"].([]any)[0].(map[string]any)["id"].(string)
		f.want(f.call(http.MethodPost, "/Groups/"+gid+"/members", map[string]any{"value": id}, bearer(f.admin())), 201)
		a := f.want(f.password("eve", "pw"), 200)
		if !strings.Contains(a.text("scope"), "cloud_controller.admin") {
			t.Fatalf("scope %q", a.text("scope"))
		}
		f.want(f.call(http.MethodDelete, "/Groups/"+gid+"/members/"+id, nil, bearer(f.admin())), 200)
		if got := f.want(f.refresh(a.text("refresh_token")), 200).
			text("scope"); strings.Contains(got, "cloud_controller.admin") {
			t.Errorf("scope %q", got)
		}
	})
}

func TestJWTBearer(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.user("eve", "pw")
	login := f.want(f.password("eve", "pw"), 200)
	exchange := func(assertion string, edits ...edit) *answer {
		form := url.Values{"grant_type": {"urn:ietf:params:oauth:grant-type:jwt-bearer"}, "assertion": {assertion}}
		return f.token(form, edits...)
	}
	form := url.Values{"grant_type": {"password"}, "username": {"eve"}, "password": {"pw"}, "scope": {"openid"}}
	narrow := f.want(f.token(form, basic("cf", "")), 200).text("access_token")
	f.clock.Advance(10 * time.Minute)
	a := f.want(exchange(narrow, basic("cf", "")), 200)
	before, after := f.claims(narrow), f.claims(a.text("access_token"))
	if after.UserName != "eve" || a.text("scope") != "openid" || a.text("refresh_token") != "" ||
		after.ExpiresAt > before.ExpiresAt || after.AuthTime != before.AuthTime {
		t.Errorf("an exchanged token permits more, lives longer or can be refreshed: %s", a.body)
	}
	f.wantError(exchange(login.text("id_token"), basic("cf", "")), 401, "invalid_grant")
	f.wantError(f.call(http.MethodGet, "/userinfo", nil, bearer(login.text("id_token"))), 401, "invalid_token")
	f.wantError(exchange("x.y.z", basic("cf", "")), 401, "invalid_grant")
	f.wantError(exchange("", basic("cf", "")), 400, "invalid_request")
	f.wantError(exchange(login.text("refresh_token"), basic("cf", "")), 401, "invalid_grant")
	f.wantError(exchange(f.admin(), basic("cf", "")), 401, "invalid_grant") // the token of a client, not of a user
	f.want(f.client(map[string]any{
		"client_id": "thief", "client_secret": "x",
		"authorized_grant_types": []string{"urn:ietf:params:oauth:grant-type:jwt-bearer"},
		"scope":                  []string{"openid", "cloud_controller.write"},
	}), 201)
	f.wantError(exchange(login.text("access_token"), basic("thief", "x")), 401, "invalid_grant")
}
