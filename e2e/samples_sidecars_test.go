package e2e

import (
	"context"
	"fmt"
	"html"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// sampleSidecars pushes one app with three of the ready-made sidecars: a proxy that
// terminates TLS, one through which the app calls the first, and cron.
func sampleSidecars(t *testing.T, s *site) {
	home := s.admin(t)
	samples, err := buildSamples()
	if err != nil {
		t.Fatal(err)
	}
	// A folder with the programs of two samples.
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(samples, "sidecars", "tls-proxy", "bin"))); err != nil {
		t.Fatal(err)
	}
	cron, err := os.ReadFile(filepath.Join(samples, "sidecars", "cron", "bin", "cron"))
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "cron"), cron, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	in, out := "8443", "9000"
	if s.options.Engine != "container" {
		in, out = fmt.Sprint(s.sidecarPort(t)), fmt.Sprint(s.sidecarPort(t))
	}
	manifest := write(t, "manifest.yml", strings.NewReplacer("@dir@", dir, "@in@", in, "@out@", out).Replace(`
applications:
- name: guarded
  path: "@dir@"
  buildpacks: [binary_buildpack]
  command: ./hello
  memory: 160M
  disk_quota: 64M
  env:
    CALL_URL: http://127.0.0.1:@out@/
  sidecars:
  - name: tls
    process_types: [web]
    command: ./tls-proxy
    memory: 32M
    ports: [@in@]
    health-check-type: port
    env:
      TLS_PROXY_LISTEN: ":@in@"
      TLS_PROXY_PEERS: same-app
  - name: tls-out
    process_types: [web]
    command: ./tls-proxy
    memory: 32M
    before: main
    ports: [@out@]
    health-check-type: port
    env:
      TLS_PROXY_MODE: out
      TLS_PROXY_LISTEN: 127.0.0.1:@out@
      TLS_PROXY_UPSTREAM: 127.0.0.1:@in@
      TLS_PROXY_PEERS: same-app
  - name: cron
    process_types: [web]
    command: ./cron
    memory: 32M
    env:
      CRON_JOBS: name=tick @every 1s echo "instance $CF_INSTANCE_INDEX"
`))
	contains(t, columns(cfOK(t, home, "push", "-f", manifest)), "sidecars: tls, tls-out, cron", "#0 running")
	app := guid(t, home, "guarded")
	row(t, "tls-proxy: mutual TLS with the certificate of the instance", func(t *testing.T) {
		var got struct {
			Client  string
			Headers http.Header
		}
		s.reaches(t, "guarded", "/call", http.StatusOK).into(t, &got)
		if !strings.Contains(got.Client, "OU=app:"+app) || got.Headers.Get("X-Forwarded-Proto") != "https" {
			t.Errorf("the app gets %+v, want the certificate of app %s", got, app)
		}
	})
	row(t, "cron: a job", func(t *testing.T) {
		s.logged(t, app, "APP/PROC/WEB/SIDECAR/CRON", "tick: instance 0")
		s.logged(t, app, "APP/PROC/WEB/SIDECAR/CRON", "tick: exit status 0 after")
	})
}

// sampleLogin pushes the login proxy with its own manifest, and logs in as a browser does.
func sampleLogin(t *testing.T, s *site) {
	home := s.admin(t)
	samples, err := buildSamples()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(samples, "sidecars", "login-proxy")
	text, err := os.ReadFile(filepath.Join(dir, "manifest.yml"))
	if err != nil {
		t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(strings.TrimPrefix(s.API, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	base := "http://login-proxy.apps.localhost:" + port
	manifest := write(t, "manifest.yml", strings.NewReplacer(
		"path: bin", "path: "+filepath.Join(dir, "bin"), ":8081", fmt.Sprint(":", s.sidecarPort(t)),
		"http://login-proxy.apps.localhost:8080", base,
	).Replace(string(text)))
	admin := s.adminToken(t)
	s.call(t, http.MethodPost, "/oauth/clients", admin, map[string]any{
		"client_id": "login-proxy", "client_secret": "secret of the proxy", "scope": []string{"openid"},
		"autoapprove":            []string{"openid"},
		"authorized_grant_types": []string{"authorization_code", "refresh_token"},
		"redirect_uri":           []string{base + "/oauth2/callback", base + "/"},
		"access_token_validity":  1, // so that every request has to renew it
	}).want(t, http.StatusCreated)
	user := s.createUser(t, admin, "kim", "open sesame")
	contains(t, columns(cfOK(t, home, "push", "-f", manifest, "--var", "auth_url="+s.Auth, "--var",
		"client_secret=secret of the proxy",
		"--var", "session_key="+strings.Repeat("1f", 32))), "sidecars: login", "#0 running")

	get := s.browser(t)
	s.reaches(t, "login-proxy", "/healthz", http.StatusOK)
	s.reaches(t, "login-proxy", "/orders", http.StatusUnauthorized)
	row(t, "login-proxy: log in", func(t *testing.T) {
		res, page := get(http.MethodGet, base+"/orders?id=7", nil)
		if !strings.HasPrefix(res.Request.URL.String(), s.Auth+"/login?") {
			t.Fatalf("the browser is sent to %s: %s", res.Request.URL, page)
		}
		form := hiddenFields(page)
		form.Set("username", "kim")
		form.Set("password", "open sesame")
		if res, page = get(http.MethodPost, s.Auth+"/login.do", form); res.Request.URL.String() != base+"/orders?id=7" ||
			res.StatusCode != http.StatusOK {
			t.Fatalf("after the login: %s %s\n%s", res.Request.URL, res.Status, page)
		}
		contains(t, page, `"path": "/orders?id=7"`, `"kim"`, `"kim@example.org"`, user)
		_, page = get(http.MethodGet, base+"/", nil, header{"X-Forwarded-User", "admin"})
		contains(t, page, `"kim"`)
		if strings.Contains(page, `"admin"`) {
			t.Errorf("a browser sets the name of its user: %s", page)
		}
	})
	row(t, "login-proxy: log out", func(t *testing.T) {
		if res, page := get(http.MethodGet, base+"/oauth2/logout", nil); res.Request.URL.Path != "/login" {
			t.Errorf("after the logout: %s\n%s", res.Request.URL, page)
		}
		if res, _ := get(http.MethodGet, base+"/", nil,
			header{"Accept", "application/json"}); res.StatusCode != http.StatusUnauthorized {
			t.Errorf("after the logout: %s", res.Status)
		}
	})
}

// browser returns a function that requests pages as a browser does: with cookies, and
// following redirects between the authorization server and apps.
func (s *site) browser(t *testing.T) func(method, address string, form url.Values,
	headers ...header) (*http.Response, string) {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		// The names of apps need not resolve here.
		return new(net.Dialer).DialContext(ctx, network, strings.TrimPrefix(s.API, "http://"))
	}}
	t.Cleanup(transport.CloseIdleConnections)
	client := &http.Client{Jar: jar, Timeout: patience, Transport: transport}
	return func(method, address string, form url.Values, headers ...header) (*http.Response, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, address, strings.NewReader(form.Encode()))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Accept", "text/html")
		if form != nil {
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		}
		for _, h := range headers {
			r.Header.Set(h.name, h.value)
		}
		res, err := client.Do(r)
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
}

// hiddenFields returns the hidden fields of a page's form.
func hiddenFields(page string) url.Values {
	form := url.Values{}
	for _, field := range regexp.MustCompile(`<input type="hidden" name="([^"]*)" value="([^"]*)">`).
		FindAllStringSubmatch(page, -1) {
		form.Set(field[1], html.UnescapeString(field[2]))
	}
	return form
}
