package api_test

import (
	"maps"
	"net/url"
	"slices"
	"strings"
	"testing"

	"ingot/internal/platform"
)

// TestPushConversation is what cf push says, without what runs the app.
func TestPushConversation(t *testing.T) {
	t.Parallel()
	f := setup(t)
	space := f.space(f.org("o"), "s")
	admin := f.admin()
	yaml := "applications:\n- name: web\n  default-route: true\n  memory: 64M\n  env: {A: 1, B: yes, C: null}\n  " +
		"sidecars:\n  - {name: cfg server, process_types: [web], command: ./cfg, memory: 16MB}\n"

	diff := f.want(f.call(admin, "POST", "/v3/spaces/"+space+"/manifest_diff", yaml), 201)
	if !strings.Contains(diff.body, `/applications/0/sidecars`) {
		t.Errorf("diff %s", diff.body)
	}
	done := f.want(f.call(admin, "POST", "/v3/spaces/"+space+"/actions/apply_manifest", yaml), 202)
	job := f.want(f.call(admin, "GET", strings.TrimPrefix(done.header.Get("Location"), "http://example.com"), nil), 200)
	if job.at("state") != "COMPLETE" || job.at("operation") != "space.apply_manifest" {
		t.Fatalf("job %s", job.body)
	}
	list := f.want(f.call(admin, "GET", "/v3/apps?names=web&space_guids="+space, nil), 200)
	app, _ := list.at("resources.0.guid").(string)
	if app == "" || list.at("resources.0.state") != "STOPPED" {
		t.Fatalf("apps %s", list.body)
	}
	env := f.want(f.call(admin, "GET", "/v3/apps/"+app+"/env", nil), 200)
	if env.at("environment_variables.A") != "1" || env.at("environment_variables.B") != "true" ||
		env.at("environment_variables.C") != "" ||
		env.at("application_env_json.VCAP_APPLICATION.uris.0") != "web.apps.localhost" {
		t.Errorf("env %s", env.body)
	}
	routes := f.want(f.call(admin, "GET", "/v3/apps/"+app+"/routes", nil), 200)
	if routes.at("resources.0.url") != "web.apps.localhost" || routes.at("resources.0.destinations.0.port") != 8080.0 ||
		routes.at("resources.0.destinations.0.protocol") != "http1" {
		t.Errorf("routes %s", routes.body)
	}
	again := f.want(f.call(admin, "POST", "/v3/spaces/"+space+"/manifest_diff", yaml), 201)
	if d, _ := again.json["diff"].([]any); len(d) != 0 {
		t.Errorf("after applying there is still a difference: %s", again.body)
	}

	match := f.want(f.call(admin, "POST", "/v3/resource_matches", map[string]any{"resources": []map[string]any{
		{"path": "a", "mode": "0644", "checksum": map[string]string{"value": strings.Repeat("a", 40)}, "size_in_bytes": 5},
		{"path": "b", "mode": "0644", "checksum": map[string]string{"value": strings.Repeat("b", 40)}, "size_in_bytes": 5},
	}}), 201)
	if list, _ := match.json["resources"].([]any); len(list) != 1 || match.at("resources.0.mode") != "0644" {
		t.Errorf("matches %s", match.body)
	}

	pkg := f.want(f.call(admin, "POST", "/v3/packages", map[string]any{"type": "bits", "relationships": rel("app", app)}),
		201)
	f.want(f.call(admin, "POST", "/v3/builds", map[string]any{"package": map[string]string{"guid": pkg.guid()}}), 400)
	up := f.want(f.upload(admin, "/v3/packages/"+pkg.guid()+"/upload", "package.zip", "zip",
		map[string]string{"resources": "[]"}), 200)
	if up.at("state") != "READY" {
		t.Errorf("package %s", up.body)
	}
	f.want(f.upload(admin, "/v3/packages/"+pkg.guid()+"/upload", "package.zip", "zip", nil), 400)

	missing := f.call(admin, "GET", "/v3/apps/"+app+"/droplets/current", nil)
	if missing.status != 404 || missing.detail() != "Droplet not found" {
		t.Errorf("no droplet: %d %s", missing.status, missing.body)
	}
	build := f.want(f.call(admin, "POST", "/v3/builds", map[string]any{"package": map[string]string{"guid": pkg.guid()}}),
		201)
	if build.at("state") != "STAGING" || build.at("droplet") != nil || !slices.Contains(f.signals.builds, build.guid()) {
		t.Errorf("build %s, signals %v", build.body, f.signals.builds)
	}
	if a := f.call(admin, "POST", "/v3/builds",
		map[string]any{"package": map[string]string{"guid": pkg.guid()}}); a.status != 422 {
		t.Errorf("a second build at the same time: %d %s", a.status, a.body)
	}

	// The stager's part.
	droplet := &platform.Droplet{
		AppGUID: app, PackageGUID: pkg.guid(), State: platform.DropletStaged, Lifecycle: "buildpack", Checksum: "abc",
		ProcessTypes: map[string]string{"web": "./app", "worker": "./w"},
		Sidecars:     []platform.DropletSidecar{{Name: "bp", Command: "./bp", ProcessTypes: []string{"web"}}},
	}
	err := f.store.Update(t.Context(), func(tx platform.Tx) error {
		if err := tx.Droplets().Insert(droplet); err != nil {
			return err
		}
		b, err := tx.Builds().Get(build.guid())
		if err != nil {
			return err
		}
		b.State, b.DropletGUID = platform.BuildStaged, droplet.GUID
		return tx.Builds().Update(b)
	})
	if err != nil {
		t.Fatal(err)
	}
	if b := f.call(admin, "GET", "/v3/builds/"+build.guid(), nil); b.at("droplet.guid") != droplet.GUID {
		t.Errorf("build %s", b.body)
	}
	if a := f.call(admin, "POST", "/v3/apps/"+app+"/actions/start", nil); a.status != 422 ||
		!strings.Contains(a.detail(), "Assign a droplet before starting this app.") {
		t.Errorf("start without a droplet: %s", a.body)
	}
	f.want(f.call(admin, "PATCH", "/v3/apps/"+app+"/relationships/current_droplet", rel("x", droplet.GUID)["x"]), 200)
	f.want(f.call(admin, "POST", "/v3/apps/"+app+"/actions/restart", nil), 200)
	processes := f.want(f.call(admin, "GET", "/v3/apps/"+app+"/processes", nil), 200)
	if list, _ := processes.json["resources"].([]any); len(list) != 2 {
		t.Errorf("processes %s", processes.body)
	}
	web := f.want(f.call(admin, "GET", "/v3/apps/"+app+"/processes/web", nil), 200)
	if web.guid() != app || web.at("command") != "./app" || web.at("memory_in_mb") != 64.0 ||
		web.at("health_check.type") != "port" {
		t.Errorf("web %s", web.body)
	}
	side := f.want(f.call(admin, "GET", "/v3/processes/"+app+"/sidecars", nil), 200)
	if !slices.Equal(names(side), []string{"cfg server", "bp"}) || side.at("resources.1.origin") != "buildpack" {
		t.Errorf("sidecars %s", side.body)
	}
	stats := f.want(f.call(admin, "GET", "/v3/processes/"+app+"/stats", nil), 200)
	if list, _ := stats.json["resources"].([]any); len(list) != 1 || stats.at("resources.0.state") != "DOWN" {
		t.Errorf("one row for each wanted instance: %s", stats.body)
	}
	f.want(f.call(admin, "POST", "/v3/apps/"+app+"/processes/web/actions/scale", map[string]any{"instances": 3}), 202)
	if a := f.call(admin, "POST", "/v3/apps/"+app+"/processes/web/actions/scale",
		map[string]any{"memory_in_mb": 16}); a.status != 422 || !strings.Contains(a.detail(), "sidecar") {
		t.Errorf("scaling below the sidecars: %d %s", a.status, a.body)
	}
	embedded := f.want(f.call(admin, "GET", "/v3/processes?embed=process_instances&space_guids="+space, nil), 200)
	if rows, _ := embedded.at("resources.0.process_instances").([]any); len(rows) != 3 {
		t.Errorf("embed %s", embedded.body)
	}
	if d := f.want(f.call(admin, "GET", "/v3/deployments?app_guids="+app+
		"&status_values=ACTIVE&order_by=-created_at&page=1&per_page=1", nil), 200); d.at("pagination.total_results") != 0.0 {
		t.Errorf("deployments %s", d.body)
	}
	yamlOut := f.want(f.call(admin, "GET", "/v3/apps/"+app+"/manifest", nil), 200).body
	f.want(f.call(admin, "POST", "/v3/spaces/"+space+"/actions/apply_manifest", yamlOut), 202)
	if got := f.want(f.call(admin, "GET", "/v3/apps/"+app+"/manifest", nil), 200).body; got != yamlOut {
		t.Errorf("a manifest that was read and applied changed it:\n%s\nwas\n%s", got, yamlOut)
	}
	events := f.want(f.call(admin, "GET", "/v3/audit_events?target_guids="+app+"&order_by=-created_at&page=1", nil), 200)
	for _, kind := range []string{"audit.app.create", "audit.app.package.upload", "audit.app.build.create",
		"audit.app.droplet.mapped", "audit.app.restart", "audit.app.process.scale", "audit.app.map-route",
		"audit.app.apply_manifest"} {
		if !strings.Contains(events.body, `"`+kind+`"`) {
			t.Errorf("no event %s", kind)
		}
	}
	f.want(f.call(admin, "DELETE", "/v3/apps/"+app, nil), 202)
	f.want(f.call(admin, "GET", "/v3/apps/"+app, nil), 404)
	if left := f.want(f.call(admin, "GET", "/v3/routes?space_guids="+space, nil),
		200); left.at("resources.0.url") != "web.apps.localhost" {
		t.Errorf("the route stays: %s", left.body)
	}
}

// A sidecar without memory beside a buildpack of which nothing is known.
func TestSidecarWarnings(t *testing.T) {
	t.Parallel()
	f := setup(t)
	space, admin := f.space(f.org("o"), "s"), f.admin()
	warning := func(a *answer) string {
		t.Helper()
		text, err := url.QueryUnescape(a.header.Get("X-Cf-Warnings"))
		if err != nil {
			t.Error(err)
		}
		return text
	}
	mine := f.want(f.call(admin, "POST", "/v3/buildpacks", map[string]any{"name": "mine_buildpack"}), 201).guid()
	bundled := map[string]string{}
	err := f.store.Update(t.Context(), func(tx platform.Tx) error {
		for _, name := range []string{"node_buildpack", "ruby_buildpack"} {
			b := &platform.Buildpack{Name: name, Position: 9, Enabled: true, State: platform.BuildpackReady,
				Lifecycle: "buildpack", Bundled: true}
			if err := tx.Buildpacks().Insert(b); err != nil {
				return err
			}
			bundled[name] = b.GUID
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, guid := range []string{mine, bundled["ruby_buildpack"]} {
		f.want(f.upload(admin, "/v3/buildpacks/"+guid+"/upload", "buildpack.zip", "zip", nil), 202)
	}
	for name, test := range map[string]struct {
		buildpack string
		sidecar   map[string]any
		warns     bool
	}{
		"custom":                    {"https://user:secret@example.org/mine.zip", map[string]any{}, true},
		"with memory":               {"https://example.org/mine.zip", map[string]any{"memory_in_mb": 64}, false},
		"detected":                  {"", map[string]any{}, false},
		"bundled":                   {"node_buildpack", map[string]any{}, false},
		"uploaded":                  {"mine_buildpack", map[string]any{}, true},
		"uploaded, with memory":     {"mine_buildpack", map[string]any{"memory_in_mb": 64}, false},
		"in place of a bundled one": {"ruby_buildpack", map[string]any{}, true},
	} {
		buildpacks := []string{}
		if test.buildpack != "" {
			buildpacks = append(buildpacks, test.buildpack)
		}
		app := f.want(f.call(admin, "POST", "/v3/apps", map[string]any{
			"name": name, "relationships": rel("space", space),
			"lifecycle": map[string]any{"type": "buildpack", "data": map[string]any{"buildpacks": buildpacks}},
		}), 201).guid()
		body := map[string]any{"name": "config server", "command": "./c", "process_types": []string{"web"}}
		maps.Copy(body, test.sidecar)
		texts := []string{warning(f.want(f.call(admin, "POST", "/v3/apps/"+app+"/sidecars", body), 201))}
		pkg := f.want(f.call(admin, "POST", "/v3/packages", map[string]any{"type": "bits", "relationships": rel("app", app)}),
			201)
		f.want(f.upload(admin, "/v3/packages/"+pkg.guid()+"/upload", "package.zip", "zip",
			map[string]string{"resources": "[]"}), 200)
		build := map[string]any{"package": map[string]string{"guid": pkg.guid()}}
		texts = append(texts, warning(f.want(f.call(admin, "POST", "/v3/builds", build), 201)))
		for _, text := range texts {
			if test.warns != strings.Contains(text,
				`The sidecar "config server" has no memory, which is required with a custom buildpack`) ||
				strings.Contains(text, "secret") {
				t.Errorf("%s: warning %q", name, text)
			}
		}
		// No warning of something that did not happen.
		if a := f.call(admin, "POST", "/v3/builds", build); a.status != 422 || warning(a) != "" {
			t.Errorf("%s: refused: %d %q", name, a.status, warning(a))
		}
	}
}
