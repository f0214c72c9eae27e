package system

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/base/background/backgroundtest"
	"ingot/internal/base/db"
	"ingot/internal/base/db/dbtest"
	"ingot/internal/base/testkit"
)

var discard = slog.New(slog.DiscardHandler)

// The files of the administrator's secrets.
const (
	adminPasswordFile = "admin-password"
	adminClientFile   = "admin-client-secret"
)

// testConfig configures a separate server for one test.
func testConfig(t *testing.T) Config {
	t.Helper()
	c := DefaultConfig()
	// What runs apps is tested elsewhere; a trial container for each server
	// here would only take time.
	c.Engine, c.Programs = "process", testkit.Programs(t)
	c.DataDir = filepath.Join(t.TempDir(), "data")
	c.Listen, c.NotificationsListen, c.AdminListen, c.SSHListen = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0",
		"127.0.0.1:0"
	return c
}

func newSystem(t *testing.T, c Config) *System {
	t.Helper()
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s
}

func startSystem(t *testing.T, c Config) *System {
	t.Helper()
	s := newSystem(t, c)
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

type answer struct {
	status int
	header http.Header
	body   string
}

func (a answer) json(t *testing.T) map[string]any {
	t.Helper()
	var v map[string]any
	if err := json.Unmarshal([]byte(a.body), &v); err != nil {
		t.Fatalf("not JSON: %v: %s", err, a.body)
	}
	return v
}

// call makes a request with a token, if one is given.
func call(t *testing.T, method, address, bearer string, body any) answer {
	t.Helper()
	var reader io.Reader
	contentType := "application/json"
	switch b := body.(type) {
	case nil:
	case url.Values:
		reader, contentType = strings.NewReader(b.Encode()), "application/x-www-form-urlencoded"
	default:
		text, err := json.Marshal(b)
		if err != nil {
			t.Fatal(err)
		}
		reader = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(t.Context(), method, address, reader)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", contentType)
	req.Header.Set("Accept", "application/json")
	if bearer != "" {
		req.Header.Set("Authorization", "bearer "+bearer)
	}
	client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{res.StatusCode, res.Header, string(text)}
}

// clientToken gets a token for a client itself.
func clientToken(t *testing.T, s *System, id, secret string) string {
	t.Helper()
	a := call(t, http.MethodPost, s.Endpoints().Auth+"/oauth/token", "", url.Values{
		"grant_type": {"client_credentials"}, "client_id": {id}, "client_secret": {secret},
	})
	raw, _ := a.json(t)["access_token"].(string)
	if a.status != http.StatusOK || raw == "" {
		t.Fatalf("token of %s: %d %s", id, a.status, a.body)
	}
	return raw
}

func adminToken(t *testing.T, s *System) string {
	t.Helper()
	return clientToken(t, s, "admin", readSecret(t, s, adminClientFile))
}

func readSecret(t *testing.T, s *System, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(s.SecretsDir(), name))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

func TestHonoursTheContract(t *testing.T) {
	t.Parallel()
	backgroundtest.Stress(t, func(t *testing.T) background.Service { return newSystem(t, testConfig(t)) })
}

func TestEndpoints(t *testing.T) {
	t.Parallel()
	c := testConfig(t)
	s := newSystem(t, c)
	if e := s.Endpoints(); e != (Endpoints{}) {
		t.Errorf("before the start: %+v", e)
	}
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(c.DataDir, endpointsFile)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var e Endpoints
	if err := json.Unmarshal(text, &e); err != nil {
		t.Fatal(err)
	}
	if e != s.Endpoints() {
		t.Errorf("file %+v, method %+v", e, s.Endpoints())
	}
	if e.Auth != e.API || e.Domain != "localhost" || e.DataDir != c.DataDir || e.PID != os.Getpid() {
		t.Errorf("endpoints are %+v, want domain localhost, directory %s and this process", e, c.DataDir)
	}
	for _, address := range []string{e.API, e.Notifications, e.Admin} {
		if a := call(t, http.MethodGet, address+"/readyz", "", nil); a.status != http.StatusOK {
			t.Errorf("%s/readyz: %d %s", address, a.status, a.body)
		}
	}
	s.Stop()
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after the stop: %v", err)
	}
}

func TestAddressErrorsNameTheFlag(t *testing.T) {
	t.Parallel()
	first := startSystem(t, testConfig(t))
	taken := strings.TrimPrefix(first.Endpoints().Admin, "http://")
	c := testConfig(t)
	c.NotificationsListen = taken
	second := newSystem(t, c)
	err := second.Start(t.Context())
	if err == nil || !strings.Contains(err.Error(), "--notifications-listen") || !strings.Contains(err.Error(), taken) {
		t.Fatalf("got %v", err)
	}
	// Nothing is left of it: another server can have the directory.
	c.NotificationsListen = "127.0.0.1:0"
	startSystem(t, c)
}

func TestHealthComesBeforeReadiness(t *testing.T) {
	t.Parallel()
	c := testConfig(t)
	s := newSystem(t, c)
	t.Cleanup(s.steps.Unwind)
	dir, ports, err := s.lockAndListen(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.openPorts(t.Context(), dir, ports); err != nil {
		t.Fatal(err)
	}
	e := s.Endpoints()
	for _, address := range []string{e.API, e.Notifications, e.Admin} {
		if a := call(t, http.MethodGet, address+"/healthz", "", nil); a.status != http.StatusOK ||
			a.json(t)["status"] != "ok" {
			t.Errorf("%s/healthz: %d %s", address, a.status, a.body)
		}
		a := call(t, http.MethodGet, address+"/readyz", "", nil)
		if a.status != http.StatusServiceUnavailable || !strings.Contains(a.body, partDatabase) {
			t.Errorf("%s/readyz: %d %s", address, a.status, a.body)
		}
	}
	for address, want := range map[string]string{
		e.API + "/v3/info":          `"title":"CF-ServiceUnavailable"`,
		e.API + "/oauth/token":      `"error":"temporarily_unavailable"`,
		e.Notifications + "/v1/any": `{"errors":["The server is starting`,
	} {
		a := call(t, http.MethodGet, address, "", nil)
		if a.status != http.StatusServiceUnavailable || a.header.Get("Retry-After") != "1" ||
			!strings.Contains(a.body, want) {
			t.Errorf("%s answers %d %v %s, want 503 with Retry-After 1 and %s", address, a.status, a.header, a.body, want)
		}
	}
}

func TestAdminListener(t *testing.T) {
	t.Parallel()
	s := startSystem(t, testConfig(t))
	e := s.Endpoints()
	call(t, http.MethodGet, e.API+"/v3/info", "", nil)
	a := call(t, http.MethodGet, e.Admin+"/metrics", "", nil)
	for _, want := range []string{"go_goroutines", "process_start_time_seconds", `route="/v3/info"`} {
		if !strings.Contains(a.body, want) {
			t.Errorf("/metrics lacks %s", want)
		}
	}
	for _, path := range []string{"/debug/pprof/", "/debug/pprof/goroutine", "/debug/pprof/symbol"} {
		if a := call(t, http.MethodGet, e.Admin+path, "", nil); a.status != http.StatusOK {
			t.Errorf("%s answers %d, want 200", path, a.status)
		}
	}
	for _, address := range []string{e.API, e.Notifications} {
		for _, path := range []string{"/metrics", "/debug/pprof/"} {
			if a := call(t, http.MethodGet, address+path, "", nil); a.status != http.StatusNotFound {
				t.Errorf("%s%s: %d, want 404", address, path, a.status)
			}
		}
	}
}

// TestUsers goes the way of `cf create-user` and `cf delete-user`.
func TestUsers(t *testing.T) {
	t.Parallel()
	for _, dialect := range dbtest.Dialects {
		t.Run(dialect.String(), func(t *testing.T) {
			t.Parallel()
			c := testConfig(t)
			if dialect == db.Postgres {
				c.DatabaseURL = dbtest.URL(t, dialect)
			}
			s := startSystem(t, c)
			base, admin := s.Endpoints().API, adminToken(t, s)

			made := call(t, http.MethodPost, base+"/Users", admin, map[string]any{
				"userName": "anna", "password": "correct horse battery", "origin": "",
				"emails": []map[string]any{{"value": "anna@example.org", "primary": true}},
			})
			guid, _ := made.json(t)["id"].(string)
			if made.status != http.StatusCreated || guid == "" {
				t.Fatalf("create in the authorization server: %d %s", made.status, made.body)
			}
			a := call(t, http.MethodPost, base+"/v3/users", admin, map[string]string{"guid": guid})
			if u := a.json(t); a.status != http.StatusCreated || u["username"] != "anna" || u["origin"] != "uaa" ||
				u["presentation_name"] != "anna" {
				t.Fatalf("create: %d %s", a.status, a.body)
			}
			if a.header.Get("Location") != "" {
				t.Error("a Location on a finished request would be polled as a job")
			}
			a = call(t, http.MethodPost, base+"/v3/users", admin, map[string]string{"guid": guid})
			if a.status != http.StatusUnprocessableEntity ||
				!strings.Contains(a.body, "User with guid '"+guid+"' already exists.") {
				t.Errorf("create again: %d %s", a.status, a.body)
			}
			if a = call(t, http.MethodGet, base+"/v3/users/"+guid, admin, nil); a.status != http.StatusOK {
				t.Errorf("get: %d %s", a.status, a.body)
			}
			a = call(t, http.MethodDelete, base+"/v3/users/"+guid, admin, nil)
			job := a.header.Get("Location")
			if a.status != http.StatusAccepted || !strings.HasPrefix(job, base+"/v3/jobs/") {
				t.Fatalf("delete: %d %q", a.status, job)
			}
			a = call(t, http.MethodGet, job, admin, nil)
			if j := a.json(t); a.status != http.StatusOK || j["state"] != "COMPLETE" || j["operation"] != "user.delete" {
				t.Errorf("job: %d %s", a.status, a.body)
			}
			for _, method := range []string{http.MethodGet, http.MethodDelete} {
				a = call(t, method, base+"/v3/users/"+guid, admin, nil)
				if a.status != http.StatusNotFound || !strings.Contains(a.body, `"detail":"User not found"`) {
					t.Errorf("%s after the delete: %d %s", method, a.status, a.body)
				}
			}
		})
	}
}

func TestSecondServerIsRefused(t *testing.T) {
	t.Parallel()
	c := testConfig(t)
	first := startSystem(t, c)
	second := newSystem(t, c)
	err := second.Start(t.Context())
	want := fmt.Sprintf("another ingot (pid %d) is already using %s; stop it, replace it with --replace, or choose "+
		"another --data-dir", os.Getpid(), c.DataDir)
	if err == nil || err.Error() != want {
		t.Fatalf("got  %v\nwant %s", err, want)
	}
	if _, err := os.Stat(filepath.Join(c.DataDir, endpointsFile)); err != nil {
		t.Errorf("the refused server took the first one's file away: %v", err)
	}
	first.Stop()
	startSystem(t, c)
}
