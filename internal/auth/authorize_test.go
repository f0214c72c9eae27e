package auth_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"time"

	"ingot/internal/auth"
)

const callback = "http://console.localhost/callback"

func challengeOf(verifier string) string {
	sum := sha256.Sum256([]byte(verifier))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// location parses the redirect of a response.
func (f *fixture) location(a *answer) *url.URL {
	f.t.Helper()
	u, err := url.Parse(a.header.Get("Location"))
	if err != nil || a.header.Get("Location") == "" {
		f.t.Fatalf("status %d, Location %q: %s", a.status, a.header.Get("Location"), a.body)
	}
	return u
}

func (f *fixture) authorize(client *http.Client, params url.Values, edits ...edit) *answer {
	f.t.Helper()
	return f.callWith(client, http.MethodGet, "/oauth/authorize?"+params.Encode(), nil, edits...)
}

// logIn sends the login form.
func (f *fixture) logIn(b *http.Client, user, password, returnTo string) *answer {
	f.t.Helper()
	return f.callWith(b, http.MethodPost, "/login.do", url.Values{"username": {user}, "password": {password},
		"return_to": {returnTo}}, asBrowser)
}

func TestSSHCode(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.user("dev", "pw")
	access := f.want(f.password("dev", "pw"), 200).text("access_token")
	// The request that cf sends.
	params := url.Values{"response_type": {"code"}, "client_id": {"ssh-proxy"}}
	a := f.authorize(&http.Client{CheckRedirect: noRedirect}, params, bearer(access))
	if a.status != http.StatusFound {
		t.Fatalf("status %d: %s", a.status, a.body)
	}
	code := f.location(a).Query().Get("code")
	if code == "" {
		t.Fatal("no code")
	}
	form := url.Values{"grant_type": {"authorization_code"}, "code": {code}}
	f.wantError(f.token(form, basic("ssh-proxy", "")), 401, "invalid_client")
	f.wantError(f.token(form, basic("ingot-console", "console-secret")), 400, "invalid_grant")
	f.wantError(f.authorize(&http.Client{}, params, bearer("x.y.z")), 401, "invalid_token")
	f.wantError(f.authorize(&http.Client{}, params, bearer(f.admin())), 403, "insufficient_scope")
}

func TestCodeFlowWithLoginPage(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.user("dev", "pw")
	b := f.browser()
	verifier := strings.Repeat("v", 50)
	params := url.Values{
		"response_type": {"code"}, "client_id": {"ingot-console"}, "redirect_uri": {callback}, "state": {"s t&ate"},
		"code_challenge": {challengeOf(verifier)}, "code_challenge_method": {"S256"}, "nonce": {"n-1"},
	}
	toLogin := f.location(f.authorize(b, params, asBrowser))
	if toLogin.Path != "/login" {
		t.Fatalf("not sent to the login page: %s", toLogin)
	}
	page := f.callWith(b, http.MethodGet, toLogin.RequestURI(), nil, asBrowser)
	f.want(page, 200)
	for _, want := range []string{`action="/login.do"`, `name="username"`, `type="password"`,
		`name="return_to" value="/oauth/authorize?`} {
		if !strings.Contains(page.body, want) {
			t.Errorf("the page lacks %s:\n%s", want, page.body)
		}
	}
	if csp := page.header.Get("Content-Security-Policy"); !strings.Contains(csp, "default-src 'none'") ||
		!strings.Contains(csp, "frame-ancestors 'none'") {
		t.Errorf("Content-Security-Policy %q", csp)
	}
	returnTo := toLogin.Query().Get("return_to")
	if a := f.want(f.logIn(b, "dev", "wrong", returnTo), 401); !strings.Contains(a.body, "Unable to verify") ||
		strings.Contains(a.body, "wrong") {
		t.Errorf("failed login: %s", a.body)
	}
	in := f.want(f.logIn(b, "dev", "pw", returnTo), 303)
	cookie := in.header.Get("Set-Cookie")
	if !strings.Contains(cookie, "HttpOnly") || !strings.Contains(cookie, "SameSite=Lax") {
		t.Errorf("cookie %q", cookie)
	}
	back := f.location(f.callWith(b, http.MethodGet, f.location(in).RequestURI(), nil, asBrowser))
	if !strings.HasPrefix(back.String(), callback+"?") || back.Query().Get("state") != "s t&ate" {
		t.Fatalf("sent to %s", back)
	}
	code := back.Query().Get("code")

	form := url.Values{"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {callback},
		"code_verifier": {verifier}}
	got := f.want(f.token(form, basic("ingot-console", "console-secret")), 200)
	if c := f.claims(got.text("access_token")); c.UserName != "dev" || c.GrantType != "authorization_code" {
		t.Errorf("claims %+v", c)
	}
	if got.text("id_token") == "" || got.text("refresh_token") == "" {
		t.Errorf("answer %s", got.body)
	}

	// The same code again: rejected, and the tokens of its first use are revoked.
	f.wantError(f.token(form, basic("ingot-console", "console-secret")), 400, "invalid_grant")
	f.wantError(f.call(http.MethodGet, "/userinfo", nil, bearer(got.text("access_token"))), 401, "invalid_token")
	refresh := url.Values{"grant_type": {"refresh_token"}, "refresh_token": {got.text("refresh_token")}}
	f.wantError(f.token(refresh, basic("ingot-console", "console-secret")), 401, "invalid_token")

	// If already logged in, redirects at once; after a logout, shows the login page.
	if f.location(f.authorize(b, params, asBrowser)).Query().Get("code") == "" {
		t.Error("a session did not give a code")
	}
	f.want(f.callWith(b, http.MethodGet, "/logout.do", nil, asBrowser), 302)
	if f.location(f.authorize(b, params, asBrowser)).Path != "/login" {
		t.Error("logged in after logout")
	}
}

func TestAuthorizeRefusals(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.user("dev", "pw")
	access := f.want(f.password("dev", "pw"), 200).text("access_token")
	f.want(f.client(map[string]any{
		"client_id": "spa", "allowpublic": true, "authorized_grant_types": []string{"authorization_code"},
		"scope":        []string{"openid"},
		"redirect_uri": []string{"https://spa.example/cb", "https://spa.example/other"}, "autoapprove": true,
	}), 201)
	f.want(f.client(map[string]any{
		"client_id": "unapproved", "client_secret": "x", "authorized_grant_types": []string{"authorization_code"},
		"scope":        []string{"openid"},
		"redirect_uri": []string{"https://third.example/cb"},
	}), 201)
	with := func(kv ...string) url.Values {
		v := url.Values{"response_type": {"code"}, "client_id": {"spa"}, "redirect_uri": {"https://spa.example/cb"},
			"code_challenge": {challengeOf("v")}, "code_challenge_method": {"S256"}}
		for i := 0; i < len(kv); i += 2 {
			v.Set(kv[i], kv[i+1])
			if kv[i+1] == "" {
				v.Del(kv[i])
			}
		}
		return v
	}
	ask := func(v url.Values) *answer {
		return f.authorize(&http.Client{CheckRedirect: noRedirect}, v, bearer(access))
	}

	// The server never redirects to an address that is not registered for the client.
	for _, uri := range []string{"https://evil.example/cb", "https://spa.example/cb/", "https://spa.example/cb?x=1",
		"HTTPS://SPA.EXAMPLE/cb", ""} {
		a := f.wantError(ask(with("redirect_uri", uri)), 400, "invalid_request")
		if a.header.Get("Location") != "" {
			t.Errorf("redirect_uri %q was followed", uri)
		}
	}
	f.wantError(ask(with("client_id", "ghost")), 400, "invalid_client")
	f.wantError(ask(with("client_id", "admin")), 400, "unauthorized_client")

	// Other errors are reported to the client, by redirect.
	for name, tc := range map[string]struct {
		v    url.Values
		want string
	}{
		"token flow":    {with("response_type", "token"), "unsupported_response_type"},
		"no PKCE":       {with("code_challenge", "", "code_challenge_method", ""), "invalid_request"},
		"plain PKCE":    {with("code_challenge_method", "plain"), "invalid_request"},
		"bad scope":     {with("scope", "openid nonsense"), "invalid_scope"},
		"not approved":  {with("client_id", "unapproved", "redirect_uri", "https://third.example/cb"), "access_denied"},
		"short PKCE":    {with("code_challenge", "abc"), "invalid_request"},
		"foreign scope": {with("scope", "uaa.admin"), "invalid_scope"},
	} {
		q := f.location(ask(tc.v)).Query()
		if q.Get("error") != tc.want || q.Get("error_description") == "" || q.Get("code") != "" {
			t.Errorf("%s: redirected with %v, want error %s", name, q, tc.want)
		}
	}
	if q := f.location(f.authorize(f.browser(), with("prompt", "none"))).Query(); q.Get("error") != "login_required" {
		t.Errorf("prompt=none: %v", q)
	}

	newCode := func() string { return f.location(ask(with())).Query().Get("code") }
	form := func(code string, kv ...string) url.Values {
		v := url.Values{"grant_type": {"authorization_code"}, "client_id": {"spa"}, "code": {code},
			"redirect_uri": {"https://spa.example/cb"}, "code_verifier": {"v"}}
		for i := 0; i < len(kv); i += 2 {
			v.Set(kv[i], kv[i+1])
		}
		return v
	}
	f.want(f.token(form(newCode())), 200)
	f.wantError(f.token(form(newCode(), "code_verifier", "w")), 400, "invalid_grant")
	f.wantError(f.token(form(newCode(), "code_verifier", "")), 400, "invalid_grant")
	f.wantError(f.token(form(newCode(), "redirect_uri", "https://spa.example/other")), 400, "invalid_grant")
	f.wantError(f.token(form("nonsense")), 400, "invalid_grant")
	expired := newCode()
	f.clock.Advance(10*time.Minute + time.Second)
	f.wantError(f.token(form(expired)), 400, "invalid_grant")
}

// A token with few scopes cannot be exchanged for a code with more.
func TestBearerAuthorizeDoesNotEscalate(t *testing.T) {
	t.Parallel()
	f := setup(t)
	form := url.Values{"grant_type": {"password"}, "username": {"admin"}, "password": {adminPassword}, "scope": {"openid"}}
	narrow := f.want(f.token(form, basic("cf", "")), 200).text("access_token")
	params := url.Values{"response_type": {"code"}, "client_id": {"ingot-console"}, "redirect_uri": {callback}}
	code := f.location(f.authorize(&http.Client{CheckRedirect: noRedirect}, params, bearer(narrow))).Query().Get("code")
	got := f.want(f.token(url.Values{"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {callback}},
		basic("ingot-console", "console-secret")), 200)
	if got.text("scope") != "openid" {
		t.Errorf("scope %q", got.text("scope"))
	}
}

func TestLoginPageIsNoOpenRedirect(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.user("dev", "pw")
	for _, to := range []string{"https://evil.example/", "//evil.example/", `/\evil.example`, "javascript:alert(1)",
		"/\t/evil.example", "evil"} {
		got := f.location(f.want(f.logIn(f.browser(), "dev", "pw", to), 303)).String()
		if got != "/passcode" {
			t.Errorf("return_to %q led to %q", to, got)
		}
		page := f.callWith(f.browser(), http.MethodGet, "/login?return_to="+url.QueryEscape(to), nil, asBrowser)
		if strings.Contains(page.body, "evil") {
			t.Errorf("return_to %q is in the page", to)
		}
	}
	a := f.callWith(f.browser(), http.MethodGet, "/logout.do?redirect="+url.QueryEscape("https://evil.example/")+
		"&client_id=ingot-console", nil, asBrowser)
	if got := f.location(a).String(); got != "/login" {
		t.Errorf("logout led to %q", got)
	}
	a = f.callWith(f.browser(), http.MethodGet, "/logout.do?redirect="+url.QueryEscape(callback)+
		"&client_id=ingot-console", nil, asBrowser)
	if got := f.location(a).String(); got != callback {
		t.Errorf("logout led to %q, want %q", got, callback)
	}
}

func TestLoginFormOfAnotherSite(t *testing.T) {
	t.Parallel()
	f := setup(t)
	a := f.callWith(f.browser(), http.MethodPost, "/login.do", url.Values{"username": {"admin"},
		"password": {adminPassword}},
		header("Sec-Fetch-Site", "cross-site"), header("Origin", "https://evil.example"))
	f.wantError(a, 403, "access_denied")
}

func TestPasscode(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.user("dev", "pw")
	b := f.browser()
	if got := f.location(f.callWith(b, http.MethodGet, "/passcode", nil, asBrowser)).Path; got != "/login" {
		t.Errorf("a stranger was sent to %q", got)
	}
	f.wantError(f.call(http.MethodGet, "/passcode", nil), 401, "unauthorized")
	f.want(f.logIn(b, "dev", "pw", ""), 303)
	page := f.want(f.callWith(b, http.MethodGet, "/passcode", nil, asBrowser), 200)
	found := regexp.MustCompile(`class="code">([^<]+)<`).FindStringSubmatch(page.body)
	if found == nil {
		t.Fatalf("no passcode on the page:\n%s", page.body)
	}
	use := func(code string) *answer {
		return f.token(url.Values{"grant_type": {"password"}, "passcode": {code}}, basic("cf", ""))
	}
	if c := f.claims(f.want(use(found[1]), 200).text("access_token")); c.UserName != "dev" {
		t.Errorf("claims %+v", c)
	}
	f.wantError(use(found[1]), 401, "unauthorized")
	f.wantError(use("nonsense"), 401, "unauthorized")

	// A passcode requested with a token grants no more scopes than the token.
	form := url.Values{"grant_type": {"password"}, "username": {"admin"}, "password": {adminPassword},
		"scope": {"uaa.user"}}
	narrow := f.want(f.token(form, basic("cf", "")), 200).text("access_token")
	var code string
	if err := json.Unmarshal([]byte(f.want(f.call(http.MethodGet, "/passcode", nil, bearer(narrow)), 200).body),
		&code); err != nil {
		t.Fatal(err)
	}
	if got := f.want(use(code), 200).text("scope"); got != "uaa.user" {
		t.Errorf("scope %q", got)
	}

	// A passcode from before a change of the password is invalid.
	admin := f.want(f.password("admin", adminPassword), 200)
	if err := json.Unmarshal([]byte(f.call(http.MethodGet, "/passcode", nil, bearer(admin.text("access_token"))).body),
		&code); err != nil {
		t.Fatal(err)
	}
	f.clock.Advance(2 * time.Second)
	f.want(f.call(http.MethodPut, "/Users/"+f.claims(admin.text("access_token")).UserID+"/password",
		map[string]string{"password": "new"}, bearer(f.admin())), 200)
	f.wantError(use(code), 401, "unauthorized")
}

func TestLoginPrompts(t *testing.T) {
	t.Parallel()
	f := setup(t)
	a := f.want(f.call(http.MethodGet, "/login", nil), 200)
	prompts, _ := a.json["prompts"].(map[string]any)
	for name, kind := range map[string]string{"username": "text", "password": "password", "passcode": "password"} {
		p, _ := prompts[name].([]any)
		if len(p) != 2 || p[0] != kind {
			t.Errorf("prompt %s: %v", name, p)
		}
	}
	if !strings.Contains(a.body, f.url+"/passcode") {
		t.Errorf("the passcode's address is missing: %s", a.body)
	}
}

// GET /info is UAA's, whatever the caller accepts.
func TestInfo(t *testing.T) {
	t.Parallel()
	f := setup(t)
	for _, accept := range []string{"application/json", "text/html", "*/*"} {
		a := f.want(f.call(http.MethodGet, "/info", nil, header("Accept", accept)), 200)
		app, _ := a.json["app"].(map[string]any)
		links, _ := a.json["links"].(map[string]any)
		prompts, _ := a.json["prompts"].(map[string]any)
		if app["version"] == "" || links["login"] != f.url || links["uaa"] != f.url || len(prompts) == 0 {
			t.Errorf("info as %s is %s, want version, links and prompts", accept, a.body)
		}
		for _, name := range []string{"zone_name", "entityID", "commit_id", "timestamp"} {
			if a.text(name) == "" {
				t.Errorf("%s is missing: %s", name, a.body)
			}
		}
	}
	if a := f.call(http.MethodGet, "/info", nil, header("X-Forwarded-Proto", "https")); !strings.Contains(a.body,
		strings.Replace(f.url, "http:", "https:", 1)) {
		t.Errorf("behind a proxy that terminates TLS: %s", a.body)
	}
}

// A server whose public URL is https sets no cookie for http, even if its proxy
// connects over http.
func TestSessionCookieIsSecure(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		base  string
		edits []edit
		want  bool
	}{
		"plain":         {"", nil, false},
		"public URL":    {"https://uaa.example.org", nil, true},
		"proxy says so": {"", []edit{header("X-Forwarded-Proto", "https")}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := setup(t, func(o *auth.Options) {
				if tc.base != "" {
					o.BaseURL = tc.base
				}
			})
			form := url.Values{"username": {"admin"}, "password": {adminPassword}}
			for _, a := range []*answer{
				f.want(f.call(http.MethodPost, "/login.do", form, append([]edit{asBrowser}, tc.edits...)...), 303),
				f.want(f.call(http.MethodGet, "/logout.do", nil, append([]edit{asBrowser}, tc.edits...)...), 302),
			} {
				cookie := a.header.Get("Set-Cookie")
				if strings.Contains(cookie, "; Secure") != tc.want || !strings.Contains(cookie, "; HttpOnly") ||
					!strings.Contains(cookie, "SameSite=Lax") {
					t.Errorf("cookie %q", cookie)
				}
			}
		})
	}
}
