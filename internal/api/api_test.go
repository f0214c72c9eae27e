package api_test

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"ingot/internal/api"
	"ingot/internal/fault"
	"ingot/internal/token"
	"ingot/internal/web"
)

const issuer = "http://uaa.example.org/oauth/token"

var discard = slog.New(slog.DiscardHandler)

var moment = time.Date(2026, 3, 1, 12, 30, 45, 999, time.UTC)

// memory is a Store for tests.
type memory struct {
	users map[string]*api.User
	jobs  map[string]*api.Job
	fail  error
}

func (m *memory) CreateUser(_ context.Context, u *api.User) error {
	if _, ok := m.users[u.GUID]; ok {
		return fault.New(fault.Conflict, "taken")
	}
	m.users[u.GUID] = u
	return m.fail
}

func (m *memory) User(_ context.Context, guid string) (*api.User, error) {
	if u, ok := m.users[guid]; ok {
		return u, m.fail
	}
	return nil, fault.New(fault.NotFound, "not found")
}

func (m *memory) DeleteUser(_ context.Context, guid string, job *api.Job) error {
	if _, ok := m.users[guid]; !ok {
		return fault.New(fault.NotFound, "not found")
	}
	delete(m.users, guid)
	m.jobs[job.GUID] = job
	return nil
}

func (m *memory) Job(_ context.Context, guid string) (*api.Job, error) {
	if j, ok := m.jobs[guid]; ok {
		return j, nil
	}
	return nil, fault.New(fault.NotFound, "not found")
}

// names is a Directory for tests.
type names struct {
	known map[string]api.DirectoryUser
	fail  error
}

func (n names) UsersByID(context.Context, []string) (map[string]api.DirectoryUser, error) {
	return n.known, n.fail
}

// oneKey is the authorization server's key.
type oneKey struct{ private *rsa.PrivateKey }

func (k oneKey) Key(_ context.Context, kid string) (any, error) {
	if kid != "k" {
		return nil, token.ErrUnknownKey
	}
	return &k.private.PublicKey, nil
}

type bundle struct {
	store *memory
	mux   *web.Mux
	key   oneKey
}

func setup(t *testing.T, directory api.Directory) *bundle {
	t.Helper()
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	b := &bundle{
		store: &memory{users: map[string]*api.User{}, jobs: map[string]*api.Job{}},
		mux:   web.NewMux(web.FormatV3, discard, nil), key: oneKey{private},
	}
	api.New(api.Options{
		Store: b.store, Directory: directory, Now: func() time.Time { return moment },
		Verifier: token.NewVerifier(token.Options{Issuer: issuer, Audiences: []string{api.Audience}, Keys: b.key}),
	}).Routes(b.mux)
	return b
}

func (b *bundle) token(t *testing.T, user string, scopes ...string) string {
	t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: jose.JSONWebKey{Key: b.key.private, KeyID: "k"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	raw, err := jwt.Signed(signer).Claims(&token.Claims{
		ID: "id", Subject: user, Issuer: issuer, Audience: token.Audience{api.Audience}, Scope: scopes,
		ClientID: "cf", UserID: user, IssuedAt: now.Unix(), ExpiresAt: now.Add(time.Hour).Unix(),
	}).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func (b *bundle) ask(method, path, bearer, body string, change ...func(*http.Request)) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Host = "api.example.org:8080"
	if bearer != "" {
		r.Header.Set("Authorization", "bearer "+bearer)
	}
	for _, f := range change {
		f(r)
	}
	w := httptest.NewRecorder()
	b.mux.ServeHTTP(w, r)
	return w
}

func TestRootLinksLeadBackToTheClientsOrigin(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	for name, tc := range map[string]struct {
		change func(*http.Request)
		want   string
	}{
		"as asked":      {func(*http.Request) {}, "http://api.example.org:8080"},
		"by address":    {func(r *http.Request) { r.Host = "[::1]:1" }, "http://[::1]:1"},
		"behind TLS":    {func(r *http.Request) { r.Header.Set("X-Forwarded-Proto", "https") }, "https://api.example.org:8080"},
		"invented word": {func(r *http.Request) { r.Header.Set("X-Forwarded-Proto", "javascript") }, "http://api.example.org:8080"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := b.ask(http.MethodGet, "/", "", "", tc.change)
			var root struct {
				Links map[string]*struct {
					Href string
					Meta struct{ Version string }
				}
				K8s *bool `json:"cf_on_k8s"`
			}
			if err := json.Unmarshal(w.Body.Bytes(), &root); err != nil {
				t.Fatal(err)
			}
			if root.K8s != nil {
				t.Error("cf_on_k8s makes the client log in another way")
			}
			for link, want := range map[string]string{
				"self": tc.want, "cloud_controller_v3": tc.want + "/v3", "login": tc.want, "uaa": tc.want, "log_cache": tc.want,
				"network_policy_v1": tc.want + "/networking/v1/external", "routing": tc.want + "/routing",
			} {
				if l := root.Links[link]; l == nil || l.Href != want {
					t.Errorf("%s: %+v, want %s", link, l, want)
				}
			}
			if v := root.Links["cloud_controller_v3"].Meta.Version; v != api.Version {
				t.Errorf("version %q", v)
			}
			for _, link := range []string{"logging", "app_ssh"} {
				if l, listed := root.Links[link]; !listed || l != nil {
					t.Errorf("%s: %v, want null", link, l)
				}
			}
		})
	}
}

func TestDiscoveryIsOpen(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	for path, want := range map[string]string{
		"/v3":      `"self":{"href":"http://api.example.org:8080/v3"}`,
		"/v3/info": `"osbapi_version":"2.17"`,
	} {
		if w := b.ask(http.MethodGet, path, "", ""); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
}

func TestUsers(t *testing.T) {
	t.Parallel()
	const admin, reader = "cloud_controller.admin", "cloud_controller.read"
	anna := names{known: map[string]api.DirectoryUser{"anna-id": {UserName: "anna", Origin: "uaa"}}}
	tests := map[string]struct {
		directory     api.Directory
		user          string
		scope         string
		method, path  string
		body          string
		status        int
		want, wantNot string
	}{
		"create": {anna, "boss", admin, "POST", "/v3/users", `{"guid":"new"}`, 201,
			`{"guid":"new","created_at":"2026-03-01T12:30:45Z","updated_at":"2026-03-01T12:30:45Z","username":null,"presentation_name":"new","origin":null,` +
				`"metadata":{"labels":{},"annotations":{}},"links":{"self":{"href":"http://api.example.org:8080/v3/users/new"}}}`, ""},
		"odd guid":         {anna, "boss", admin, "POST", "/v3/users", `{"guid":"a/b?c"}`, 201, `/v3/users/a%2Fb%3Fc"`, ""},
		"create twice":     {anna, "boss", admin, "POST", "/v3/users", `{"guid":"anna-id"}`, 422, `"detail":"User with guid 'anna-id' already exists."`, ""},
		"no guid":          {anna, "boss", admin, "POST", "/v3/users", `{}`, 422, "between 1 and 200", ""},
		"long guid":        {anna, "boss", admin, "POST", "/v3/users", `{"guid":"` + strings.Repeat("x", 201) + `"}`, 422, "between 1 and 200", ""},
		"number":           {anna, "boss", admin, "POST", "/v3/users", `{"guid":7}`, 422, "guid must be a string", ""},
		"unknown member":   {anna, "boss", admin, "POST", "/v3/users", `{"guid":"x","colour":1}`, 422, "Unknown field(s): 'colour'", ""},
		"broken JSON":      {anna, "boss", admin, "POST", "/v3/users", `{`, 400, "CF-MessageParseError", ""},
		"create as reader": {anna, "anna-id", reader, "POST", "/v3/users", `{"guid":"new"}`, 403, "CF-NotAuthorized", ""},
		"get":              {anna, "boss", admin, "GET", "/v3/users/anna-id", "", 200, `"username":"anna","presentation_name":"anna","origin":"uaa"`, ""},
		"get as auditor":   {anna, "boss", "cloud_controller.global_auditor", "GET", "/v3/users/anna-id", "", 200, `"anna"`, ""},
		"get oneself":      {anna, "anna-id", reader, "GET", "/v3/users/anna-id", "", 200, `"anna"`, ""},
		"get another":      {anna, "bert-id", reader, "GET", "/v3/users/anna-id", "", 404, `"detail":"User not found"`, "anna"},
		"get nobody":       {anna, "boss", admin, "GET", "/v3/users/none", "", 404, `"detail":"User not found"`, ""},
		"directory away":   {names{fail: errors.New("no route")}, "boss", admin, "GET", "/v3/users/anna-id", "", 200, `"username":null,"presentation_name":"anna-id"`, "no route"},
		"delete nobody":    {anna, "boss", admin, "DELETE", "/v3/users/none", "", 404, `"detail":"User not found"`, ""},
		"delete as reader": {anna, "anna-id", reader, "DELETE", "/v3/users/anna-id", "", 403, "CF-NotAuthorized", ""},
		"no job":           {anna, "boss", admin, "GET", "/v3/jobs/none", "", 404, `"detail":"Job not found"`, ""},
		"unknown":          {anna, "boss", admin, "GET", "/v3/nothing", "", 404, `"detail":"Unknown request"`, ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, tc.directory)
			b.store.users["anna-id"] = &api.User{GUID: "anna-id", Created: moment, Updated: moment}
			w := b.ask(tc.method, tc.path, b.token(t, tc.user, tc.scope), tc.body)
			if w.Code != tc.status || !strings.Contains(w.Body.String(), tc.want) {
				t.Errorf("%d %s\nwant %d %s", w.Code, w.Body, tc.status, tc.want)
			}
			if tc.wantNot != "" && strings.Contains(w.Body.String(), tc.wantNot) {
				t.Errorf("it tells %q: %s", tc.wantNot, w.Body)
			}
			if w.Header().Get("Location") != "" {
				t.Error("a Location would be polled as a job")
			}
		})
	}
}

func TestDeleteUserIsAJob(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	b.store.users["anna-id"] = &api.User{GUID: "anna-id"}
	admin := b.token(t, "boss", "cloud_controller.admin")
	w := b.ask(http.MethodDelete, "/v3/users/anna-id", admin, "")
	path, ok := strings.CutPrefix(w.Header().Get("Location"), "http://api.example.org:8080")
	if w.Code != http.StatusAccepted || !ok || w.Body.Len() > 0 {
		t.Fatalf("%d %v %s", w.Code, w.Header(), w.Body)
	}
	w = b.ask(http.MethodGet, path, admin, "")
	guid := strings.TrimPrefix(path, "/v3/jobs/")
	want := `{"guid":"` + guid + `","created_at":"2026-03-01T12:30:45Z","updated_at":"2026-03-01T12:30:45Z","operation":"user.delete",` +
		`"state":"COMPLETE","errors":[],"warnings":[],"links":{"self":{"href":"http://api.example.org:8080/v3/jobs/` + guid + `"}}}`
	if w.Code != http.StatusOK || strings.TrimSpace(w.Body.String()) != want {
		t.Errorf("%d %s\nwant %s", w.Code, w.Body, want)
	}
}

func TestFailedJob(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	b.store.jobs["j"] = &api.Job{
		GUID: "j", Operation: "app.delete", State: api.JobFailed,
		Errors: []api.JobError{{Code: 10008, Title: "CF-UnprocessableEntity", Detail: "no"}}, Warnings: []string{"slow"},
	}
	w := b.ask(http.MethodGet, "/v3/jobs/j", b.token(t, "u", "cloud_controller.read"), "")
	for _, want := range []string{`"state":"FAILED"`, `[{"code":10008,"title":"CF-UnprocessableEntity","detail":"no"}]`, `[{"detail":"slow"}]`} {
		if !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s lacks %s", w.Body, want)
		}
	}
}
