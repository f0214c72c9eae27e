package api_test

import (
	"archive/zip"
	"bytes"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"ingot/internal/base/db"
	"ingot/internal/base/testkit"
	"ingot/internal/platform"
	"ingot/internal/platform/api"
)

// zipOf returns a zip of files: names and contents.
func zipOf(t *testing.T, files ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for i := 0; i < len(files); i += 2 {
		f, err := w.Create(files[i])
		if err == nil {
			_, err = f.Write([]byte(files[i+1]))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// deployZip sends a zip; do is a path with a query.
func (w *world) deployZip(as, do string, content []byte, s step) *answer {
	w.t.Helper()
	r := httptest.NewRequest(http.MethodPost, w.expand(do), bytes.NewReader(content))
	r.Header.Set("Content-Type", "application/zip")
	a := w.send(w.as(as), r)
	s.as, s.do = as, "POST "+do
	w.check(s, a)
	return a
}

// stored returns the names of the files in the package of an app.
func (w *world) stored(app string) (names []string) {
	w.t.Helper()
	list := w.want(w.call(w.admin(), "GET", "/v3/packages?app_guids="+app+"&order_by=-created_at", nil), 200)
	guid, _ := list.at("resources.0.guid").(string)
	w.blobs.mu.Lock()
	content := w.blobs.packages[guid]
	w.blobs.mu.Unlock()
	r, err := zip.NewReader(bytes.NewReader(content), int64(len(content)))
	if err != nil {
		w.t.Fatal(err)
	}
	for _, f := range r.File {
		names = append(names, f.Name)
	}
	slices.Sort(names)
	return names
}

const deployTo = "/v3/ingot/spaces/$space/deploy?name="

// TestDeployRoles: only developers create apps and deploy files; supporters restage.
func TestDeployRoles(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.stagedWith(w.vars["app"], syncRules)
	create, replace := "POST /v3/ingot/spaces/$space/deploy", "POST /v3/ingot/apps/$app/deploy"
	for as, want := range map[string]struct{ create, replace, restage int }{
		"supporter": {403, 403, 202}, "auditor": {403, 403, 403}, "manager": {403, 403, 403},
		"orgmanager": {403, 403, 403}, "member": {404, 404, 404}, "orgauditor": {404, 404, 404},
		"stranger": {404, 404, 404},
	} {
		w.one(step{as: as, do: create, body: `{"name":"x","sample":true}`, want: want.create})
		w.one(step{as: as, do: replace, body: `{"sample":true}`, want: want.replace})
		w.one(step{as: as, do: replace, body: `{"restage":true}`, want: want.restage})
		w.deployZip(as, deployTo+"x", zipOf(t, "a", "b"), step{want: want.create})
	}
	w.one(step{as: "dev", do: create, body: `{"name":"x","sample":true}`, want: 202})
	w.one(step{as: "dev", do: "POST /v3/ingot/spaces/$space2/deploy", body: `{"name":"y","sample":true}`, want: 404})
	w.one(step{as: "dev", do: "POST /v3/ingot/apps/$app2/deploy", body: `{"sample":true}`, want: 404})
	w.one(step{do: "PATCH /v3/feature_flags/app_bits_upload", body: `{"enabled":false}`, want: 200})
	w.one(step{as: "dev", do: create, body: `{"name":"z","sample":true}`, want: 403})
	w.deployZip("dev", deployTo+"z", zipOf(t, "a", "b"), step{want: 403})
}

// TestDeployZip: what becomes of the files of a zip.
func TestDeployZip(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for i, c := range []struct {
		files []string
		want  string
	}{
		{[]string{"index.html", "x", "lib/a", "y", ".git/HEAD", "x", ".DS_Store", ""}, "index.html lib/a"},
		{[]string{"my app/index.html", "x", "my app/lib/", "", "my app/lib/a", "y", "__MACOSX/._x", "x"},
			"index.html lib/ lib/a"},
		{[]string{"index.html", "x", "a.log", "y", ".cfignore", "*.log\n"}, "index.html"},
		{[]string{"manifest.yml", "applications: [{path: site}]", "site/index.html", "x", "other", "y"}, "index.html"},
	} {
		name := "zip" + string(rune('a'+i))
		a := w.deployZip("dev", deployTo+name, zipOf(t, c.files...), step{want: 202})
		app, _ := a.at("app.guid").(string)
		if got := strings.Join(w.stored(app), " "); got != c.want {
			t.Errorf("%q: the package has %s, want %s", c.files, got, c.want)
		}
		w.one(step{do: "GET /v3/apps/" + app + "/routes", want: 200, has: []string{name + ".apps.localhost"}})
		w.one(step{do: "GET /v3/jobs/" + a.at("job.guid").(string), want: 200, has: []string{`"app.deploy"`}})
	}
	a := w.deployZip("dev", deployTo+"sized&memory_in_mb=96&instances=3&random_route=true", zipOf(t, "index.html", "x",
		"manifest.yml", "applications: [{memory: 1G, env: {A: b}}]"), step{want: 202})
	w.vars["sized"], _ = a.at("app.guid").(string)
	w.play([]step{
		{do: "GET /v3/apps/$sized/processes/web", want: 200, has: []string{`"memory_in_mb":96`, `"instances":3`}},
		{do: "GET /v3/apps/$sized/environment_variables", want: 200, has: []string{`"A":"b"`}},
		{do: "GET /v3/apps/$sized/routes", want: 200, has: []string{"sized-"}, not: []string{`"sized.apps`}},
	})
}

// TestDeployRefused: what is wrong with an order or its files, none of which makes an app.
func TestDeployRefused(t *testing.T) {
	t.Parallel()
	f := setupOptions(t, db.SQLite, func(o *api.Options) { o.MaxUpload = 4096 })
	w := newWorldIn(t, f)
	w.stagedWith(w.vars["app"], syncRules)
	page := zipOf(t, "index.html", "x")
	for query, c := range map[string]struct {
		zip  []byte
		want int
		has  string
	}{
		"":                      {page, 422, "Name can't be blank"},
		"app":                   {page, 422, "has an app named app already"},
		"new&memory_in_mb=much": {page, 422, "memory_in_mb must be a number"},
		"new&memory_in_mb=-1":   {page, 422, "memory_in_mb"},
		"new&instances=-1":      {page, 422, "instances"},
		"new&a=1":               {[]byte("no zip"), 422, "no zip file"},
		"new&a=2":               {nil, 422, "empty"},
		"new&a=3":               {zipOf(t, "../x", "y"), 422, "x"},
		"new&a=4":               {zipOf(t, "/etc/x", "y"), 422, "x"},
		"new&a=5":               {zipOf(t, ".git/HEAD", "y"), 422, "no files to deploy"},
		"new&a=6":               {bytes.Repeat([]byte("x"), 5000), 413, "larger than the limit"},
		"new&a=7":               {zipOf(t, "a", "b", "manifest.yml", "applications: [{memory: much}]"), 422, "Memory"},
		"new&a=8":               {zipOf(t, "a", "b", "manifest.yml", "applications: ["), 400, "YAML"},
		"new&a=9": {zipOf(t, "a", "b", "manifest.yml", "applications: [{docker: {image: a/b}}]"), 422,
			"container image"},
		"new&a=10": {zipOf(t, "a", "b", "manifest.yml", "applications: [{services: [none]}]"), 422, "none"},
	} {
		w.deployZip("dev", deployTo+query, c.zip, step{want: c.want, has: []string{c.has}})
	}
	create := "POST /v3/ingot/spaces/$space/deploy"
	w.play([]step{
		{as: "dev", do: create, body: `{"name":"new"}`, want: 422, has: []string{"one of docker, git, sample, restage and redeploy"}},
		{as: "dev", do: create, body: `{"name":"new","sample":true,"restage":true}`, want: 422},
		{as: "dev", do: create, body: `{"name":"new","restage":true}`, want: 422},
		{as: "dev", do: create, body: `{"name":"new","docker":{"image":""}}`, want: 422},
		{as: "dev", do: create, body: `{"name":"new","docker":{"image":"a/b"}}`, want: 403, has: []string{"diego_docker"}},
		{as: "dev", do: create, body: `{"name":"new","sample":true,"x":1}`, want: 422},
		{as: "dev", do: create, body: `{"name":"` + strings.Repeat("x", 70000) + `","sample":true}`, want: 413},
		{as: "dev", do: "POST /v3/ingot/apps/$app/deploy", body: `{"name":"new","sample":true}`, want: 422},
		{do: "GET /v3/apps?names=new", want: 200, has: []string{`"total_results":0`}},
	})
}

// TestDeployImage: an app of a container image, whose password is not shown.
func TestDeployImage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.play([]step{
		{do: "PATCH /v3/feature_flags/diego_docker", body: `{"enabled":true}`, want: 200},
		{as: "dev", do: "POST /v3/ingot/spaces/$space/deploy", want: 202,
			body: `{"name":"img","docker":{"image":"example.com/a:1","username":"ann","password":"hunter2"}}`},
		{as: "dev", do: "GET /v3/apps?names=img", want: 200, has: []string{`"docker"`}, save: "img"},
		{as: "dev", do: "GET /v3/packages?app_guids=$img", want: 200, has: []string{"example.com/a:1", "ann"},
			not: []string{"hunter2"}},
	})
}

// finishBuild sets the result of a build; without an error it has a droplet.
func (w *world) finishBuild(build, why string) {
	w.t.Helper()
	err := w.store.Update(w.t.Context(), func(tx platform.Tx) error {
		b, err := tx.Builds().Get(build)
		if err != nil {
			return err
		}
		if b.State, b.Error = platform.BuildFailed, why; why == "" {
			d := &platform.Droplet{AppGUID: b.AppGUID, State: platform.DropletStaged, Lifecycle: "buildpack", Checksum: "abc",
				PackageGUID: b.PackageGUID, ProcessTypes: map[string]string{"web": "./app"}}
			if err := tx.Droplets().Insert(d); err != nil {
				return err
			}
			b.State, b.DropletGUID = platform.BuildStaged, d.GUID
		}
		return tx.Builds().Update(b)
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

// runInstance stores an instance of each process of an app that has none.
func (w *world) runInstance(app string, state platform.InstanceState, details string) {
	w.t.Helper()
	err := w.store.Update(w.t.Context(), func(tx platform.Tx) error {
		processes, _, err := tx.Processes().List(platform.Where("app_guid", app))
		for _, p := range processes {
			n, failed := tx.Instances().Count(platform.Where("process_guid", p.GUID))
			if failed != nil {
				return failed
			}
			if n > 0 {
				continue
			}
			if err := tx.Instances().Insert(&platform.Instance{AppGUID: app, ProcessGUID: p.GUID, State: state,
				Ready: state == platform.InstanceRunning, Details: details}); err != nil {
				return err
			}
		}
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

// ended waits for the end of a job and returns it.
func (w *world) ended(job string) *answer {
	w.t.Helper()
	var a *answer
	testkit.Eventually(w.t, "the job ends", func() bool {
		a = w.want(w.call(w.admin(), "GET", "/v3/jobs/"+job, nil), 200)
		return a.at("state") == "COMPLETE" || a.at("state") == "FAILED"
	})
	return a
}

// TestDeployJob: the build is deployed when it is done, and the job says what became of it.
func TestDeployJob(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	begin := func(do, body string) (app, build, job string) {
		a := w.one(step{as: "dev", do: do, body: body, want: 202})
		app, _ = a.at("app.guid").(string)
		build, _ = a.at("build.guid").(string)
		job, _ = a.at("job.guid").(string)
		return app, build, job
	}
	create := "POST /v3/ingot/spaces/$space/deploy"

	app, build, job := begin(create, `{"name":"good","sample":true}`)
	w.finishBuild(build, "")
	w.awaitState(app, "STARTED")
	w.runInstance(app, platform.InstanceRunning, "")
	if a := w.ended(job); a.at("state") != "COMPLETE" {
		t.Errorf("an app that runs: %s", a.body)
	}

	// The next version does not build, and is not deployed.
	_, build, job = begin("POST /v3/ingot/apps/"+app+"/deploy", `{"restage":true}`)
	w.finishBuild(build, "no start command\nline of the log")
	if a := w.ended(job); a.at("state") != "FAILED" || a.detail() != "the build failed: no start command" {
		t.Errorf("a build that fails: %s", a.body)
	}
	w.one(step{do: "GET /v3/deployments?app_guids=" + app, want: 200, has: []string{`"total_results":1`}})

	// The one after does not start: it is canceled, and the first keeps running.
	_, build, job = begin("POST /v3/ingot/apps/"+app+"/deploy", `{"sample":true}`)
	w.finishBuild(build, "")
	w.awaitResults("/v3/deployments?app_guids="+app, 2)
	w.runInstance(app, platform.InstanceCrashed, "exit status 3")
	if a := w.ended(job); a.at("state") != "FAILED" || a.detail() != "the app does not start: exit status 3" {
		t.Errorf("a version that does not start: %s", a.body)
	}
	w.one(step{do: "GET /v3/deployments?app_guids=" + app + "&order_by=-created_at", want: 200,
		has: []string{`"reason":"CANCEL`}})

	// Of an app that was stopped, the version that does not start stays, with its reason.
	app, build, job = begin(create, `{"name":"bad","sample":true}`)
	w.finishBuild(build, "")
	w.awaitState(app, "STARTED")
	w.runInstance(app, platform.InstanceCrashed, "")
	if a := w.ended(job); a.at("state") != "FAILED" || a.detail() != "the app does not start: an instance crashed" {
		t.Errorf("a new app that does not start: %s", a.body)
	}
	w.one(step{do: "GET /v3/apps/" + app, want: 200, has: []string{`"STARTED"`}})

	// A quota is checked when the app starts.
	w.one(step{do: "POST /v3/space_quotas", want: 201, body: `{"name":"tiny","apps":{"total_memory_in_mb":10},` +
		`"relationships":{"organization":{"data":{"guid":"$org"}},"spaces":{"data":[{"guid":"$space"}]}}}`})
	_, build, job = begin(create, `{"name":"large","sample":true}`)
	w.finishBuild(build, "")
	if a := w.ended(job); a.at("state") != "FAILED" || !strings.Contains(a.detail(), "quota") {
		t.Errorf("more memory than the quota: %s", a.body)
	}
}

func (w *world) awaitState(app, state string) {
	w.t.Helper()
	testkit.Eventually(w.t, "the app is "+state, func() bool {
		return w.want(w.call(w.admin(), "GET", "/v3/apps/"+app, nil), 200).at("state") == state
	})
}

func (w *world) awaitResults(path string, n float64) {
	w.t.Helper()
	testkit.Eventually(w.t, "a list has its results", func() bool {
		return w.want(w.call(w.admin(), "GET", path, nil), 200).at("pagination.total_results") == n
	})
}
