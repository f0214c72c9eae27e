package api_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"ingot/internal/base/db"
	"ingot/internal/base/db/dbtest"
	"ingot/internal/base/fault"
	"ingot/internal/base/safedial"
	"ingot/internal/base/token"
	"ingot/internal/base/web"
	"ingot/internal/platform"
	"ingot/internal/platform/actions"
	"ingot/internal/platform/actions/metering"
	"ingot/internal/platform/api"
	"ingot/internal/platform/api/apps"
	"ingot/internal/platform/api/builds"
	"ingot/internal/platform/api/orgs"
	"ingot/internal/platform/platformdb"
	"ingot/internal/platform/services"
	"ingot/internal/platform/services/osb"
)

var signingKey = sync.OnceValue(func() *rsa.PrivateKey {
	k, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return k
})

type staticKeys struct{}

func (staticKeys) Key(context.Context, string) (any, error) { return &signingKey().PublicKey, nil }

// fixture is the whole API on a real store, with fakes for what runs apps.
type fixture struct {
	t *testing.T
	// loose: answers are not compared with the description, which takes most of
	// the time of a test with thousands of requests.
	loose   bool
	store   platform.Store
	handler http.Handler
	routes  []web.Route
	tokens  map[string]string // signing takes a while
	users   map[string]orgs.DirectoryUser
	signals *signals
	blobs   *blobs

	services   *services.Services
	dashboards *dashboards
}

// dashboards are the clients of an authorization server.
type dashboards struct {
	mu      sync.Mutex
	clients map[string]osb.DashboardClient
	puts    int
	refuse  error
}

func (d *dashboards) Exists(_ context.Context, id string) (bool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, ok := d.clients[id]
	return ok, d.refuse
}

func (d *dashboards) Put(_ context.Context, c osb.DashboardClient) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.refuse == nil {
		d.puts++
		d.clients[c.ID] = c
	}
	return d.refuse
}

func (d *dashboards) Delete(_ context.Context, id string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.refuse == nil {
		delete(d.clients, id)
	}
	return d.refuse
}

func setup(t *testing.T) *fixture { return setupOn(t, db.SQLite) }

func setupOn(t *testing.T, dialect db.Dialect) *fixture {
	t.Helper()
	return setupStore(t, dialect, func(s platform.Store) platform.Store { return s })
}

// setupWith gives the API another view of the store.
func setupWith(t *testing.T, see func(platform.Store) platform.Store) *fixture {
	t.Helper()
	return setupStore(t, db.SQLite, see)
}

func setupStore(t *testing.T, dialect db.Dialect, see func(platform.Store) platform.Store) *fixture {
	t.Helper()
	return setupOptions(t, dialect, func(o *api.Options) { o.Store = see(o.Store) })
}

// setupOptions has an API that a test changes before it is made.
func setupOptions(t *testing.T, dialect db.Dialect, change func(*api.Options)) *fixture {
	t.Helper()
	d := dbtest.Migrated(t, dialect, platformdb.Migrations)
	stored := platformdb.New(d)
	stored.Watch(metering.Meter)
	f := &fixture{t: t, store: stored, users: map[string]orgs.DirectoryUser{}, tokens: map[string]string{},
		signals: &signals{}, blobs: &blobs{packages: map[string][]byte{}}}
	stored.Notify(f.signals)
	announced := announcedStore{f.store, t}
	verifier := token.NewVerifier(token.Options{Issuer: "test", Audiences: []string{"cloud_controller"},
		Keys: staticKeys{}})
	actions := actions.New()
	f.dashboards = &dashboards{clients: map[string]osb.DashboardClient{"cf": {ID: "cf"}}}
	f.services = services.New(services.Config{
		Store: announced, Platform: actions, Number: web.Number, Poll: 20 * time.Millisecond,
		Interval: 50 * time.Millisecond, Retry: 20 * time.Millisecond,
		Broker: osb.Options{Timeout: 20 * time.Second, PlatformURL: "https://api.example.com/",
			Guard: safedial.Everywhere},
		Dashboards: f.dashboards,
	})
	if err := f.services.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.services.Stop)
	options := api.Options{
		Store: announced, Platform: actions, Services: f.services, Directory: f, Runtime: runtime{},
		Blobs: f.blobs, Verifier: verifier,
	}
	change(&options)
	a := api.New(options)
	quiet := slog.New(slog.DiscardHandler)
	mux := web.NewMux(web.FormatV3, quiet, nil)
	a.Routes(mux)
	f.routes = mux.Routes()
	f.handler = web.Pipeline(mux, web.FormatV3, quiet)
	err := f.store.Update(t.Context(), func(tx platform.Tx) error {
		if err := tx.Stacks().Insert(&platform.Stack{Name: "cflinuxfs4", Default: true,
			State: platform.StackActive}); err != nil {
			return err
		}
		if err := tx.Buildpacks().Insert(&platform.Buildpack{Name: "go_buildpack", Position: 1, Enabled: true,
			State: platform.BuildpackReady, Lifecycle: "buildpack"}); err != nil {
			return err
		}
		return tx.Domains().Insert(&platform.Domain{Name: "apps.localhost"})
	})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func (f *fixture) UsersByID(_ context.Context, ids []string) (map[string]orgs.DirectoryUser, error) {
	out := map[string]orgs.DirectoryUser{}
	for _, id := range ids {
		if u, ok := f.users[id]; ok {
			out[id] = u
		}
	}
	return out, nil
}

func (f *fixture) UsersByName(_ context.Context, names, origins []string) ([]orgs.DirectoryUser, error) {
	var out []orgs.DirectoryUser
	for _, u := range f.users {
		for _, n := range names {
			if strings.EqualFold(n, u.UserName) && (len(origins) == 0 || slices.Contains(origins, u.Origin)) {
				out = append(out, u)
			}
		}
	}
	return out, nil
}

func (f *fixture) CreateUser(_ context.Context, name, origin string) (orgs.DirectoryUser, error) {
	u := orgs.DirectoryUser{ID: "shadow-" + name, UserName: name, Origin: origin}
	f.users[u.ID] = u
	return u, nil
}

func (f *fixture) ClientExists(_ context.Context, id string) (bool, error) {
	return id == "ci-client", nil
}

type runtime struct{}

func (runtime) Usage(context.Context, []*platform.Instance) map[string]apps.InstanceUsage { return nil }

type signals struct {
	mu     sync.Mutex
	builds []string
	apps   []string
	tasks  int
}

// Changed implements platform.Sink.
func (s *signals) Changed(_ context.Context, c platform.Changes) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.apps, s.builds = append(s.apps, c.Apps...), append(s.builds, c.Builds...)
	if c.Tasks {
		s.tasks++
	}
}

type blobs struct {
	mu        sync.Mutex
	packages  map[string][]byte
	elsewhere string // where clients download
	cleared   []string
}

func (b *blobs) count() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.packages)
}

func (b *blobs) PutPackage(_ context.Context, guid, _ string, zip io.ReaderAt, size int64,
	_ []builds.Resource) (string, error) {
	if zip == nil { // everything is already stored
		zip = strings.NewReader("")
	}
	content, err := io.ReadAll(io.NewSectionReader(zip, 0, size))
	if bytes.HasPrefix(content, []byte("broken")) {
		return "", fault.Invalid("The archive is not valid")
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.packages[guid] = content
	return "sha", err
}

type seeker struct{ *bytes.Reader }

func (seeker) Close() error { return nil }

func (b *blobs) LocatePackage(_ context.Context, guid string) (string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.elsewhere == "" {
		return "", nil
	}
	return b.elsewhere + guid, nil
}

func (b *blobs) OpenPackage(_ context.Context, guid string) (builds.Download, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return builds.Download{File: seeker{bytes.NewReader(b.packages[guid])}}, nil
}
func (b *blobs) CopyPackage(context.Context, string, string) error { return nil }
func (b *blobs) PutDroplet(_ context.Context, guid string, r io.Reader) (string, int64, error) {
	content, err := io.ReadAll(r)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.packages[guid] = content
	return "sha", int64(len(content)), err
}
func (b *blobs) LocateDroplet(ctx context.Context, guid string) (string, error) {
	return b.LocatePackage(ctx, guid)
}
func (b *blobs) OpenDroplet(ctx context.Context, guid string) (builds.Download, error) {
	return b.OpenPackage(ctx, guid)
}
func (b *blobs) PatchPackage(_ context.Context, from, to string, p builds.Patch) (string, builds.PatchedFiles, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.packages[to] = b.packages[from]
	files := builds.PatchedFiles{Deleted: p.Deleted}
	if p.Files != nil { // the fixture's zip is the name of a file
		name, err := io.ReadAll(io.NewSectionReader(p.Files, 0, p.Size))
		if err != nil {
			return "", files, err
		}
		if string(name) == "broken" {
			return "", files, fault.Invalid("The archive is not valid")
		}
		files.Changed = []string{string(name)}
	}
	return "sha", files, nil
}
func (b *blobs) PatchDroplet(_ context.Context, from, to string, p builds.Patch) (string, int64, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if slices.Contains(p.Deleted, "odd") {
		return "", 0, builds.ErrNeedsBuild
	}
	if slices.Contains(p.Deleted, "fails") {
		return "", 0, errors.New("the disk failed")
	}
	b.packages[to] = b.packages[from]
	return "sha-" + to, 1, nil
}
func (b *blobs) DiscardPatched(_ context.Context, packageGUID, dropletGUID string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.packages, packageGUID)
	delete(b.packages, dropletGUID)
	return nil
}
func (b *blobs) CopyDroplet(context.Context, string, string) error { return nil }
func (b *blobs) PutBuildpack(context.Context, string, io.ReaderAt, int64) (string, error) {
	return "sha", nil
}
func (b *blobs) DeleteBuildpack(context.Context, string) error { return nil }
func (b *blobs) ClearBuildCache(_ context.Context, app string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.cleared = append(b.cleared, app)
	return nil
}
func (b *blobs) Match(_ context.Context, _ string, r []builds.Resource) ([]builds.Resource, error) {
	return r[:1], nil
}

// as makes a token of a user with scopes.
func (f *fixture) as(user string, scopes ...string) string {
	f.t.Helper()
	if len(scopes) == 0 {
		scopes = []string{"cloud_controller.read", "cloud_controller.write"}
	}
	f.users[user+"-guid"] = orgs.DirectoryUser{ID: user + "-guid", UserName: user, Origin: "uaa"}
	key := user + " " + strings.Join(scopes, " ")
	if raw, ok := f.tokens[key]; ok {
		return raw
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: jose.JSONWebKey{Key: signingKey(),
		KeyID: "k"}}, nil)
	if err != nil {
		f.t.Fatal(err)
	}
	raw, err := jwt.Signed(signer).Claims(token.Claims{
		ID: "1", Issuer: "test", Audience: token.Audience{"cloud_controller"}, UserID: user + "-guid", UserName: user,
		ClientID: "cf", Scope: scopes,
		IssuedAt: time.Now().Unix(), ExpiresAt: time.Now().Add(time.Hour).Unix(),
	}).Serialize()
	if err != nil {
		f.t.Fatal(err)
	}
	f.tokens[key] = raw
	return raw
}

func (f *fixture) admin() string {
	return f.as("admin", "cloud_controller.admin", "cloud_controller.read", "cloud_controller.write")
}

type answer struct {
	status int
	header http.Header
	body   string
	json   map[string]any
}

// at walks the JSON by a dotted path; numbers index lists.
func (a *answer) at(path string) any {
	var v any = a.json
	for _, part := range strings.Split(path, ".") {
		switch node := v.(type) {
		case map[string]any:
			v = node[part]
		case []any:
			var i int
			if _, err := fmt.Sscan(part, &i); err != nil || i >= len(node) {
				return nil
			}
			v = node[i]
		default:
			return nil
		}
	}
	return v
}

func (a *answer) guid() string {
	g, _ := a.json["guid"].(string)
	return g
}

func (a *answer) detail() string {
	s, _ := a.at("errors.0.detail").(string)
	return s
}

func (f *fixture) call(tok, method, path string, body any) *answer {
	f.t.Helper()
	var in io.Reader
	kind := "application/json"
	switch b := body.(type) {
	case nil:
	case string:
		in = strings.NewReader(b)
		if strings.Contains(path, "manifest") {
			kind = "application/x-yaml"
		}
	default:
		raw, err := json.Marshal(b)
		if err != nil {
			f.t.Fatal(err)
		}
		in = bytes.NewReader(raw)
	}
	r := httptest.NewRequest(method, path, in)
	r.Header.Set("Content-Type", kind)
	return f.send(tok, r)
}

func (f *fixture) send(tok string, r *http.Request) *answer {
	if tok != "" {
		r.Header.Set("Authorization", "bearer "+tok)
	}
	w := httptest.NewRecorder()
	f.handler.ServeHTTP(w, r)
	a := &answer{status: w.Code, header: w.Header(), body: w.Body.String()}
	_ = json.Unmarshal(w.Body.Bytes(), &a.json)
	f.checkOpenAPI(r, a)
	return a
}

// upload sends a multipart body with a file and fields.
func (f *fixture) upload(tok, path, filename, content string, fields map[string]string) *answer {
	var b bytes.Buffer
	m := multipart.NewWriter(&b)
	for k, v := range fields {
		_ = m.WriteField(k, v)
	}
	if filename != "" {
		part, _ := m.CreateFormFile("bits", filename)
		_, _ = io.WriteString(part, content)
	}
	_ = m.Close()
	r := httptest.NewRequest(http.MethodPost, path, &b)
	r.Header.Set("Content-Type", m.FormDataContentType())
	return f.send(tok, r)
}

func (f *fixture) want(a *answer, status int) *answer {
	f.t.Helper()
	if a.status != status {
		f.t.Fatalf("status %d, want %d: %s", a.status, status, a.body)
	}
	return a
}

func rel(kv ...string) map[string]any {
	out := map[string]any{}
	for i := 0; i < len(kv); i += 2 {
		out[kv[i]] = map[string]any{"data": map[string]any{"guid": kv[i+1]}}
	}
	return out
}

// org, space and app create one by the admin.
func (f *fixture) org(name string) string {
	f.t.Helper()
	return f.want(f.call(f.admin(), "POST", "/v3/organizations", map[string]any{"name": name}), 201).guid()
}

func (f *fixture) space(org, name string) string {
	f.t.Helper()
	return f.want(f.call(f.admin(), "POST", "/v3/spaces",
		map[string]any{"name": name, "relationships": rel("organization", org)}), 201).guid()
}

func (f *fixture) app(space, name string, more ...map[string]any) string {
	f.t.Helper()
	body := map[string]any{"name": name, "relationships": rel("space", space)}
	for _, m := range more {
		maps.Copy(body, m)
	}
	return f.want(f.call(f.admin(), "POST", "/v3/apps", body), 201).guid()
}

// role gives a user a role in a space or organization, with what it needs.
func (f *fixture) role(user, kind, place string) {
	f.t.Helper()
	f.as(user)
	field := "space"
	if strings.HasPrefix(kind, "organization") {
		field = "organization"
	}
	relationships := rel(field, place)
	relationships["user"] = map[string]any{"data": map[string]any{"username": user}}
	f.want(f.call(f.admin(), "POST", "/v3/roles", map[string]any{"type": kind, "relationships": relationships}), 201)
}

// names are those of a list's resources.
func names(a *answer) []string {
	var out []string
	list, _ := a.json["resources"].([]any)
	for _, r := range list {
		name, _ := r.(map[string]any)["name"].(string)
		out = append(out, name)
	}
	return out
}
