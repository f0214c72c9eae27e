package api_test

import (
	"strings"
	"testing"

	"ingot/internal/platform"
)

// stagedWith gives an app a package and a current droplet with rules for changes.
func (w *world) stagedWith(app, metadata string) (pkg, droplet string) {
	w.t.Helper()
	p := &platform.Package{AppGUID: app, Type: platform.PackageBits, State: platform.PackageReady, Checksum: "sha"}
	d := &platform.Droplet{
		AppGUID: app, State: platform.DropletStaged, Lifecycle: "buildpack", Checksum: "abc", ExecutionMetadata: metadata,
		ProcessTypes: map[string]string{"web": "./app"}, Buildpacks: []platform.DropletBuildpack{{Name: "nodejs_buildpack"}},
	}
	err := w.store.Update(w.t.Context(), func(tx platform.Tx) error {
		if err := tx.Packages().Insert(p); err != nil {
			return err
		}
		d.PackageGUID = p.GUID
		return tx.Droplets().Insert(d)
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.one(step{do: "PATCH /v3/apps/" + app + "/relationships/current_droplet", body: `{"data":{"guid":"` + d.GUID +
		`"}}`, want: 200})
	return p.GUID, d.GUID
}

const syncRules = `{"sync":{"restage":["package.json","vendor/"],"restage_presence":["server.js","*.go"]}}`

func TestChanges(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.vars["pkg"], w.vars["droplet"] = w.stagedWith(w.vars["app"], syncRules)
	_, w.vars["foreign"] = w.stagedWith(w.vars["app2"], syncRules)
	at, base := "/v3/ingot/apps/$app/changes", `{"droplet":{"guid":"$droplet"}`
	change := func(as, file, about string, s step) {
		t.Helper()
		name := ""
		if file != "" {
			name = "changes.zip"
		}
		w.file(as, at, name, file, map[string]string{"resources": w.expand(about)}, s)
	}
	noDroplet := []string{`"droplet":null`}
	change("dev", "lib/a.js", base+`}`, step{want: 201, has: []string{`"build_reason":null`, `"droplet":{"guid":"`,
		`"package":{"guid":"`}})
	change("dev", "", base+`,"deleted":["lib/b.js"]}`, step{want: 201, has: []string{`"build_reason":null`}})
	change("dev", "server.js", base+`}`, step{want: 201, has: []string{`"build_reason":null`}})
	change("dev", "package.json", base+`}`,
		step{want: 201, has: append(noDroplet, `"build_reason":"package.json changed"`)})
	change("dev", "vendor/x/y", base+`}`, step{want: 201, has: noDroplet})
	change("dev", "Procfile", base+`}`, step{want: 201, has: noDroplet})
	change("dev", "a", base+`,"deleted":["server.js"]}`, step{want: 201, has: noDroplet})
	change("dev", "a", base+`,"deleted":["main.go"]}`, step{want: 201, has: noDroplet})
	change("dev", "a", base+`,"deleted":["odd"]}`,
		step{want: 201, has: append(noDroplet, "differ from those of the package")})

	// A change that fails leaves no files: they would be copies of all of the app's.
	before := w.blobs.count()
	change("dev", "a", base+`,"deleted":["fails"]}`, step{want: 500})
	if after := w.blobs.count(); after != before {
		t.Errorf("%d files are stored after a change that failed, %d before", after, before)
	}
	change("dev", "broken", base+`}`, step{want: 422, has: []string{"The archive is not valid"}})
	change("dev", "", base+`}`, step{want: 422, has: []string{"either changed or deleted files"}})
	change("dev", "a", `{`, step{want: 422, has: []string{"not a valid JSON object"}})
	change("dev", "a", `{}`, step{want: 422, has: []string{"named by its guid"}})
	w.file("dev", at, "changes.zip", "a", nil, step{want: 422, has: []string{"'resources'"}})
	change("dev", "a", `{"droplet":{"guid":"$none"}}`, step{want: 412, has: []string{"not the app's current one"}})
	change("dev", "a", `{"droplet":{"guid":"$foreign"}}`, step{want: 412})

	for as, want := range map[string]int{"auditor": 403, "supporter": 403, "manager": 403, "orgmanager": 403,
		"member": 404, "stranger": 404} {
		change(as, "a", base+`}`, step{want: want})
	}
	w.file("dev", "/v3/ingot/apps/$app2/changes", "changes.zip", "a", map[string]string{"resources": w.expand(base + "}")},
		step{want: 404, has: []string{"App not found"}})
	w.one(step{do: "PATCH /v3/feature_flags/app_bits_upload", body: `{"enabled":false}`, want: 200})
	change("dev", "a", base+`}`, step{want: 403, has: []string{"Feature Disabled: app_bits_upload"}})
	w.one(step{do: "PATCH /v3/feature_flags/app_bits_upload", body: `{"enabled":true}`, want: 200})
}

// TestChangedDroplet: the droplet of a change runs like the one it is made from, and the
// audit events say who made it of what.
func TestChangedDroplet(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, base := w.stagedWith(w.vars["app"], syncRules)
	w.vars["droplet"] = base
	made := w.want(w.upload(w.as("dev"), w.expand("/v3/ingot/apps/$app/changes"), "changes.zip", "a.js",
		map[string]string{"resources": `{"droplet":{"guid":"` + base + `"}}`}), 201)
	droplet, _ := made.at("droplet.guid").(string)
	pkg, _ := made.at("package.guid").(string)
	w.vars["made"], w.vars["pkg"] = droplet, pkg
	w.play([]step{
		{as: "dev", do: "GET /v3/droplets/$made", want: 200, has: []string{`"state":"STAGED"`, `"web":"./app"`,
			"nodejs_buildpack", "sha-" + droplet, "/v3/packages/" + pkg}},
		{as: "dev", do: "GET /v3/packages/$pkg", want: 200, has: []string{`"state":"READY"`, `"value":"sha"`}},
		{do: "GET /v3/audit_events?types=audit.app.droplet.create&target_guids=$app", want: 200,
			has: []string{droplet, base, `"name":"dev"`}},
		{do: "GET /v3/audit_events?types=audit.app.package.upload&target_guids=$app", want: 200, has: []string{pkg}},
		// The app is not changed before the droplet is assigned or deployed.
		{as: "dev", do: "GET /v3/apps/$app/droplets/current", want: 200, has: []string{base}, not: []string{droplet}},
		{as: "dev", do: "PATCH /v3/apps/$app/relationships/current_droplet", body: `{"data":{"guid":"$made"}}`, want: 200},
	})
	stale := w.upload(w.as("dev"), w.expand("/v3/ingot/apps/$app/changes"), "changes.zip", "a.js",
		map[string]string{"resources": `{"droplet":{"guid":"` + base + `"}}`})
	if stale.status != 412 || !strings.Contains(stale.detail(), "Push all its files") {
		t.Errorf("a change to an older droplet: %d %s", stale.status, stale.body)
	}
	w.one(step{do: "DELETE /v3/packages/$pkg", want: 202})
	gone := w.upload(w.as("dev"), w.expand("/v3/ingot/apps/$app/changes"), "changes.zip", "a.js",
		map[string]string{"resources": `{"droplet":{"guid":"` + droplet + `"}}`})
	if gone.status != 412 {
		t.Errorf("a change without a package: %d %s", gone.status, gone.body)
	}
}

// TestChangesNeedABuild: without rules of its buildpack, every change does.
func TestChangesNeedABuild(t *testing.T) {
	t.Parallel()
	for _, metadata := range []string{"", "{}", "no JSON", `{"needs_sidecar_memory":true}`} {
		w := newWorld(t)
		_, base := w.stagedWith(w.vars["app"], metadata)
		made := w.want(w.upload(w.as("dev"), w.expand("/v3/ingot/apps/$app/changes"), "changes.zip", "a.js",
			map[string]string{"resources": `{"droplet":{"guid":"` + base + `"}}`}), 201)
		if made.at("droplet") != nil || made.at("package.guid") == nil {
			t.Errorf("metadata %q: %s", metadata, made.body)
		}
	}
}
