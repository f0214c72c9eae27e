//go:build unix

package system

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"ingot/internal/base/db"
	"ingot/internal/base/db/dbtest"
	"ingot/internal/base/testkit"
	"ingot/internal/platform/alerts"
)

// keepRelease is for the one who makes a release:
//
//	go test ./internal/system -run TestKeepRelease -keep-release 0.2.0
var keepRelease = flag.String("keep-release", "",
	"write the data of a populated server to testdata/releases, as that of this `version`")

// releasesDir has the data directory of a populated server of every release, and the dump
// of its database if that is PostgreSQL.
const releasesDir = "testdata/releases"

// The files that are in an archive beside those of the data directory.
const (
	sqlFile      = "dump.sql"
	observedFile = "observed.json"
)

// kept is one archive: VERSION.DIALECT.tar.gz.
func kept(version string, dialect db.Dialect) string {
	return filepath.Join(releasesDir, fmt.Sprintf("%s.%s.tar.gz", version, dialect))
}

// TestReleases starts a server on the data of every release, and checks that everything is
// still readable.
func TestReleases(t *testing.T) {
	t.Parallel()
	for _, dialect := range dbtest.Dialects {
		files, err := filepath.Glob(kept("*", dialect))
		if err != nil || len(files) == 0 {
			t.Errorf("%s has no data on %s: %v", releasesDir, dialect, err)
		}
		for _, file := range files {
			t.Run(strings.TrimSuffix(filepath.Base(file), ".tar.gz"), func(t *testing.T) {
				t.Parallel()
				c := testConfig(t)
				c.DataDir = passableDir(t)
				unpackRelease(t, file, c.DataDir)
				if dialect == db.Postgres {
					c.DatabaseURL = dbtest.URL(t, db.Postgres)
					loadDump(t, c.DatabaseURL, filepath.Join(c.DataDir, sqlFile))
				}
				readRelease(t, c)
			})
		}
	}
}

// readRelease starts a server and compares what it shows with what the release showed.
func readRelease(t *testing.T, c Config) {
	t.Helper()
	var want map[string]any
	text, err := os.ReadFile(filepath.Join(c.DataDir, observedFile))
	if err == nil {
		err = json.Unmarshal(text, &want)
	}
	if err != nil {
		t.Fatal(err)
	}
	f := &faultySite{T: t, System: startSystem(t, c)}
	f.api, f.token = f.Endpoints().API, adminToken(t, f.System)
	for _, path := range slices.Sorted(maps.Keys(want)) {
		onlyCommands(want[path])
		if difference := missing(want[path], f.observe(path), ""); difference != "" {
			t.Errorf("%s: %s", path, difference)
		}
	}
	for name, want := range map[string]bool{alerts.PositionFile: true, alerts.OldPositionFile: false} {
		if _, err := os.Stat(filepath.Join(c.DataDir, name)); (err == nil) != want {
			t.Errorf("%s: %v, want that it exists: %v", name, err, want)
		}
	}
	// What is sealed can be read, and a droplet of the release runs.
	app := f.list("/v3/apps?names=app")[0]["guid"].(string)
	if a := f.ask(http.MethodGet, "/v3/apps/"+app+"/environment_variables", nil); !strings.Contains(a.body, "green") {
		t.Errorf("environment %s, want the one of the release", a.body)
	}
	f.act(app, "start")
	testkit.Eventually(t, "the app runs", func() bool { return f.running(app) != "" })
	f.end(app)
}

// onlyCommands removes what the first releases showed of the processes of revisions beside their
// commands: clients of Cloud Foundry cannot read it.
func onlyCommands(list any) {
	page, _ := list.(map[string]any)
	resources, _ := page["resources"].([]any)
	for _, one := range resources {
		revision, _ := one.(map[string]any)
		processes, _ := revision["processes"].(map[string]any)
		for _, process := range processes {
			if shown, ok := process.(map[string]any); ok {
				maps.DeleteFunc(shown, func(key string, _ any) bool { return key != "command" })
			}
		}
	}
}

// ports are addresses of servers, which differ from start to start.
var ports = regexp.MustCompile(`127\.0\.0\.1:\d+`)

// observe returns what the server shows at a path: of its API, or of the notification
// service if it begins with mail:. Addresses are replaced, because they differ.
func (f *faultySite) observe(path string) any {
	f.Helper()
	var a answer
	if mail, ok := strings.CutPrefix(path, "mail:"); ok {
		a = call(f.T, http.MethodGet, f.Endpoints().Notifications+mail, clientToken(f.T, f.System, "mailer",
			"a long enough secret"), nil)
	} else {
		a = f.ask(http.MethodGet, path, nil)
	}
	if a.status != http.StatusOK {
		f.Errorf("GET %s: %d %s, want 200", path, a.status, a.body)
		return nil
	}
	var v any
	if err := json.Unmarshal([]byte(ports.ReplaceAllString(a.body, "ADDRESS")), &v); err != nil {
		f.Fatal(err)
	}
	return v
}

// missing returns what of want is not in got. Later versions may add fields.
func missing(want, got any, at string) string {
	switch want := want.(type) {
	case map[string]any:
		object, ok := got.(map[string]any)
		if !ok {
			return fmt.Sprintf("%s is %v, want an object", at, got)
		}
		for key, value := range want {
			if key == "updated_at" || key == "last_logon_time" || key == "total_pages" {
				continue
			}
			if difference := missing(value, object[key], at+"."+key); difference != "" {
				return difference
			}
		}
	case []any:
		list, ok := got.([]any)
		if !ok || len(list) < len(want) {
			return fmt.Sprintf("%s is %v, want %v", at, got, want)
		}
		for i := range want {
			// Built-in resources may be added anywhere.
			if !slices.ContainsFunc(list, func(one any) bool { return missing(want[i], one, "") == "" }) {
				return fmt.Sprintf("%s[%d] is missing: %v in %v", at, i, want[i], list)
			}
		}
	case float64:
		if number, ok := got.(float64); !ok || number != want && !strings.HasSuffix(at, "total_results") &&
			!strings.HasSuffix(at, "totalResults") {
			return fmt.Sprintf("%s is %v, want %v", at, got, want)
		}
	default:
		if got != want {
			return fmt.Sprintf("%s is %v, want %v", at, got, want)
		}
	}
	return ""
}

// TestKeepRelease writes the data for TestReleases.
func TestKeepRelease(t *testing.T) {
	t.Parallel()
	if *keepRelease == "" {
		t.Skip("-keep-release is not set")
	}
	for _, dialect := range dbtest.Dialects {
		c := testConfig(t)
		c.DataDir = passableDir(t)
		if dialect == db.Postgres {
			c.DatabaseURL = dbtest.URL(t, db.Postgres)
		}
		f := &faultySite{T: t, System: startSystem(t, c)}
		f.api, f.token = f.Endpoints().API, adminToken(t, f.System)
		observed := map[string]any{}
		for _, path := range f.populate() {
			observed[path] = f.observe(path)
		}
		f.Stop()
		text, err := json.MarshalIndent(observed, "", " ")
		if err == nil {
			err = os.WriteFile(filepath.Join(c.DataDir, observedFile), text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		if dialect == db.Postgres {
			dump(t, c.DatabaseURL, filepath.Join(c.DataDir, sqlFile))
		}
		packRelease(t, c.DataDir, kept(*keepRelease, dialect))
	}
}

// populate creates rows of every kind, and returns the paths at which they are seen.
func (f *faultySite) populate() (paths []string) {
	f.Helper()
	post := func(path string, body any) answer {
		f.Helper()
		a := f.ask(http.MethodPost, path, body)
		if a.status >= http.StatusBadRequest {
			f.Fatalf("POST %s: %d %s", path, a.status, a.body)
		}
		return a
	}
	org := f.create("/v3/organizations",
		map[string]any{"name": "org", "metadata": map[string]any{"labels": map[string]string{"kept": "yes"}}})
	f.space = f.create("/v3/spaces", map[string]any{"name": "space", "relationships": to("organization", org)})
	user, _ := post("/Users", map[string]any{"userName": "joe", "password": "p",
		"emails": []map[string]any{{"value": "joe@example.org"}}}).json(f.T)["id"].(string)
	post("/v3/users", map[string]any{"guid": user})
	roles := map[string]any{"type": "space_developer", "relationships": map[string]any{
		"user":  map[string]any{"data": map[string]string{"guid": user}},
		"space": map[string]any{"data": map[string]string{"guid": f.space}},
	}}
	post("/v3/roles", map[string]any{"type": "organization_user", "relationships": map[string]any{
		"user":         map[string]any{"data": map[string]string{"guid": user}},
		"organization": map[string]any{"data": map[string]string{"guid": org}},
	}})
	post("/v3/roles", roles)
	f.create("/v3/organization_quotas", map[string]any{"name": "quota",
		"apps": map[string]any{"total_memory_in_mb": 4096}})
	f.create("/v3/space_quotas", map[string]any{"name": "space-quota", "relationships": to("organization", org)})
	f.create("/v3/security_groups", map[string]any{"name": "group",
		"rules": []map[string]any{{"protocol": "tcp", "destination": "10.0.0.0/8", "ports": "443"}}})
	f.create("/v3/isolation_segments", map[string]any{"name": "segment"})
	domain := f.create("/v3/domains", map[string]any{"name": "example.org"})
	route := f.create("/v3/routes", map[string]any{"host": "www", "relationships": map[string]any{
		"space": to("space", f.space)["space"], "domain": to("domain", domain)["domain"],
	}})
	app := f.create("/v3/apps", map[string]any{"name": "app", "relationships": to("space", f.space),
		"lifecycle": map[string]any{
			"type": "buildpack", "data": map[string]any{"buildpacks": []string{"binary_buildpack"}}, // the smallest droplet
		}})
	pkg := f.create("/v3/packages", map[string]any{"type": "bits", "relationships": to("app", app)})
	if a := f.upload("/v3/packages/"+pkg+"/upload", "app.zip", procfile(f.T)); a.status != http.StatusOK ||
		!f.build(app, pkg) {
		f.Fatalf("the upload or the build failed: %d %s", a.status, a.body)
	}
	web := f.list("/v3/apps/" + app + "/processes?types=web")[0]["guid"].(string)
	if a := f.ask(http.MethodPatch, "/v3/processes/"+web,
		map[string]any{"health_check": map[string]string{"type": "process"}}); a.status != http.StatusOK {
		f.Fatalf("process: %d %s", a.status, a.body)
	}
	if a := f.ask(http.MethodPatch, "/v3/apps/"+app+"/environment_variables",
		map[string]any{"var": map[string]any{"COLOR": "green"}}); a.status != http.StatusOK {
		f.Fatalf("environment: %d %s", a.status, a.body)
	}
	post("/v3/routes/"+route+"/destinations",
		map[string]any{"destinations": []map[string]any{{"app": map[string]any{"guid": app}}}})
	instance := f.create("/v3/service_instances", map[string]any{
		"type": "user-provided", "name": "credentials", "credentials": map[string]string{"password": "secret"},
		"relationships": to("space", f.space),
	})
	post("/v3/service_credential_bindings", map[string]any{"type": "app", "relationships": map[string]any{
		"app": to("app", app)["app"], "service_instance": to("service_instance", instance)["service_instance"],
	}})
	post("/v3/apps/"+app+"/sidecars", map[string]any{"name": "side", "command": "sleep 1000",
		"process_types": []string{"worker"}})
	f.act(app, "start")
	testkit.Eventually(f.T, "the app runs", func() bool { return f.running(app) != "" })
	f.act(app, "stop")
	testkit.Eventually(f.T, "the app stops", func() bool { return f.running(app) == "" })
	f.openMail()
	message := f.send()
	managed := f.brokered()
	paths = []string{
		"/v3/organizations", "/v3/spaces", "/v3/apps", "/v3/processes", "/v3/packages", "/v3/droplets", "/v3/builds",
		"/v3/routes", "/v3/domains",
		"/v3/service_instances", "/v3/service_credential_bindings", "/v3/roles", "/v3/users", "/v3/organization_quotas",
		"/v3/space_quotas",
		"/v3/security_groups", "/v3/isolation_segments", "/v3/stacks", "/v3/buildpacks", "/v3/feature_flags",
		"/v3/service_instances/" + instance + "/credentials", "/v3/apps/" + app + "/revisions", "/v3/apps/" + app +
			"/sidecars", "/v3/apps/" + app + "/env",
		"/v3/audit_events?per_page=1000", "/Users", "/oauth/clients", "mail:/messages/" + message, "mail:/notifications",
	}
	return append(paths, managed...)
}

// procfile returns the files of an app that does nothing.
func procfile(t *testing.T) []byte {
	t.Helper()
	var bits bytes.Buffer
	z := zip.NewWriter(&bits)
	w, err := z.Create("Procfile")
	if err == nil {
		_, err = io.WriteString(w, "web: sleep 1000\n")
	}
	if err := errors.Join(err, z.Close()); err != nil {
		t.Fatal(err)
	}
	return bits.Bytes()
}

// brokered creates an instance of the bundled broker, and returns the path of its key: the
// broker reads it from its own records.
func (f *faultySite) brokered() []string {
	f.Helper()
	plan := f.list("/v3/service_plans?service_offering_names=notifications")[0]["guid"].(string)
	a := f.ask(http.MethodPost, "/v3/service_instances", map[string]any{"type": "managed", "name": "managed",
		"relationships": map[string]any{
			"space": to("space", f.space)["space"], "service_plan": to("service_plan", plan)["service_plan"],
		}})
	if a.status != http.StatusAccepted {
		f.Fatalf("create a service instance: %d %s", a.status, a.body)
	}
	var guid string
	testkit.Eventually(f.T, "the service instance is created", func() bool {
		for _, one := range f.list("/v3/service_instances?names=managed") {
			guid = one["guid"].(string)
			return one["last_operation"].(map[string]any)["state"] == "succeeded"
		}
		return false
	})
	if a := f.ask(http.MethodPost, "/v3/service_credential_bindings", map[string]any{"type": "key", "name": "key",
		"relationships": to("service_instance", guid)}); a.status != http.StatusAccepted {
		f.Fatalf("create a key: %d %s", a.status, a.body)
	}
	var key string
	testkit.Eventually(f.T, "the key is created", func() bool {
		for _, one := range f.list("/v3/service_credential_bindings?names=key") {
			key = one["guid"].(string)
			return one["last_operation"].(map[string]any)["state"] == "succeeded"
		}
		return false
	})
	return []string{"/v3/service_credential_bindings/" + key + "/details"}
}

// dump writes the database with pg_dump, in statements that need no psql.
func dump(t *testing.T, address, to string) {
	t.Helper()
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/pg_dump")
	program := "pg_dump"
	if len(found) > 0 {
		program = found[len(found)-1]
	}
	out, err := exec.CommandContext(t.Context(), program, "--inserts", "--no-owner", "--no-privileges", "--dbname",
		address).Output()
	if err != nil {
		t.Fatalf("pg_dump: %v", err)
	}
	var lines []string
	for line := range strings.Lines(string(out)) {
		if !strings.HasPrefix(line, `\`) {
			lines = append(lines, line)
		}
	}
	if err := os.WriteFile(to, []byte(strings.Join(lines, "")), 0o600); err != nil {
		t.Fatal(err)
	}
}

func loadDump(t *testing.T, address, from string) {
	t.Helper()
	text, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	dbtest.Load(t, address, string(text))
}

// packRelease writes an archive of a data directory, without what a start creates anew.
func packRelease(t *testing.T, dir, to string) {
	t.Helper()
	var out bytes.Buffer
	compressed, _ := gzip.NewWriterLevel(&out, gzip.BestCompression) // the level is valid
	archive := tar.NewWriter(compressed)
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		name, _ := filepath.Rel(dir, path) // it is below
		switch {
		case err != nil:
			return err
		case slices.Contains([]string{"scratch", "processes", "programs", "containers", "cache"}, name):
			return filepath.SkipDir
		case e.IsDir(), strings.HasPrefix(name, "reserve"), !e.Type().IsRegular():
			return nil
		}
		text, err := os.ReadFile(path)
		if err == nil {
			err = archive.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(text))})
		}
		if err == nil {
			_, err = archive.Write(text)
		}
		return err
	})
	if err := errors.Join(err, archive.Close(), compressed.Close(), //nolint:gosec // test data
		os.MkdirAll(filepath.Dir(to), 0o755), os.WriteFile(to, out.Bytes(), 0o644)); err != nil {
		t.Fatal(err)
	}
	t.Logf("%s has %d bytes", to, out.Len())
}

func unpackRelease(t *testing.T, from, dir string) {
	t.Helper()
	file, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	compressed, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	archive := tar.NewReader(compressed)
	for {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil || !filepath.IsLocal(h.Name) {
			t.Fatalf("%s: %q, %v", from, h.Name, err)
		}
		text, err := io.ReadAll(archive)
		path := filepath.Join(dir, h.Name)
		if err := errors.Join(err, os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, text, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
}
