package auth_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/base/background/backgroundtest"
	"ingot/internal/base/fault"
	"ingot/internal/base/token"

	"ingot/internal/auth"
	"ingot/internal/auth/authdb"
	"ingot/internal/base/db"
	"ingot/internal/base/db/dbtest"
)

func TestServerHonoursTheServiceContract(t *testing.T) {
	t.Parallel()
	backgroundtest.Stress(t, func(t *testing.T) background.Service {
		d := dbtest.Migrated(t, db.SQLite, authdb.Migrations)
		s, err := auth.New(auth.Options{Store: authdb.New(d), BaseURL: "http://127.0.0.1", Shared: true})
		if err != nil {
			t.Fatal(err)
		}
		return s
	})
}

func TestKeysVerifyTokensAndRotate(t *testing.T) {
	t.Parallel()
	f := setup(t)
	old := f.admin()
	keys := func() []map[string]any {
		var body struct{ Keys []map[string]any }
		if err := json.Unmarshal([]byte(f.want(f.call(http.MethodGet, "/token_keys", nil), 200).body), &body); err != nil {
			t.Fatal(err)
		}
		return body.Keys
	}
	before := keys()
	if len(before) != 1 {
		t.Fatalf("%d keys at first", len(before))
	}
	for _, member := range []string{"kid", "kty", "alg", "use", "n", "e", "value"} {
		if v, _ := before[0][member].(string); v == "" {
			t.Errorf("the key lacks %s: %v", member, before[0])
		}
	}
	if _, private := before[0]["d"]; private || strings.Contains(before[0]["value"].(string), "PRIVATE") {
		t.Fatal("the private key is shown")
	}

	// Another service gets the keys only over HTTP.
	remote := token.NewVerifier(token.Options{Issuer: f.url + "/oauth/token",
		Keys: token.NewRemoteKeys(f.url, &http.Client{}), Now: f.clock.Now})
	if _, err := remote.Verify(t.Context(), old); err != nil {
		t.Fatal(err)
	}

	f.wantError(f.call(http.MethodPost, "/token_keys/rotate", nil), 401, "unauthorized")
	f.clock.Advance(5 * time.Second)
	f.want(f.call(http.MethodPost, "/token_keys/rotate", nil, bearer(old)), 200)
	after := keys()
	if len(after) != 2 || after[0]["kid"] == before[0]["kid"] || after[1]["kid"] != before[0]["kid"] {
		t.Fatalf("after rotation: %v", after)
	}
	if got := f.want(f.call(http.MethodGet, "/token_key", nil), 200).text("kid"); got != after[0]["kid"] {
		t.Errorf("/token_key shows %s", got)
	}
	for name, tok := range map[string]string{"old": old, "new": f.admin()} {
		if _, err := f.server.Verifier().Verify(t.Context(), tok); err != nil {
			t.Errorf("%s token: %v", name, err)
		}
	}

	// A key is deleted when all tokens signed with it have expired.
	f.clock.Advance(91 * 24 * time.Hour)
	f.want(f.call(http.MethodPost, "/token_keys/rotate", nil, bearer(f.admin())), 200)
	f.clock.Advance(5 * time.Second)
	f.want(f.call(http.MethodPost, "/token_keys/rotate", nil, bearer(f.admin())), 200)
	for _, k := range keys() {
		if k["kid"] == before[0]["kid"] {
			t.Error("the first key is still there")
		}
	}
}

// TestElliptic replaces the RSA key by one of an elliptic curve and back: old and new tokens are valid, also for a
// service that gets the keys over HTTP.
func TestElliptic(t *testing.T) {
	t.Parallel()
	f := setup(t)
	tokens := []string{f.admin()}
	for _, step := range []struct{ body, alg, kty string }{
		{`{"algorithm": "ES256"}`, "ES256", "EC"},
		{``, "ES256", "EC"}, // keeps the algorithm
		{`{"algorithm": "RS256"}`, "RS256", "RSA"},
	} {
		f.clock.Advance(5 * time.Second)
		f.want(f.call(http.MethodPost, "/token_keys/rotate", step.body, bearer(tokens[0])), 200)
		key := f.want(f.call(http.MethodGet, "/token_key", nil), 200)
		if key.text("alg") != step.alg || key.text("kty") != step.kty || !strings.Contains(key.text("value"), "PUBLIC KEY") {
			t.Errorf("after %s: %.300s", step.body, key.body)
		}
		if strings.Contains(key.body, `"d"`) {
			t.Fatal("the private key is shown")
		}
		tokens = append(tokens, f.admin())
		remote := token.NewVerifier(token.Options{Issuer: f.url + "/oauth/token",
			Keys: token.NewRemoteKeys(f.url, &http.Client{}), Now: f.clock.Now})
		for i, tok := range tokens {
			if _, err := f.server.Verifier().Verify(t.Context(), tok); err != nil {
				t.Errorf("after %s, token %d: %v", step.body, i, err)
			}
			if _, err := remote.Verify(t.Context(), tok); err != nil {
				t.Errorf("after %s, token %d elsewhere: %v", step.body, i, err)
			}
		}
	}
	for body, want := range map[string]int{`{"algorithm": "none"}`: 400, `{"algorithm": "HS256"}`: 400,
		`{"algorithm": 7}`: 422, `{`: 400} {
		got := f.call(http.MethodPost, "/token_keys/rotate", body, bearer(tokens[0]))
		if got.status != want {
			t.Errorf("%s: %d %.300s", body, got.status, got.body)
		}
	}
	config := f.want(f.call(http.MethodGet, "/.well-known/openid-configuration", nil), 200).body
	if !strings.Contains(config, `"ES256"`) || !strings.Contains(config, `"RS256"`) {
		t.Errorf("the configuration names other algorithms: %s", config)
	}
}

func TestRemoteKeysNoticeRotation(t *testing.T) {
	t.Parallel()
	f := setup(t)
	remote := token.NewVerifier(token.Options{Issuer: f.url + "/oauth/token",
		Keys: token.NewRemoteKeys(f.url, &http.Client{}), Now: f.clock.Now})
	if _, err := remote.Verify(t.Context(), f.admin()); err != nil {
		t.Fatal(err)
	}
	dead := httptest.NewServer(http.NotFoundHandler())
	dead.Close()
	_, err := token.NewVerifier(token.Options{Issuer: "x", Keys: token.NewRemoteKeys(dead.URL, &http.Client{})}).
		Verify(t.Context(), f.admin())
	if !fault.Is(err, fault.Unavailable) {
		t.Errorf("with the authorization server away: %v", err)
	}
}

func TestVerifierChecksIssuerAudienceExpiry(t *testing.T) {
	t.Parallel()
	f := setup(t)
	tok := f.token(url.Values{"grant_type": {"client_credentials"}}, basic("ingot-platform", "platform-secret")).
		text("access_token")
	if _, err := f.server.Verifier("notifications", "something").Verify(t.Context(), tok); err != nil {
		t.Errorf("one of two audiences: %v", err)
	}
	if _, err := f.server.Verifier("cloud_controller").Verify(t.Context(), tok); !fault.Is(err, fault.InvalidToken) {
		t.Errorf("a foreign audience: %v", err)
	}
	other := token.NewVerifier(token.Options{Issuer: "http://elsewhere/oauth/token",
		Keys: token.NewRemoteKeys(f.url, &http.Client{}), Now: f.clock.Now})
	if _, err := other.Verify(t.Context(), tok); !fault.Is(err, fault.InvalidToken) {
		t.Errorf("a foreign issuer: %v", err)
	}
	f.clock.Advance(12*time.Hour + 29*time.Second)
	if _, err := f.server.Verifier().Verify(t.Context(), tok); err != nil {
		t.Errorf("within the allowed skew: %v", err)
	}
	f.clock.Advance(2 * time.Second)
	if _, err := f.server.Verifier().Verify(t.Context(), tok); !fault.Is(err, fault.InvalidToken) {
		t.Errorf("expired: %v", err)
	}
	f.clock.Advance(-15 * time.Hour)
	if _, err := f.server.Verifier().Verify(t.Context(), tok); !fault.Is(err, fault.InvalidToken) {
		t.Errorf("issued in the future: %v", err)
	}
}

func TestCheckTokenAndIntrospect(t *testing.T) {
	t.Parallel()
	f := setup(t)
	id := f.user("eve", "pw")
	tok := f.want(f.password("eve", "pw"), 200).text("access_token")
	platform := basic("ingot-platform", "platform-secret")
	check := func(form url.Values, edits ...edit) *answer {
		return f.call(http.MethodPost, "/check_token", form, edits...)
	}
	introspect := func(tok string, edits ...edit) *answer {
		return f.call(http.MethodPost, "/introspect", url.Values{"token": {tok}}, edits...)
	}

	a := f.want(check(url.Values{"token": {tok}}, platform), 200)
	if a.text("user_name") != "eve" || a.text("client_id") != "cf" {
		t.Errorf("answer %s", a.body)
	}
	f.want(check(url.Values{"token": {tok}, "scopes": {"openid,cloud_controller.read"}}, platform), 200)
	f.wantError(check(url.Values{"token": {tok}, "scopes": {"uaa.admin"}}, platform), 400, "invalid_scope")
	f.wantError(check(url.Values{"token": {"x.y.z"}}, platform), 400, "invalid_token")
	f.wantError(check(url.Values{"token": {tok}}), 401, "unauthorized")
	f.wantError(check(url.Values{"token": {tok}}, basic("ingot-platform", "wrong")), 401, "invalid_client")
	f.wantError(check(url.Values{"token": {tok}}, basic("ingot-notifications", "notifications-secret")), 403,
		"insufficient_scope")

	if a := f.want(introspect(tok, bearer(f.admin())), 200); a.json["active"] != true || a.text("user_id") != id {
		t.Errorf("answer %s", a.body)
	}
	f.want(f.call(http.MethodDelete, "/Users/"+id, nil, bearer(f.admin())), 200)
	for _, bad := range []string{tok, "x.y.z", ""} {
		if a := f.want(introspect(bad, platform), 200); a.json["active"] != false || len(a.json) != 1 {
			t.Errorf("token %.10q: %s", bad, a.body)
		}
	}
	f.wantError(introspect(tok), 401, "unauthorized")
}

func TestUserInfoAndDiscovery(t *testing.T) {
	t.Parallel()
	f := setup(t)
	id := f.user("eve", "pw")
	tok := f.want(f.password("eve", "pw"), 200).text("access_token")
	a := f.want(f.call(http.MethodGet, "/userinfo", nil, bearer(tok)), 200)
	if a.text("sub") != id || a.text("user_id") != id || a.text("user_name") != "eve" ||
		a.text("email") != "eve@example.org" {
		t.Errorf("answer %s", a.body)
	}
	f.wantError(f.call(http.MethodGet, "/userinfo", nil), 401, "unauthorized")
	f.wantError(f.call(http.MethodGet, "/userinfo", nil, bearer(f.admin())), 403, "insufficient_scope")

	d := f.want(f.call(http.MethodGet, "/.well-known/openid-configuration", nil), 200)
	if d.text("issuer") != f.url+"/oauth/token" || d.text("jwks_uri") != f.url+"/token_keys" ||
		d.text("token_endpoint") != f.url+"/oauth/token" {
		t.Errorf("answer %s", d.body)
	}
}

// TestRevoke walks all ways to revoke tokens, and sees which tokens of a login they
// revoke.
func TestRevoke(t *testing.T) {
	t.Parallel()
	type world struct {
		*fixture
		id              string // of the user
		access, refresh string
	}
	del := func(w *world, jti, with string) *answer {
		return w.call(http.MethodDelete, "/oauth/token/revoke/"+jti, nil, func(r *http.Request) {
			if with != "" {
				r.Header.Set("Authorization", "Bearer "+with)
			}
		})
	}
	const valid, revoked = http.StatusOK, http.StatusUnauthorized
	for _, test := range []struct {
		name            string
		do              func(w *world)
		access, refresh int
	}{
		{"nothing", func(*world) {}, valid, valid},
		// cf logout presents each token to revoke itself, and ignores errors.
		{"cf logout", func(w *world) {
			w.want(del(w, w.claims(w.refresh).ID, w.refresh), 200)
			w.want(del(w, w.claims(w.access).ID, w.access), 404)
		}, valid, revoked},
		{"the refresh token with the access token", func(w *world) { w.want(del(w, w.claims(w.refresh).ID, w.access), 200) },
			valid, revoked},
		{"the access token with the refresh token", func(w *world) {
			w.wantError(del(w, w.claims(w.access).ID, w.refresh),
				403, "insufficient_scope")
		}, valid, valid},
		{"the access token with itself", func(w *world) {
			w.wantError(del(w, w.claims(w.access).ID, w.access), 404,
				"not_found")
		}, valid, valid},
		{"the refresh token by an administrator", func(w *world) { w.want(del(w, w.claims(w.refresh).ID, w.admin()), 200) },
			valid, revoked},
		// The first access token of a login has its id.
		{"the first access token by an administrator", func(w *world) {
			w.want(del(w, w.claims(w.access).ID, w.admin()),
				200)
		}, revoked, revoked},
		{"all of the user by an administrator", func(w *world) {
			w.want(w.call(http.MethodGet, "/oauth/token/revoke/user/"+w.id, nil, bearer(w.admin())), 200)
		}, revoked, revoked},
		{"all of the user by the user", func(w *world) {
			w.want(w.call(http.MethodGet, "/oauth/token/revoke/user/"+w.id, nil, bearer(w.access)), 200)
		}, revoked, revoked},
		{"all of the client by an administrator", func(w *world) {
			w.want(w.call(http.MethodGet, "/oauth/token/revoke/client/cf", nil, bearer(w.admin())), 200)
		}, revoked, revoked},
		{"the password is changed", func(w *world) {
			w.want(w.call(http.MethodPut, "/Users/"+w.id+"/password", map[string]string{"oldPassword": "pw",
				"password": "other"}, bearer(w.access)), 200)
		}, revoked, revoked},
		{"the password is changed by an administrator", func(w *world) {
			w.want(w.call(http.MethodPut, "/Users/"+w.id+"/password", map[string]string{"password": "other"}, bearer(w.admin())),
				200)
		}, revoked, revoked},
		{"the user is deleted", func(w *world) {
			w.want(w.call(http.MethodDelete, "/Users/"+w.id, nil, bearer(w.admin())), 200)
		}, revoked, revoked},
		{"the client is deleted", func(w *world) {
			w.want(w.call(http.MethodDelete, "/oauth/clients/cf", nil, bearer(w.admin())), 200)
		}, revoked, revoked},
		{"another login logs out", func(w *world) {
			other := w.want(w.password("eve", "pw"), 200)
			w.want(del(w, w.claims(other.text("refresh_token")).ID, other.text("refresh_token")), 200)
		}, valid, valid},
		{"another user tries", func(w *world) {
			w.user("mallory", "pw")
			other := w.want(w.password("mallory", "pw"), 200)
			for _, jti := range []string{w.claims(w.access).ID, w.claims(w.refresh).ID} {
				w.wantError(del(w, jti, other.text("access_token")), 403, "insufficient_scope")
				w.wantError(del(w, jti, other.text("refresh_token")), 403, "insufficient_scope")
				w.want(del(w, jti, ""), 401)
			}
			for _, all := range []string{"user/" + w.id, "client/cf"} {
				w.wantError(w.call(http.MethodGet, "/oauth/token/revoke/"+all, nil, bearer(other.text("access_token"))), 403,
					"insufficient_scope")
			}
		}, valid, valid},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := &world{fixture: setup(t)}
			w.id = w.user("eve", "pw")
			a := w.want(w.password("eve", "pw"), 200)
			w.access, w.refresh = a.text("access_token"), a.text("refresh_token")
			w.clock.Advance(2 * time.Second)
			test.do(w)
			if got := w.call(http.MethodGet, "/userinfo", nil, bearer(w.access)); got.status != test.access {
				t.Errorf("the access token: %d %s, want %d", got.status, got.body, test.access)
			}
			if got := w.token(url.Values{"grant_type": {"refresh_token"}, "refresh_token": {w.refresh}},
				basic("cf", "")); got.status != test.refresh {
				t.Errorf("the refresh token: %d %s, want %d", got.status, got.body, test.refresh)
			}
		})
	}
}

// No credential may be in the log, at any level.
func TestSecretsAreNotLogged(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.user("eve", "user-password-XYZ")
	a := f.want(f.password("eve", "user-password-XYZ"), 200)
	f.password("eve", "wrong-password-XYZ")
	f.refresh(a.text("refresh_token"))
	f.call(http.MethodGet, "/userinfo", nil, bearer(a.text("access_token")+"x"))
	f.call(http.MethodPost, "/oauth/token?client_secret=query-secret-XYZ", url.Values{"grant_type": {"x"}},
		basic("cf", ""))
	log := f.log.String()
	if !strings.Contains(log, "request_id") {
		t.Fatal("the log has no request ids")
	}
	for _, secret := range []string{"password-XYZ", "query-secret-XYZ", adminSecret, a.text("refresh_token"),
		a.text("access_token")} {
		if strings.Contains(log, secret) {
			t.Errorf("the log holds %.20s…", secret)
		}
	}
}
