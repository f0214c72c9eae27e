package e2e

import (
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"io/fs"
	"os"
	"strings"
	"testing"

	"github.com/cloudfoundry/go-cfclient/v3/client"
	"github.com/cloudfoundry/go-cfclient/v3/config"
	"github.com/cloudfoundry/go-cfclient/v3/operation"
	"github.com/cloudfoundry/go-cfclient/v3/resource"

	"ingot/internal/platform/services/brokertest"
)

// TestGoClient manages all resources with go-cfclient, which Terraform's provider and
// other programs use. It decodes responses more strictly than cf does, and calls routes
// that cf never calls.
func TestGoClient(t *testing.T) {
	t.Parallel()
	b := brokertest.New(t, &brokertest.Broker{})
	s := startApps(t, options{Engine: "process"})
	g := &goClient{s: s, Client: newGoClient(t, config.UserPassword("admin", s.secret(t, "admin-password")), s.API)}
	together(t,
		part{"app", g.app},
		part{"bluegreen", g.blueGreen},
		part{"orgs", g.organizations},
		part{"platform", g.platform},
		part{"services", func(t *testing.T) { g.services(t, b) }},
		part{"errors", g.errors},
		part{"login of cf", func(t *testing.T) {
			cfg := got(config.NewFromCFHomeDir(cfAdmin(t, s.Server)))(t)
			got(got(client.New(cfg))(t).Organizations.ListAll(t.Context(), nil))(t)
		}},
	)
}

// goClient is the client of an administrator.
type goClient struct {
	s *site
	*client.Client
}

func newGoClient(t *testing.T, login config.Option, api string) *client.Client {
	t.Helper()
	return got(client.New(got(config.New(api, login))(t)))(t)
}

// got returns a function that fails a test if a call failed, and returns the call's result.
func got[T any](v T, err error) func(t testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatalf("%T: %v", v, err)
		}
		return v
	}
}

// done waits for a job.
func (g *goClient) done(t *testing.T, job string) {
	t.Helper()
	if job == "" {
		return // nothing was left to do
	}
	if err := g.Jobs.PollComplete(t.Context(), job, client.NewPollingOptions()); err != nil {
		t.Fatal(err)
	}
}

// gone fails unless a resource is not found.
func gone[T any](t *testing.T, what string, get func(context.Context, string) (T, error), guid string) {
	t.Helper()
	if _, err := get(t.Context(), guid); !resource.IsResourceNotFoundError(err) {
		t.Errorf("%s after it was deleted: %v", what, err)
	}
}

// zipped returns a folder as a zip archive.
func zipped(t *testing.T, dir string) io.Reader {
	t.Helper()
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	root := os.DirFS(dir)
	if err := fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		h := &zip.FileHeader{Name: name, Method: zip.Deflate}
		h.SetMode(0o755)
		f, err := w.CreateHeader(h)
		if err == nil {
			_, err = f.Write(content)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return &out
}

// demoSpace returns the space of --demo.
func (g *goClient) demoSpace(t *testing.T) *resource.Space {
	t.Helper()
	o := client.NewSpaceListOptions()
	o.Names = client.Filter{Values: []string{"dev"}}
	return got(g.Spaces.Single(t.Context(), o))(t)
}

// goManifest returns the manifest of an edition.
func goManifest(name string) *operation.AppManifest {
	m := operation.NewAppManifest(name)
	m.Buildpacks = []string{"binary_buildpack"}
	m.Command = `VERSION="$(cat version)" exec ./probe`
	m.Memory, m.DiskQuota = "64M", "64M"
	m.DefaultRoute = true
	m.HealthCheckHTTPEndpoint = "" // the client's default is one, but of type port
	return m
}

// app pushes an app and works with everything that belongs to it.
func (g *goClient) app(t *testing.T) {
	ctx := t.Context()
	m := goManifest("terra")
	m.Env = map[string]string{"MOOD": "good"}
	m.Sidecars = &operation.AppManifestSideCars{{Name: "beside", ProcessTypes: []string{"web"},
		Command: "sleep 9999", Memory: "16M"}}
	push := operation.NewAppPushOperation(g.Client, "demo", "dev")
	app := got(push.Push(ctx, m, zipped(t, edition(t, "one"))))(t)
	g.s.running(t, app.GUID, 1)
	if env := g.s.environment(t, "terra"); env["VERSION"] != "one" || env["MOOD"] != "good" {
		t.Errorf("the app has VERSION=%q MOOD=%q", env["VERSION"], env["MOOD"])
	}
	m.Env["MOOD"] = "better"
	push.WithStrategy(operation.StrategyRolling)
	got(push.Push(ctx, m, zipped(t, edition(t, "two"))))(t)
	if env := g.s.environment(t, "terra"); env["VERSION"] != "two" || env["MOOD"] != "better" {
		t.Errorf("after a rolling push the app has VERSION=%q MOOD=%q", env["VERSION"], env["MOOD"])
	}
	t.Run("parts", func(t *testing.T) { g.appParts(t, app.GUID) })
	t.Run("processes", func(t *testing.T) { g.processes(t, app.GUID) })
	t.Run("routes", func(t *testing.T) { g.routes(t, app.GUID) })
	t.Run("revisions", func(t *testing.T) { g.revisions(t, app.GUID) })

	_, space, org := g.included(t, app.GUID)
	if space.Name != "dev" || org.Name != "demo" {
		t.Errorf("included are space %q and org %q", space.Name, org.Name)
	}
	o := client.NewAuditEventListOptions()
	o.TargetGUIDs = client.ExclusionFilter{Filter: client.Filter{Values: []string{app.GUID}}}
	if events := got(g.AuditEvents.ListAll(ctx, o))(t); len(events) < 5 || events[0].Target.Name != "terra" {
		t.Errorf("%d events of the app", len(events))
	}
	g.done(t, got(g.Applications.ClearBuildpackCache(ctx, app.GUID))(t))
	g.done(t, got(g.Applications.Delete(ctx, app.GUID))(t))
	gone(t, "the app", g.Applications.Get, app.GUID)
}

func (g *goClient) included(t *testing.T, app string) (*resource.App, *resource.Space, *resource.Organization) {
	t.Helper()
	a, space, org, err := g.Applications.GetIncludeSpaceAndOrganization(t.Context(), app)
	if err != nil {
		t.Fatal(err)
	}
	return a, space, org
}

// blueGreen pushes as Terraform's provider does with strategy "blue-green".
func (g *goClient) blueGreen(t *testing.T) {
	push := operation.NewAppPushOperation(g.Client, "demo", "dev")
	push.WithBlueGreenStrategy(300, 1)
	first := got(push.Push(t.Context(), goManifest("blue"), zipped(t, edition(t, "one"))))(t)
	g.s.running(t, first.GUID, 1)
	second := got(push.Push(t.Context(), goManifest("blue"), zipped(t, edition(t, "two"))))(t)
	if second.Name != "blue" || second.GUID == first.GUID {
		t.Errorf("the second push has app %s %s, the first was %s", second.Name, second.GUID, first.GUID)
	}
	if env := g.s.environment(t, "blue"); env["VERSION"] != "two" {
		t.Errorf("after the second push the app has VERSION=%q", env["VERSION"])
	}
	gone(t, "the first app", g.Applications.Get, first.GUID)
	g.done(t, got(g.Applications.Delete(t.Context(), second.GUID))(t))
}

// appParts walks environment, features, sidecars, packages, builds, droplets and tasks.
func (g *goClient) appParts(t *testing.T, app string) {
	ctx := t.Context()
	up := &resource.AppUpdate{Name: "terra", Metadata: resource.NewMetadata().WithLabel("", "team", "iron")}
	if a := got(g.Applications.Update(ctx, app, up))(t); *a.Metadata.Labels["team"] != "iron" {
		t.Errorf("labels are %v", a.Metadata.Labels)
	}
	mood := "best"
	if env := got(g.Applications.SetEnvironmentVariables(ctx, app,
		map[string]*string{"MOOD": &mood}))(t); *env["MOOD"] != mood {
		t.Errorf("variables are %v", env)
	}
	if env := got(g.Applications.GetEnvironment(ctx, app))(t); env.EnvVars["MOOD"] != mood ||
		len(env.SystemEnvVars) == 0 || len(env.AppEnvVars) == 0 {
		t.Errorf("the environment is %+v", env)
	}
	got(g.Applications.Permissions(ctx, app))(t)
	got(g.Applications.SSHEnabled(ctx, app))(t)
	got(g.AppFeatures.UpdateSSH(ctx, app, false))(t)
	if got(g.AppFeatures.GetSSH(ctx, app))(t).Enabled {
		t.Error("ssh is still enabled")
	}
	got(g.AppFeatures.GetRevisions(ctx, app))(t)

	side := got(g.Sidecars.Create(ctx, app, resource.NewSidecarCreate("more", "sleep 99", []string{"web"})))(t)
	command := "sleep 999"
	if side = got(g.Sidecars.Update(ctx, side.GUID,
		&resource.SidecarUpdate{Command: &command}))(t); side.Command != command {
		t.Errorf("the sidecar's command is %q", side.Command)
	}
	if all := got(g.Sidecars.ListForAppAll(ctx, app, nil))(t); len(all) != 2 {
		t.Errorf("%d sidecars, want 2", len(all))
	}
	if err := g.Sidecars.Delete(ctx, side.GUID); err != nil {
		t.Error(err)
	}

	pack := got(g.Packages.Create(ctx, resource.NewPackageCreate(app)))(t)
	got(g.Packages.Upload(ctx, pack.GUID, zipped(t, edition(t, "three"))))(t)
	if err := g.Packages.PollReady(ctx, pack.GUID, client.NewPollingOptions()); err != nil {
		t.Fatal(err)
	}
	build := got(g.Builds.Create(ctx, resource.NewBuildCreate(pack.GUID)))(t)
	if err := g.Builds.PollStaged(ctx, build.GUID, client.NewPollingOptions()); err != nil {
		t.Fatal(err)
	}
	build = got(g.Builds.Get(ctx, build.GUID))(t)
	drop := got(g.Droplets.Get(ctx, build.Droplet.GUID))(t)
	g.downloads(t, pack.GUID, drop.GUID)
	got(g.Droplets.SetCurrentAssociationForApp(ctx, app, drop.GUID))(t)
	if current := got(g.Droplets.GetCurrentForApp(ctx, app))(t); current.GUID != drop.GUID {
		t.Errorf("the current droplet is %s, want %s", current.GUID, drop.GUID)
	}
	if text := got(g.Manifests.Generate(ctx, app))(t); !strings.Contains(text, "MOOD: best") {
		t.Errorf("the manifest is %s", text)
	}
	got(g.Manifests.ManifestDiff(ctx, g.demoSpace(t).GUID, "applications:\n- name: terra\n  memory: 96M\n"))(t)

	task := got(g.Tasks.Create(ctx, app, resource.NewTaskCreateWithCommand("sleep 9999")))(t)
	if task = got(g.Tasks.Cancel(ctx, task.GUID))(t); task.State != "CANCELING" && task.State != "FAILED" {
		t.Errorf("the canceled task is %s", task.State)
	}
	got(g.Tasks.ListForAppAll(ctx, app, nil))(t)
}

// downloads fetches the files of a package and of its droplet. The client follows the redirect without its token.
func (g *goClient) downloads(t *testing.T, pack, droplet string) {
	read := func(r io.ReadCloser) []byte {
		t.Helper()
		defer r.Close()
		return got(io.ReadAll(r))(t)
	}
	bits := read(got(g.Packages.Download(t.Context(), pack))(t))
	files := got(zip.NewReader(bytes.NewReader(bits), int64(len(bits))))(t)
	version := read(got(files.Open("version"))(t))
	if strings.TrimSpace(string(version)) != "three" {
		t.Errorf("the package has version %q, want three", version)
	}
	built := read(got(g.Droplets.Download(t.Context(), droplet))(t))
	tar := got(gzip.NewReader(bytes.NewReader(built)))(t)
	if got(io.Copy(io.Discard, tar))(t) == 0 {
		t.Error("the droplet is empty")
	}
}

func (g *goClient) processes(t *testing.T, app string) {
	ctx := t.Context()
	web := got(g.Processes.SingleForApp(ctx, app, nil))(t)
	two, memory := 2, 80
	if p := got(g.Processes.Scale(ctx, web.GUID, &resource.ProcessScale{Instances: &two,
		MemoryInMB: &memory}))(t); p.Instances != 2 ||
		p.MemoryInMB != 80 {
		t.Errorf("the process has %d instances of %d MB", p.Instances, p.MemoryInMB)
	}
	command := `VERSION="$(cat version)" exec ./probe # updated`
	u := resource.NewProcessUpdate()
	u.Command = &command
	if p := got(g.Processes.Update(ctx, web.GUID, u))(t); *p.Command != command {
		t.Errorf("the command is %q", *p.Command)
	}
	got(g.Applications.Restart(ctx, app))(t)
	g.s.running(t, app, 2)
	stats := got(g.Processes.GetStats(ctx, web.GUID))(t)
	if len(stats.Stats) != 2 || stats.Stats[0].State != "RUNNING" {
		t.Errorf("stats are %+v", stats)
	}
	if err := g.Processes.Terminate(ctx, web.GUID, 1); err != nil {
		t.Error(err)
	}
	got(g.Applications.Stop(ctx, app))(t)
	if a := got(g.Applications.Start(ctx, app))(t); a.State != "STARTED" {
		t.Errorf("the app is %s", a.State)
	}
	g.s.running(t, app, 2)
}

func (g *goClient) routes(t *testing.T, app string) {
	ctx := t.Context()
	space := g.demoSpace(t)
	domain := got(g.Organizations.GetDefaultDomain(ctx, space.Relationships.Organization.Data.GUID))(t)
	route := got(g.Routes.Create(ctx, resource.NewRouteCreateWithHost(domain.GUID, space.GUID, "terra-2", "/path",
		0)))(t)
	dest := resource.NewRouteDestinationInsertOrReplace(app).WithPort(8080).WithProtocol("http1")
	all := got(g.Routes.InsertDestinations(ctx, route.GUID, []*resource.RouteDestinationInsertOrReplace{dest}))(t)
	if len(all.Destinations) != 1 || *all.Destinations[0].Port != 8080 {
		t.Fatalf("destinations are %+v", all.Destinations)
	}
	got(g.Routes.UpdateDestinationProtocol(ctx, route.GUID, *all.Destinations[0].GUID, "http2"))(t)
	if err := g.Routes.RemoveDestination(ctx, route.GUID, *all.Destinations[0].GUID); err != nil {
		t.Error(err)
	}
	got(g.Routes.ReplaceDestinations(ctx, route.GUID, []*resource.RouteDestinationInsertOrReplace{dest}))(t)
	got(g.Routes.Update(ctx, route.GUID, &resource.RouteUpdate{Metadata: resource.NewMetadata().WithLabel("", "a",
		"b")}))(t)
	if routes := got(g.Routes.ListForAppAll(ctx, app, nil))(t); len(routes) != 2 {
		t.Errorf("%d routes of the app, want 2", len(routes))
	}
	other := got(g.Spaces.Create(ctx, resource.NewSpaceCreate("routes-of-others",
		space.Relationships.Organization.Data.GUID)))(t)
	on := true
	got(g.FeatureFlags.Update(ctx, resource.FeatureFlagRouteSharing, &resource.FeatureFlagUpdate{Enabled: &on}))(t)
	got(g.Routes.ShareWithSpace(ctx, route.GUID, other.GUID))(t)
	if shared := got(g.Routes.GetSharedSpacesRelationships(ctx, route.GUID))(t); len(shared.Data) != 1 {
		t.Errorf("shared with %v", shared.Data)
	}
	if err := g.Routes.UnShareWithSpace(ctx, route.GUID, other.GUID); err != nil {
		t.Error(err)
	}
	if err := g.Routes.TransferOwnership(ctx, route.GUID, other.GUID); err != nil {
		t.Error(err)
	}
	g.done(t, got(g.Routes.Delete(ctx, route.GUID))(t))
	gone(t, "the route", g.Routes.Get, route.GUID)
	free := got(g.Routes.Create(ctx, resource.NewRouteCreateWithHost(domain.GUID, other.GUID, "unmapped", "", 0)))(t)
	g.done(t, got(g.Routes.DeleteUnmappedRoutesForSpace(ctx, other.GUID))(t))
	gone(t, "the unmapped route", g.Routes.Get, free.GUID)
	g.done(t, got(g.Spaces.Delete(ctx, other.GUID))(t))
}

func (g *goClient) revisions(t *testing.T, app string) {
	ctx := t.Context()
	all := got(g.Revisions.ListForAppAll(ctx, app, nil))(t)
	if len(all) < 2 {
		t.Fatalf("%d revisions, want 2", len(all))
	}
	got(g.Revisions.GetEnvironmentVariables(ctx, all[0].GUID))(t)
	got(g.Revisions.ListForAppDeployedAll(ctx, app, nil))(t)
	got(g.Revisions.Update(ctx, all[0].GUID,
		&resource.RevisionUpdate{Metadata: resource.NewMetadata().WithLabel("", "a", "b")}))(t)
	create := resource.NewDeploymentCreate(app)
	create.Revision = &resource.DeploymentRevision{GUID: all[0].GUID}
	create.Strategy = "canary"
	d := got(g.Deployments.Create(ctx, create))(t)
	got(g.Deployments.Get(ctx, d.GUID))(t)
	if err := g.Deployments.Cancel(ctx, d.GUID); err != nil {
		t.Error(err)
	}
	got(g.Deployments.ListAll(ctx, nil))(t)
}

// errors checks that the client recognizes errors.
func (g *goClient) errors(t *testing.T) {
	ctx := t.Context()
	_, err := g.Spaces.Create(ctx, resource.NewSpaceCreate("lost", "no-such-org"))
	if !resource.IsUnprocessableEntityError(err) {
		t.Errorf("a space of an org that does not exist: %v", err)
	}
	if _, err := g.Applications.Get(ctx, "none"); !resource.IsResourceNotFoundError(err) {
		t.Errorf("an app that does not exist: %v", err)
	}
	if _, err := config.New(g.s.API, config.UserPassword("admin", "wrong")); err == nil ||
		!strings.Contains(err.Error(), "Bad credentials") {
		t.Errorf("a wrong password: %v", err)
	}
}
