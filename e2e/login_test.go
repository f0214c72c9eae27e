package e2e

import (
	"errors"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
)

const (
	rejected = "Credentials were rejected, please try again."
	locked   = "Your account has been locked because of too many failed attempts to login."
)

func TestCfTargetAndLogin(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	home := t.TempDir()

	out := cfOK(t, home, "api", s.API)
	if !strings.Contains(out, s.API) || !regexp.MustCompile(`API version:\s+3\.\d+\.\d+`).MatchString(out) {
		t.Errorf("cf api: %s", out)
	}
	cfFails(t, home, "Not logged in", "oauth-token")

	cfOK(t, home, "auth", "admin", s.secret(t, "admin-password"))
	token := oauthToken(t, home)
	got := claims(t, token)
	for name, want := range map[string]any{
		"user_name": "admin", "origin": "uaa", "client_id": "cf", "cid": "cf", "azp": "cf", "grant_type": "password",
		"iss": s.Auth + "/oauth/token", "zid": "uaa", "revocable": true,
	} {
		if got[name] != want {
			t.Errorf("claim %s is %v, want %v", name, got[name], want)
		}
	}
	if got["user_id"] == nil || got["user_id"] != got["sub"] {
		t.Errorf("user_id %v and sub %v, want the same", got["user_id"], got["sub"])
	}
	if scopes := fmt.Sprint(got["scope"]); !strings.Contains(scopes, "cloud_controller.admin") ||
		!strings.Contains(scopes, "openid") {
		t.Errorf("scopes of the administrator: %s", scopes)
	}
	s.call(t, http.MethodGet, "/userinfo", token, nil).want(t, http.StatusOK)

	cfOK(t, home, "auth", "admin", s.secret(t, "admin-password"), "--origin", "uaa")
	if origin := claims(t, oauthToken(t, home))["origin"]; origin != "uaa" {
		t.Errorf("origin %v, want uaa", origin)
	}
	cfFails(t, home, rejected, "auth", "admin", s.secret(t, "admin-password"), "--origin", "elsewhere")

	cfOK(t, home, "auth", "admin", s.secret(t, "admin-client-secret"), "--client-credentials")
	got = claims(t, oauthToken(t, home))
	if got["client_id"] != "admin" || got["grant_type"] != "client_credentials" || got["user_name"] != nil {
		t.Errorf("claims of a client: %v", got)
	}
	cfFails(t, home, rejected, "auth", "admin", "not the secret", "--client-credentials")
}

func TestCfUsers(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	admin, joe := cfAdmin(t, s), cfHome(t, s)

	cfOK(t, admin, "create-user", "joe@example.org", "first password")
	cfOK(t, joe, "auth", "joe@example.org", "first password")
	id := claims(t, oauthToken(t, joe))["user_id"].(string)
	if got := s.call(t, http.MethodGet, "/v3/users/"+id, oauthToken(t, admin), nil).want(t, http.StatusOK).
		object(t); got["username"] != "joe@example.org" || got["origin"] != "uaa" {
		t.Errorf("the platform's user: %v", got)
	}

	// A repetition succeeds for cf, and changes nothing.
	if out := cfOK(t, admin, "create-user", "joe@example.org", "other password"); !strings.Contains(out,
		"User 'joe@example.org' already exists.") {
		t.Errorf("creating the user again: %s", out)
	}
	cfFails(t, joe, rejected, "auth", "joe@example.org", "other password")
	cfOK(t, joe, "auth", "joe@example.org", "first password")

	// Names are compared without regard to case.
	if out := cfOK(t, admin, "create-user", "JOE@example.org", "p"); !strings.Contains(out, "already exists") {
		t.Errorf("creating the user in capitals: %s", out)
	}
	if out, code := cf(t, joe, "create-user", "eve", "p"); code != 1 {
		t.Errorf("a user without rights creates users: %s", out)
	}

	before := oauthToken(t, joe)
	cfOK(t, admin, "delete-user", "-f", "joe@example.org")
	cfFails(t, joe, rejected, "auth", "joe@example.org", "first password")
	if r := s.call(t, http.MethodGet, "/userinfo", before, nil); r.Status != http.StatusUnauthorized {
		t.Errorf("the token of a deleted user: %s", r)
	}
	s.call(t, http.MethodGet, "/v3/users/"+id, oauthToken(t, admin), nil).want(t, http.StatusNotFound)
	if out := cfOK(t, admin, "delete-user", "-f", "joe@example.org"); !strings.Contains(out,
		"User 'joe@example.org' does not exist.") {
		t.Errorf("deleting the user again: %s", out)
	}
	cfOK(t, admin, "create-user", "joe@example.org", "third password")
	cfOK(t, joe, "auth", "joe@example.org", "third password")
}

func TestCfPasswd(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	s.createUser(t, s.adminToken(t), "joe", "old")
	home := cfHome(t, s)
	cfOK(t, home, "auth", "joe", "old")

	typed := func(current, fresh string) (string, int) {
		return cfTyped(t, home, []string{"passwd"},
			answer{"Current password: ", current}, answer{"New password: ", fresh}, answer{"Verify password: ", fresh})
	}
	if out, code := typed("wrong", "new"); code != 1 {
		t.Errorf("a wrong current password: exit code %d\n%s", code, out)
	}
	cfOK(t, home, "auth", "joe", "old")
	if out, code := typed("old", "new"); code != 0 || !strings.Contains(out, "OK") {
		t.Fatalf("cf passwd: exit code %d\n%s", code, out)
	}
	cfFails(t, home, rejected, "auth", "joe", "old")
	cfOK(t, home, "auth", "joe", "new")
}

func TestCfWrongPasswordLocks(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	admin := s.adminToken(t)
	id := s.createUser(t, admin, "joe", "right")
	home := cfHome(t, s)
	cfFails(t, home, rejected, "auth", "joe", "wrong")
	for i := range 4 { // the same password again would not count
		cfFails(t, home, rejected, "auth", "joe", fmt.Sprint("wrong", i))
	}
	cfFails(t, home, locked, "auth", "joe", "right")
	if got := s.call(t, http.MethodGet, "/Users/"+id+"/status", admin, nil).want(t, http.StatusOK).
		object(t); got["locked"] != true {
		t.Errorf("status: %v", got)
	}
	cfOK(t, home, "auth", "admin", s.secret(t, "admin-password")) // others are not

	s.call(t, http.MethodPatch, "/Users/"+id+"/status", admin, map[string]bool{"locked": false}).want(t, http.StatusOK)
	cfOK(t, home, "auth", "joe", "right")
}

func TestCfLogout(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	home := cfAdmin(t, s)
	access, refresh := cfTokens(t, home)
	s.call(t, http.MethodGet, "/userinfo", access, nil).want(t, http.StatusOK)

	other := cfAdmin(t, s) // another login of the same user stays valid
	cfOK(t, home, "logout")
	// As in Cloud Foundry: a client that has the access token can keep using it.
	for _, path := range []string{"/userinfo", "/v3/apps"} {
		s.call(t, http.MethodGet, path, access, nil).want(t, http.StatusOK)
	}
	if r := s.refresh(t, refresh); r.Status != http.StatusUnauthorized || r.object(t)["error"] != "invalid_token" {
		t.Errorf("the refresh token after logout: %s", r)
	}
	cfFails(t, home, "Not logged in", "oauth-token")
	s.call(t, http.MethodGet, "/userinfo", oauthToken(t, other), nil).want(t, http.StatusOK)
}

// shortTokens sets the lifetime of cf's access tokens to less than a minute, so that the
// client refreshes before each use.
func shortTokens(t *testing.T, s *Server) {
	t.Helper()
	admin := s.adminToken(t)
	client := s.call(t, http.MethodGet, "/oauth/clients/cf", admin, nil).want(t, http.StatusOK).object(t)
	client["access_token_validity"] = 50
	s.call(t, http.MethodPut, "/oauth/clients/cf", admin, client).want(t, http.StatusOK)
	again := s.call(t, http.MethodGet, "/oauth/clients/cf", admin, nil).want(t, http.StatusOK).object(t)
	delete(client, "lastModified")
	delete(again, "lastModified")
	if fmt.Sprint(again) != fmt.Sprint(client) {
		t.Errorf("the client is now %v, want %v", again, client)
	}
}

func TestCfRefresh(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	shortTokens(t, s)
	home := cfAdmin(t, s)
	seenAccess, seenRefresh := map[string]bool{}, map[string]bool{}
	note := func() {
		t.Helper()
		access, refresh := cfTokens(t, home)
		if seenAccess[access] || seenRefresh[refresh] || refresh == "" {
			t.Errorf("a token is used again: access %t, refresh %t", seenAccess[access], seenRefresh[refresh])
		}
		seenAccess[access], seenRefresh[refresh] = true, true
	}
	note()
	for range 3 {
		token := oauthToken(t, home)
		note()
		if kept, _ := cfTokens(t, home); kept != token {
			t.Error("cf prints another token than it keeps")
		}
		s.call(t, http.MethodGet, "/userinfo", token, nil).want(t, http.StatusOK)
	}
	// Logins survive a restart.
	s.Stop(t)
	s.Restart(t)
	oauthToken(t, home)
	note()
}

func TestCfRefreshAtTheSameTime(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	shortTokens(t, s)
	home := cfAdmin(t, s)
	// Each has the same tokens, as cf processes that share a home read them.
	homes := make([]string, 3)
	for i := range homes {
		homes[i] = t.TempDir()
		if err := os.CopyFS(filepath.Join(homes[i], ".cf"), os.DirFS(filepath.Join(home, ".cf"))); err != nil {
			t.Fatal(err)
		}
	}
	outputs, codes, errs := make([]string, len(homes)), make([]int, len(homes)), make([]error, len(homes))
	var all sync.WaitGroup
	for i := range homes {
		all.Go(func() { outputs[i], codes[i], errs[i] = cfTry(t, homes[i], "oauth-token") })
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	for i := range homes {
		if codes[i] != 0 {
			t.Fatalf("cf %d: exit code %d\n%s", i, codes[i], outputs[i])
		}
		s.call(t, http.MethodGet, "/userinfo", strings.TrimPrefix(strings.TrimSpace(outputs[i]), "bearer "), nil).
			want(t, http.StatusOK)
		oauthToken(t, homes[i]) // with the tokens each got
	}
}

// TestPasscode goes through the pages as a browser does and logs in with the
// code they show, which is what `cf login --sso` does.
func TestPasscode(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	s.createUser(t, s.adminToken(t), "joe", "right")
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	browser := &http.Client{Jar: jar, Timeout: patience, Transport: s.client.Transport}
	read := func(res *http.Response, err error) (*http.Response, string) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res, string(text)
	}

	// The prompt of cf contains the address of the page.
	prompts := s.call(t, http.MethodGet, "/login", "", nil).want(t, http.StatusOK).object(t)["prompts"].(map[string]any)
	if prompt := fmt.Sprint(prompts["passcode"]); !strings.Contains(prompt, s.Auth+"/passcode") {
		t.Errorf("the prompt for a passcode: %s", prompt)
	}
	res, page := read(browser.Get(s.Auth + "/passcode"))
	if res.Request.URL.Path != "/login" || res.StatusCode != http.StatusOK {
		t.Fatalf("a stranger is led to %s: %s", res.Request.URL, res.Status)
	}
	form := hiddenFields(page)
	form.Set("username", "joe")
	form.Set("password", "wrong")
	action := regexp.MustCompile(`action="([^"]*)"`).FindStringSubmatch(page)
	if action == nil {
		t.Fatalf("the page has no form:\n%s", page)
	}
	target, err := res.Request.URL.Parse(html.UnescapeString(action[1]))
	if err != nil {
		t.Fatal(err)
	}
	if res, page = read(browser.PostForm(target.String(), form)); res.StatusCode != http.StatusUnauthorized ||
		!strings.Contains(page, `role="alert"`) {
		t.Fatalf("a wrong password: %s\n%s", res.Status, page)
	}
	form.Set("password", "right")
	res, page = read(browser.PostForm(target.String(), form))
	code := regexp.MustCompile(`<code class="code">([^<]+)</code>`).FindStringSubmatch(page)
	if res.Request.URL.Path != "/passcode" || code == nil {
		t.Fatalf("after the login: %s\n%s", res.Request.URL, page)
	}

	passcode := url.Values{"grant_type": {"password"}, "passcode": {html.UnescapeString(code[1])}}
	var got tokens
	s.askToken(t, "cf", "", passcode).want(t, http.StatusOK).into(t, &got)
	if name := claims(t, got.Access)["user_name"]; name != "joe" || got.Refresh == "" {
		t.Errorf("logged in as %v, refresh token %q", name, got.Refresh)
	}
	s.askToken(t, "cf", "", passcode).want(t, http.StatusUnauthorized) // once only
	s.call(t, http.MethodGet, "/userinfo", got.Access, nil).want(t, http.StatusOK)
}
