package api_test

import (
	"strings"
	"testing"

	"ingot/internal/platform"
)

// file sends a multipart body as a user and checks the answer.
func (w *world) file(as, path, name, content string, fields map[string]string, s step) {
	w.t.Helper()
	s.do, s.as = "POST "+path, as
	tok := w.admin()
	if as != "" {
		tok = w.as(as)
	}
	w.check(s, w.upload(tok, w.expand(path), name, content, fields))
}

func TestPackageScenarios(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	create := func(as, app string, want int, save string, has ...string) step {
		return step{as: as, do: "POST /v3/packages", body: `{"type":"bits","relationships":{"app":{"data":{"guid":"` + app +
			`"}}}}`, want: want, save: save, has: has}
	}
	w.play([]step{
		create("dev", "$app", 201, "pkg", `"state":"AWAITING_UPLOAD"`, `"checksum":{"type":"sha256","value":null}`,
			"/upload"),
		create("dev", "$app2", 422, "", "App is invalid. Ensure it exists and you have access to it."),
		create("", "$none", 422, "", "App is invalid."),
		create("auditor", "$app", 403, ""),
		{do: "POST /v3/packages", body: `{"type":"bits"}`, want: 422, has: []string{"must include 'app'"}},
		{do: "POST /v3/packages", body: `{"type":"magic","relationships":{"app":{"data":{"guid":"$app"}}}}`, want: 422,
			has: []string{"Type must be one of 'bits, docker'"}},
		{do: "POST /v3/packages",
			body: `{"type":"docker","data":{"image":"x"},"relationships":{"app":{"data":{"guid":"$app"}}}}`, want: 422,
			has: []string{"Cannot create Docker package for a Buildpack app."}},
		{do: "POST /v3/packages",
			body: `{"type":"bits","data":{"image":"x"},"relationships":{"app":{"data":{"guid":"$app"}}}}`, want: 422,
			has: []string{"Data must be empty"}},
		{as: "dev", do: "POST /v3/builds", body: `{"package":{"guid":"$pkg"}}`, want: 400,
			has: []string{"Bad request: Cannot stage package whose state is not ready."}},
		{as: "dev", do: "GET /v3/packages/$pkg/download", want: 422, has: []string{"no bits to download"}},
		{as: "dev", do: "POST /v3/packages/$pkg/upload", body: `{}`, want: 400, has: []string{"multipart/form-data"}},
	})
	list := `[{"path":"a","mode":"0644","checksum":{"value":"` + strings.Repeat("a", 40) + `"},"size_in_bytes":5}]`
	w.file("dev", "/v3/packages/$pkg/upload", "", "", nil,
		step{want: 422, has: []string{"Upload must include either resources or bits"}})
	w.file("dev", "/v3/packages/$pkg/upload", "", "", map[string]string{"resources": "[]"},
		step{want: 422, has: []string{"Upload must include either resources or bits"}})
	w.file("dev", "/v3/packages/$pkg/upload", "", "", map[string]string{"resources": "{"},
		step{want: 422, has: []string{"Resources is not a valid JSON list"}})
	w.file("dev", "/v3/packages/$pkg/upload", "", "",
		map[string]string{"resources": `[{"path":"a","checksum":{"value":"x"}}]`}, step{want: 422, has: []string{"SHA-1"}})
	for _, at := range []string{"packages/$pkg", "packages/literally-any-guid", "droplets/literally-any-guid",
		"buildpacks/literally-any-guid"} {
		for _, query := range []string{"?bits_path=%2Fetc%2Fpasswd", "?bits_path=", "?bits_path='some/path'"} {
			for _, as := range []string{"", "dev", "auditor", "member"} {
				w.file(as, "/v3/"+at+"/upload"+query, "p.zip", "zip", nil, step{want: 422, has: []string{"Bits path is invalid"}})
				w.one(step{as: as, do: "POST /v3/" + at + "/upload" + query, want: 422, has: []string{"Bits path is invalid"}})
			}
		}
		if a := w.call("", "POST", "/v3/packages/any/upload?bits_path=x", nil); a.status != 422 {
			t.Errorf("without a token: %d %s, want 422", a.status, a.body)
		}
	}
	w.file("dev", "/v3/packages/$pkg/upload", "p.zip", "zip", map[string]string{"bits_path": "/etc/passwd"},
		step{want: 422, has: []string{"Bits path is invalid"}})
	w.file("auditor", "/v3/packages/$pkg/upload", "p.zip", "zip", nil, step{want: 403})
	w.file("member", "/v3/packages/$pkg/upload", "p.zip", "zip", nil, step{want: 404, has: []string{"Package not found"}})
	w.one(step{do: "PATCH /v3/feature_flags/app_bits_upload", body: `{"enabled":false}`, want: 200})
	w.file("dev", "/v3/packages/$pkg/upload", "p.zip", "zip", nil,
		step{want: 403, has: []string{"Feature Disabled: app_bits_upload"}})
	w.one(step{do: "PATCH /v3/feature_flags/app_bits_upload", body: `{"enabled":true}`, want: 200})
	w.file("dev", "/v3/packages/$pkg/upload", "p.zip", "zip", map[string]string{"resources": "[]", "other": "ignored"},
		step{want: 200, has: []string{`"state":"READY"`, `"value":"sha"`}})
	w.file("dev", "/v3/packages/$pkg/upload", "p.zip", "zip", nil,
		step{want: 400, has: []string{"Bits may be uploaded only once."}})
	w.play([]step{create("dev", "$app", 201, "matched"), create("dev", "$app", 201, "broken"),
		create("", "$app2", 201, "foreign")})
	w.file("dev", "/v3/packages/$matched/upload", "", "", map[string]string{"resources": list},
		step{want: 200, has: []string{`"state":"READY"`}})
	w.file("dev", "/v3/packages/$broken/upload", "p.zip", "broken", nil,
		step{want: 422, has: []string{"The archive is not valid"}})
	w.file("", "/v3/packages/$foreign/upload", "p.zip", "zip", nil, step{want: 200})
	copied := `{"relationships":{"app":{"data":{"guid":"$app"}}}}`
	w.play([]step{
		{as: "dev", do: "GET /v3/packages/$broken", want: 200, has: []string{`"state":"FAILED"`,
			`"error":"The archive is not valid"`}},
		{as: "dev", do: "GET /v3/packages/$pkg/download", want: 302},
		{as: "auditor", do: "GET /v3/packages/$pkg/download", want: 403, not: []string{"zip"}},
		{as: "auditor", do: "GET /v3/packages/$pkg", want: 200},
		{as: "dev", do: "GET /v3/packages?states=READY&types=bits&app_guids=$app&order_by=-created_at", want: 200,
			has: []string{`"total_results":2`}},
		{as: "dev", do: "GET /v3/apps/$app/packages", want: 200, has: []string{`"total_results":3`}},
		{as: "dev", do: "POST /v3/packages?source_guid=$pkg", body: copied, want: 201, has: []string{`"state":"READY"`}},
		{as: "dev", do: "POST /v3/packages?source_guid=$broken", body: copied, want: 422,
			has: []string{"Source package must be READY"}},
		{as: "dev", do: "POST /v3/packages?source_guid=$foreign", body: copied, want: 422,
			has: []string{"Source is invalid. Ensure it exists and you have access to it."}},
		{as: "dev", do: "PATCH /v3/packages/$pkg", body: `{"metadata":{"labels":{"k":"v"}}}`, want: 200,
			has: []string{`"k":"v"`}},
		{as: "dev", do: "PATCH /v3/packages/$pkg", body: `{"state":"READY"}`, want: 422,
			has: []string{"Unknown field(s): 'state'"}},
		{as: "dev", do: "GET /v3/packages?label_selector=k&space_guids=$space", want: 200,
			has: []string{`"total_results":1`}},
		{as: "dev", do: "POST /v3/resource_matches", body: `{"resources":` + list + `}`, want: 201,
			has: []string{`"mode":"0644"`, `"path":"a"`}},
		{as: "dev", do: "POST /v3/resource_matches", body: `{"resources":[]}`, want: 422, has: []string{"1 to 5000"}},
		{as: "dev", do: "POST /v3/resource_matches", body: `{"resources":[{"path":"a"}]}`, want: 422, has: []string{"SHA-1"}},
		{do: "PATCH /v3/feature_flags/resource_matching", body: `{"enabled":false}`, want: 200},
		{as: "dev", do: "POST /v3/resource_matches", body: `{"resources":` + list + `}`, want: 201,
			has: []string{`"resources":[]`}},
		{as: "auditor", do: "DELETE /v3/packages/$pkg", want: 403},
		{as: "dev", do: "DELETE /v3/packages/$pkg", want: 202},
		{as: "dev", do: "GET /v3/packages/$pkg", want: 404, has: []string{"Package not found"}},
	})
	// Who reads one space and develops in another must not carry code over.
	w.role("dev", "organization_user", w.vars["org2"])
	w.role("dev", "space_auditor", w.vars["space2"])
	w.one(step{as: "dev", do: "POST /v3/packages?source_guid=$foreign", body: copied, want: 403})

	// Clients can be sent to where the blobs are, if they may have them.
	w.blobs.elsewhere = "https://s3.example.org/"
	w.play([]step{
		{as: "dev", do: "GET /v3/packages/$matched/download", want: 302, has: []string{"https://s3.example.org/$matched"}},
		{as: "auditor", do: "GET /v3/packages/$matched/download", want: 403, not: []string{"s3.example.org"}},
		{as: "member", do: "GET /v3/packages/$matched/download", want: 404, not: []string{"s3.example.org"}},
	})
}

func TestBuildAndDropletScenarios(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.one(step{as: "dev", do: "POST /v3/packages",
		body: `{"type":"bits","relationships":{"app":{"data":{"guid":"$app"}}}}`, want: 201, save: "pkg"})
	w.file("dev", "/v3/packages/$pkg/upload", "p.zip", "zip", nil, step{want: 200})
	build := func(as, more string, want int, has ...string) step {
		return step{as: as, do: "POST /v3/builds", body: `{"package":{"guid":"$pkg"}` + more + `}`, want: want, has: has}
	}
	w.play([]step{
		{do: "POST /v3/builds", body: `{}`, want: 422, has: []string{"Package can't be blank"}},
		{do: "POST /v3/builds", body: `{"package":{"guid":"$none"}}`, want: 422,
			has: []string{"Unable to use package. Ensure that the package exists and you have access to it."}},
		build("member", "", 422, "Unable to use package."),
		build("auditor", "", 403),
		build("dev", `,"staging_memory_in_mb":0`, 422, "Staging memory in mb must be greater than 0"),
		build("dev", `,"staging_disk_in_mb":-1`, 422, "Staging disk in mb must be greater than 0"),
		build("dev", `,"lifecycle":{"type":"buildpack","data":{"buildpacks":["nope"]}}`, 422,
			"must be an existing admin buildpack or a valid git URI"),
		build("dev", `,"lifecycle":{"type":"docker","data":{}}`, 422, "cannot stage a package of type 'bits'"),
		{as: "supporter", do: "POST /v3/builds",
			body: `{"package":{"guid":"$pkg"},"staging_memory_in_mb":512,"lifecycle":{"type":"buildpack","data":{"buildpacks":["go_buildpack"]}}}`, want: 201,
			has: []string{`"state":"STAGING"`, `"droplet":null`, `"staging_memory_in_mb":512`, `"buildpacks":["go_buildpack"]`,
				`"name":"supporter"`}, save: "build"},
		build("dev", "", 422, "Only one build can be STAGING at a time per application."),
		{as: "dev", do: "PATCH /v3/builds/$build", body: `{"metadata":{"labels":{"k":"v"}}}`, want: 200,
			has: []string{`"k":"v"`}},
		{as: "auditor", do: "PATCH /v3/builds/$build", body: `{}`, want: 403},
		{as: "auditor", do: "GET /v3/builds?states=STAGING&package_guids=$pkg&label_selector=k", want: 200,
			has: []string{"$build"}},
		{as: "auditor", do: "GET /v3/apps/$app/builds", want: 200, has: []string{"$build"}},
		{as: "member", do: "GET /v3/builds/$build", want: 404, has: []string{"Build not found"}},
	})

	w.vars["staged"] = w.droplet(w.vars["app"], &platform.Droplet{PackageGUID: w.vars["pkg"], Stack: "cflinuxfs4",
		Buildpacks: []platform.DropletBuildpack{{Name: "go_buildpack"}}})
	w.vars["other"] = w.droplet(w.app(w.vars["space"], "sibling"), &platform.Droplet{})
	w.vars["foreign"] = w.droplet(w.vars["app2"], &platform.Droplet{})
	assign := func(as, droplet string, want int, has ...string) step {
		return step{as: as, do: "PATCH /v3/apps/$app/relationships/current_droplet", body: `{"data":{"guid":"` + droplet +
			`"}}`, want: want, has: has}
	}
	const cannot = "Unable to assign current droplet. Ensure the droplet exists and belongs to this app."
	w.play([]step{
		{as: "dev", do: "POST /v3/droplets",
			body: `{"relationships":{"app":{"data":{"guid":"$app"}}},"process_types":{"web":"./run","worker":"./w"}}`, want: 201,
			has: []string{`"state":"AWAITING_UPLOAD"`, "/upload"}, save: "droplet"},
		{as: "dev", do: "POST /v3/droplets", body: `{"relationships":{"app":{"data":{"guid":"$app2"}}}}`, want: 422,
			has: []string{"does not exist, or you do not have access to it."}},
		{as: "dev", do: "POST /v3/droplets", body: `{}`, want: 422, has: []string{"must include 'app'"}},
		{as: "dev", do: "GET /v3/droplets/$droplet/download", want: 422,
			has: []string{"Only staged droplets can be downloaded."}},
		assign("dev", "$droplet", 422, cannot),
		assign("dev", "$other", 422, cannot),
		assign("dev", "$foreign", 422, cannot),
		assign("dev", "$none", 422, cannot),
		{as: "dev", do: "PATCH /v3/apps/$app/relationships/current_droplet", body: `{"data":null}`, want: 422,
			has: []string{"Current droplet cannot be cleared."}},
		assign("auditor", "$staged", 403),
		assign("supporter", "$staged", 200, "$staged", "/droplets/current"),
	})
	w.file("auditor", "/v3/droplets/$droplet/upload", "d.tgz", "tar", nil, step{want: 403})
	w.file("dev", "/v3/droplets/$droplet/upload", "", "", nil,
		step{want: 422, has: []string{"Upload must include the file 'bits'"}})
	w.file("dev", "/v3/droplets/$droplet/upload", "d.tgz", "tar", nil, step{want: 202, has: []string{`"state":"STAGED"`}})
	w.file("dev", "/v3/droplets/$droplet/upload", "d.tgz", "tar", nil,
		step{want: 422, has: []string{"Droplet may be uploaded only once."}})
	w.play([]step{
		{as: "dev", do: "GET /v3/droplets/$droplet/download", want: 302},
		{as: "auditor", do: "GET /v3/droplets/$droplet/download", want: 403, not: []string{"tar"}},
		{as: "dev", do: "GET /v3/droplets/$staged", want: 200, has: []string{"./secret-command"}},
		{as: "auditor", do: "GET /v3/droplets/$staged", want: 200, has: []string{"[PRIVATE DATA HIDDEN]"},
			not: []string{"./secret-command"}},
		{as: "auditor", do: "GET /v3/apps/$app/droplets/current", want: 200, not: []string{"./secret-command"}},
		{as: "dev", do: "GET /v3/apps/$app/droplets/current", want: 200, has: []string{"./secret-command"}},
		{as: "dev", do: "GET /v3/droplets?states=STAGED", want: 200, has: []string{"[PRIVATE DATA HIDDEN IN LISTS]"},
			not: []string{"./secret-command", "$foreign"}},
		{as: "dev", do: "GET /v3/apps/$app/droplets?current=true", want: 200, has: []string{"$staged", `"total_results":1`}},
		{as: "dev", do: "GET /v3/packages/$pkg/droplets?states=STAGED&page=1&per_page=1", want: 200,
			has: []string{"$staged"}},
		{as: "dev", do: "GET /v3/apps/$app/relationships/current_droplet", want: 200,
			has: []string{`"data":{"guid":"$staged"}`}},
		{as: "dev", do: "POST /v3/droplets?source_guid=$staged", body: `{"relationships":{"app":{"data":{"guid":"$app"}}}}`,
			want: 201, has: []string{`"state":"STAGED"`}},
		{as: "dev", do: "POST /v3/droplets?source_guid=$foreign", body: `{"relationships":{"app":{"data":{"guid":"$app"}}}}`,
			want: 404, has: []string{"Droplet not found"}},
		{as: "dev", do: "PATCH /v3/droplets/$staged", body: `{"metadata":{"labels":{"k":"v"}}}`, want: 200,
			has: []string{`"k":"v"`}},
		{as: "dev", do: "DELETE /v3/droplets/$staged", want: 422, has: []string{"currently used"}},
		{as: "dev", do: "POST /v3/apps/$app/actions/start", want: 200, has: []string{`"state":"STARTED"`}},
		{as: "dev", do: "GET /v3/processes/$app/stats", want: 200, has: []string{`"state":"DOWN"`}},
		assign("dev", "$droplet", 200),
		{as: "dev", do: "GET /v3/apps/$app/processes", want: 200, has: []string{`"worker"`, `"total_results":2`}},
		{as: "dev", do: "DELETE /v3/droplets/$staged", want: 202},
		{as: "dev", do: "GET /v3/droplets/$staged", want: 404, has: []string{"Droplet not found"}},
	})
}

func TestBuildpackAndStackScenarios(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	order := func() string {
		return strings.Join(names(w.call(w.admin(), "GET", "/v3/buildpacks", nil)), " ")
	}
	w.play([]step{
		{do: "POST /v3/buildpacks", body: `{"name":"one"}`, want: 201,
			has: []string{`"position":1`, `"state":"AWAITING_UPLOAD"`, `"enabled":true`, `"filename":null`}, save: "one"},
		{do: "POST /v3/buildpacks", body: `{"name":"two","position":2,"stack":"cflinuxfs4","locked":true}`, want: 201,
			has: []string{`"position":2`}, save: "two"},
		{do: "POST /v3/buildpacks", body: `{"name":"last","position":99}`, want: 201, has: []string{`"position":4`},
			save: "last"},
		{do: "POST /v3/buildpacks", body: `{"name":"one"}`, want: 422, has: []string{"already exists"}},
		{do: "POST /v3/buildpacks", body: `{"name":"a b"}`, want: 422, has: []string{"Name can only contain"}},
		{do: "POST /v3/buildpacks", body: `{}`, want: 422, has: []string{"Name"}},
		{do: "POST /v3/buildpacks", body: `{"name":"x","position":0}`, want: 422,
			has: []string{"Position must be greater than or equal to 1"}},
		{do: "POST /v3/buildpacks", body: `{"name":"x","stack":"nope"}`, want: 422,
			has: []string{"Stack 'nope' does not exist"}},
		{do: "POST /v3/buildpacks", body: `{"name":"x","lifecycle":"cnb"}`, want: 422, has: []string{"not supported"}},
		{do: "POST /v3/buildpacks", body: `{"name":"x","enabled":"yes"}`, want: 422,
			has: []string{"enabled must be a boolean"}},
		{as: "dev", do: "POST /v3/buildpacks", body: `{"name":"x"}`, want: 403},
	})
	if got := order(); got != "one two go_buildpack last" {
		t.Errorf("order: %s", got)
	}
	w.one(step{do: "PATCH /v3/buildpacks/$one", body: `{"position":3}`, want: 200, has: []string{`"position":3`}})
	if got := order(); got != "two go_buildpack one last" {
		t.Errorf("order: %s", got)
	}
	w.one(step{do: "DELETE /v3/buildpacks/$two", want: 202})
	if a := w.call(w.admin(), "GET", "/v3/buildpacks?order_by=-position", nil); a.at("resources.0.position") != 3.0 ||
		order() != "go_buildpack one last" {
		t.Errorf("after a deletion: %s", a.body)
	}
	w.file("", "/v3/buildpacks/$one/upload", "b.txt", "x", nil, step{want: 422, has: []string{"Bits must be a zip file"}})
	w.file("", "/v3/buildpacks/$one/upload", "", "", nil, step{want: 422, has: []string{"Bits must be a zip file"}})
	w.file("dev", "/v3/buildpacks/$one/upload", "b.zip", "x", nil, step{want: 403})
	w.file("", "/v3/buildpacks/$one/upload", "b.zip", "x", nil,
		step{want: 202, has: []string{`"state":"READY"`, `"filename":"b.zip"`}})
	w.play([]step{
		{do: "PATCH /v3/buildpacks/$one", body: `{"locked":true,"enabled":false,"metadata":{"labels":{"k":"v"}}}`, want: 200,
			has: []string{`"locked":true`, `"enabled":false`}},
		{as: "stranger", do: "GET /v3/buildpacks?names=one&stacks=&lifecycle=buildpack&label_selector=k", want: 200,
			has: []string{`"total_results":1`}},
		{do: "GET /v3/buildpacks?lifecycle=magic", want: 400},
		{as: "stranger", do: "GET /v3/stacks?default=true", want: 200, has: []string{"cflinuxfs4"}, save: "stack"},
		{do: "GET /v3/stacks?default=maybe", want: 400},
		{as: "stranger", do: "GET /v3/stacks/$stack", want: 200, has: []string{`"state":"ACTIVE"`}},
		{as: "dev", do: "PATCH /v3/stacks/$stack", body: `{}`, want: 403},
		{do: "PATCH /v3/stacks/$stack", body: `{"metadata":{"labels":{"k":"v"}}}`, want: 200, has: []string{`"k":"v"`}},
		{do: "DELETE /v3/stacks/$stack", want: 422,
			has: []string{"Cannot delete stack 'cflinuxfs4' because it comes with the platform."}},
	})
	w.file("", "/v3/buildpacks/$one/upload", "b.zip", "x", nil, step{want: 422, has: []string{"locked"}})
}
