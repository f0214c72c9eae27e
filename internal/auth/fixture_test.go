package auth_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"ingot/internal/auth"
	"ingot/internal/auth/authdb"
	"ingot/internal/base/db"
	"ingot/internal/base/db/dbtest"
	"ingot/internal/base/logging"
	"ingot/internal/base/testkit"
	"ingot/internal/base/token"
	"ingot/internal/base/web"
)

const (
	adminPassword = "admin-password-7f3"
	adminSecret   = "admin-client-secret-91c"
)

// fixture is a complete authorization server behind a real listener.
type fixture struct {
	t      *testing.T
	server *auth.Server
	store  auth.Store
	clock  *testkit.Clock
	url    string
	log    *lockedBuffer
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

type option func(*auth.Options)

func setup(t *testing.T, options ...option) *fixture {
	t.Helper()
	d := dbtest.Migrated(t, db.SQLite, authdb.Migrations)
	f := &fixture{t: t, store: authdb.New(d), log: &lockedBuffer{}}
	log := logging.New(f.log, false, slog.LevelDebug)
	secrets := auth.Secrets{AdminPassword: adminPassword, AdminClientSecret: adminSecret, Components: map[string]string{
		auth.ClientPlatform: "platform-secret", auth.ClientNotifications: "notifications-secret",
		auth.ClientConsole: "console-secret",
		auth.ClientSSH:     "ssh-secret",
	}}
	if err := auth.Bootstrap(t.Context(), f.store, secrets, []string{"http://console.localhost/callback"},
		log); err != nil {
		t.Fatal(err)
	}
	// After the first key, which has the real time: the next one must be younger.
	f.clock = testkit.NewClock(time.Now().Truncate(time.Second))
	l := httptest.NewUnstartedServer(nil)
	f.url = "http://" + l.Listener.Addr().String()
	o := auth.Options{Store: f.store, BaseURL: f.url, Log: log, PasswordGrant: true, Now: f.clock.Now}
	for _, set := range options {
		set(&o)
	}
	var err error
	if f.server, err = auth.New(o); err != nil {
		t.Fatal(err)
	}
	if err := f.server.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	mux := web.NewMux(web.FormatOAuth, log, nil)
	f.server.Routes(mux)
	l.Config.Handler = web.Pipeline(mux, web.FormatOAuth, log)
	l.Start()
	t.Cleanup(func() {
		l.Close()
		f.server.Stop()
	})
	return f
}

// answer is a response that has been read.
type answer struct {
	status int
	header http.Header
	body   string
	json   map[string]any
}

// text returns a member of the JSON body as a string.
func (a *answer) text(key string) string {
	s, _ := a.json[key].(string)
	return s
}

type edit func(*http.Request)

func bearer(tok string) edit {
	return func(r *http.Request) { r.Header.Set("Authorization", "bearer "+tok) }
}

func basic(id, secret string) edit { return func(r *http.Request) { r.SetBasicAuth(id, secret) } }

func header(k, v string) edit { return func(r *http.Request) { r.Header.Set(k, v) } }

// call sends one request and does not follow redirects.
func (f *fixture) call(method, path string, body any, edits ...edit) *answer {
	f.t.Helper()
	return f.callWith(&http.Client{CheckRedirect: noRedirect}, method, path, body, edits...)
}

func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

func (f *fixture) callWith(client *http.Client, method, path string, body any, edits ...edit) *answer {
	f.t.Helper()
	var in io.Reader
	kind := "application/json"
	switch b := body.(type) {
	case nil:
	case url.Values:
		in, kind = strings.NewReader(b.Encode()), "application/x-www-form-urlencoded"
	case string:
		in = strings.NewReader(b)
	default:
		raw, err := json.Marshal(b)
		if err != nil {
			f.t.Fatal(err)
		}
		in = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(context.WithoutCancel(f.t.Context()), method, f.url+path, in)
	if err != nil {
		f.t.Fatal(err)
	}
	req.Header.Set("Content-Type", kind)
	req.Header.Set("Accept", "application/json")
	for _, e := range edits {
		e(req)
	}
	res, err := client.Do(req)
	if err != nil {
		f.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		f.t.Fatal(err)
	}
	a := &answer{status: res.StatusCode, header: res.Header, body: string(raw)}
	_ = json.Unmarshal(raw, &a.json)
	return a
}

// token sends a request to the token endpoint.
func (f *fixture) token(form url.Values, edits ...edit) *answer {
	f.t.Helper()
	return f.call(http.MethodPost, "/oauth/token", form, edits...)
}

func (f *fixture) password(user, password string, edits ...edit) *answer {
	f.t.Helper()
	form := url.Values{"grant_type": {"password"}, "username": {user}, "password": {password}}
	return f.token(form, append([]edit{basic("cf", "")}, edits...)...)
}

func (f *fixture) refresh(refreshToken string) *answer {
	f.t.Helper()
	return f.token(url.Values{"grant_type": {"refresh_token"}, "refresh_token": {refreshToken}}, basic("cf", ""))
}

// admin returns an access token of the admin client.
func (f *fixture) admin() string {
	f.t.Helper()
	a := f.token(url.Values{"grant_type": {"client_credentials"}}, basic("admin", adminSecret))
	return f.want(a, 200).text("access_token")
}

// want fails the test unless the response has the status.
func (f *fixture) want(a *answer, status int) *answer {
	f.t.Helper()
	if a.status != status {
		f.t.Fatalf("status %d, want %d: %s", a.status, status, a.body)
	}
	return a
}

// wantError checks the status and the OAuth error code.
func (f *fixture) wantError(a *answer, status int, word string) *answer {
	f.t.Helper()
	f.want(a, status)
	if a.text("error") != word || a.text("error_description") == "" {
		f.t.Fatalf("error %q (%q), want %q with a description: %s", a.text("error"), a.text("error_description"),
			word, a.body)
	}
	return a
}

// claims decodes a token without verifying it.
func (f *fixture) claims(raw string) *token.Claims {
	f.t.Helper()
	parts := strings.Split(raw, ".")
	if len(parts) != 3 {
		f.t.Fatalf("not a JWT: %q", raw)
	}
	text, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		f.t.Fatal(err)
	}
	var c token.Claims
	if err := json.Unmarshal(text, &c); err != nil {
		f.t.Fatal(err)
	}
	return &c
}

// user creates a user and returns its id.
func (f *fixture) user(name, password string) string {
	f.t.Helper()
	a := f.call(http.MethodPost, "/Users", map[string]any{
		"userName": name, "password": password, "emails": []map[string]any{{"value": name + "@example.org", "primary": true}},
	}, bearer(f.admin()))
	return f.want(a, 201).text("id")
}

// client creates a client.
func (f *fixture) client(body map[string]any) *answer {
	f.t.Helper()
	return f.call(http.MethodPost, "/oauth/clients", body, bearer(f.admin()))
}

// browser returns an HTTP client that keeps cookies.
func (f *fixture) browser() *http.Client {
	jar, err := cookiejar.New(nil)
	if err != nil {
		f.t.Fatal(err)
	}
	return &http.Client{Jar: jar, CheckRedirect: noRedirect}
}

func asBrowser(r *http.Request) {
	r.Header.Set("Accept", "text/html,application/xhtml+xml,*/*;q=0.8")
	r.Header.Set("Sec-Fetch-Site", "same-origin")
}
