package api_test

import (
	"strings"
	"testing"

	"ingot/internal/platform"
)

// TestDocker is an app that is a container image, from its creation to its routes.
func TestDocker(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	app := `{"name":"img","relationships":{"space":{"data":{"guid":"$space"}}},"lifecycle":{"type":"docker","data":{}}}`
	pkg := func(as, data string, want int, save string, has ...string) step {
		return step{as: as, do: "POST /v3/packages", body: `{"type":"docker","data":` + data +
			`,"relationships":{"app":{"data":{"guid":"$img"}}}}`, want: want, save: save, has: has, not: []string{"hunter3"}}
	}
	w.play([]step{
		{as: "dev", do: "POST /v3/apps", body: app, want: 403, has: []string{"CF-FeatureDisabled",
			"Feature Disabled: diego_docker"}},
		{do: "POST /v3/apps", body: app, want: 403, has: []string{"Feature Disabled: diego_docker"}},
		{do: "PATCH /v3/feature_flags/diego_docker", body: `{"enabled":true}`, want: 200},
		{as: "dev", do: "POST /v3/apps",
			body: `{"name":"bad","relationships":{"space":{"data":{"guid":"$space"}}},"lifecycle":{"type":"docker","data":{"stack":"cflinuxfs4"}}}`, want: 422, has: []string{"Lifecycle data must be empty"}},
		{as: "dev", do: "POST /v3/apps", body: app, want: 201, save: "img",
			has: []string{`"lifecycle":{"type":"docker","data":{}}`}},
		{as: "dev", do: "PATCH /v3/apps/$img", body: `{"lifecycle":{"type":"buildpack","data":{}}}`, want: 422,
			has: []string{"Lifecycle type cannot be changed"}},
		{as: "dev", do: "GET /v3/apps?lifecycle_type=docker", want: 200, has: []string{"$img"}, not: []string{"$app"}},
		{as: "dev", do: "POST /v3/packages", body: `{"type":"bits","relationships":{"app":{"data":{"guid":"$img"}}}}`,
			want: 422, has: []string{"Cannot create bits package for a Docker app."}},
		pkg("dev", `{}`, 422, "", "Data Image required"),
		pkg("dev", `{"image":"a b"}`, 422, "", "Data Image must be"),
		pkg("dev", `{"image":"shop","tag":"x"}`, 422, "", "tag"),
		pkg("auditor", `{"image":"shop"}`, 403, ""),
		pkg("dev", `{"image":"registry.example.com/shop:1","username":"ann","password":"hunter3"}`, 201, "pkg",
			`"state":"READY"`, `"image":"registry.example.com/shop:1"`, `"username":"ann"`, `"password":"***"`),
		pkg("dev", `{"image":"shop"}`, 201, "open", `"username":null`, `"password":null`),
		{as: "dev", do: "GET /v3/packages/$pkg", want: 200, has: []string{`"***"`}, not: []string{"hunter3", "upload"}},
		{as: "dev", do: "GET /v3/packages/$pkg/download", want: 422, has: []string{"Package type must be bits."}},
		{as: "dev", do: "POST /v3/packages?source_guid=$pkg", body: `{"relationships":{"app":{"data":{"guid":"$img"}}}}`,
			want: 201, save: "copy", has: []string{`"state":"READY"`, "registry.example.com/shop:1"}},
		{as: "dev", do: "POST /v3/packages?source_guid=$pkg", body: `{"relationships":{"app":{"data":{"guid":"$app"}}}}`,
			want: 422, has: []string{"Cannot create Docker package for a Buildpack app."}},
		{as: "dev", do: "POST /v3/builds", body: `{"package":{"guid":"$pkg"},"lifecycle":{"type":"buildpack","data":{}}}`,
			want: 422, has: []string{"cannot stage a package of type 'docker'"}},
		{do: "PATCH /v3/feature_flags/diego_docker", body: `{"enabled":false,"custom_error_message":"Ask ops."}`, want: 200},
		{as: "dev", do: "POST /v3/builds", body: `{"package":{"guid":"$pkg"}}`, want: 403,
			has: []string{"Feature Disabled: Ask ops."}},
		{do: "PATCH /v3/feature_flags/diego_docker", body: `{"enabled":true,"custom_error_message":null}`, want: 200},
		{as: "dev", do: "POST /v3/builds", body: `{"package":{"guid":"$pkg"}}`, want: 201,
			has: []string{`"lifecycle":{"type":"docker","data":{}}`, `"state":"STAGING"`}},
		{as: "dev", do: "POST /v3/droplets", body: `{"relationships":{"app":{"data":{"guid":"$img"}}}}`, want: 422,
			has: []string{"not available for apps with docker lifecycles"}},
	})
	w.file("dev", "/v3/packages/$pkg/upload", "p.zip", "zip", nil,
		step{want: 422, has: []string{"Package type must be bits."}})
	w.vars["staged"] = w.droplet(w.vars["img"], &platform.Droplet{
		PackageGUID: w.vars["pkg"], Lifecycle: platform.LifecycleDocker, Image: "registry.example.com/shop:1@sha256:12",
		ImageUsername: "ann", ImagePassword: "hunter3",
		ProcessTypes: map[string]string{"web": "/shop serve"}, ExecutionMetadata: `{"cmd":["serve"]}`,
		Container: &platform.Image{Repository: "registry.example.com/shop", Ports: []int{80, 443},
			Entrypoint: []string{"/shop"}, Command: []string{"serve"}},
	})
	w.play([]step{
		{as: "dev", do: "GET /v3/droplets/$staged", want: 200, has: []string{`"lifecycle":{"type":"docker","data":{}}`,
			`"image":"registry.example.com/shop:1@sha256:12"`, `"process_types":{"web":"/shop serve"}`},
			not: []string{"hunter3"}},
		{as: "dev", do: "GET /v3/droplets/$staged/download", want: 422,
			has: []string{"Cannot download droplets with 'docker' lifecycle."}},
		{as: "dev", do: "POST /v3/droplets?source_guid=$staged", body: `{"relationships":{"app":{"data":{"guid":"$img"}}}}`,
			want: 201, has: []string{`"state":"STAGED"`, "registry.example.com/shop:1@sha256:12"}, not: []string{"hunter3"}},
		{as: "dev", do: "POST /v3/droplets?source_guid=$staged", body: `{"relationships":{"app":{"data":{"guid":"$app"}}}}`,
			want: 422, has: []string{"has the lifecycle 'docker'"}},
		{as: "dev", do: "PATCH /v3/apps/$img/relationships/current_droplet", body: `{"data":{"guid":"$staged"}}`, want: 200},
		{as: "dev", do: "GET /v3/apps/$img/manifest", want: 200, has: []string{"lifecycle: docker",
			"image: registry.example.com/shop:1\n", "username: ann"}, not: []string{"hunter3", "stack"}},
		{do: "PATCH /v3/feature_flags/diego_docker", body: `{"enabled":false}`, want: 200},
		{as: "dev", do: "POST /v3/apps/$img/actions/start", want: 403, has: []string{"Feature Disabled: diego_docker"}},
		{as: "dev", do: "POST /v3/apps/$img/actions/restart", want: 403},
		{do: "PATCH /v3/feature_flags/diego_docker", body: `{"enabled":true}`, want: 200},
		{as: "dev", do: "POST /v3/apps/$img/actions/start", want: 200, has: []string{`"state":"STARTED"`}},
		{as: "dev", do: "GET /v3/domains?names=example.org", want: 200},
		{as: "dev", do: "POST /v3/routes",
			body: `{"host":"img","relationships":{"space":{"data":{"guid":"$space"}},"domain":{"data":{"guid":"$domain"}}}}`,
			want: 201, save: "r"},
		{as: "dev", do: "POST /v3/routes/$r/destinations", body: `{"destinations":[{"app":{"guid":"$img"}}]}`, want: 200,
			has: []string{`"port":80`}},
		{as: "dev", do: "POST /v3/routes/$r/destinations",
			body: `{"destinations":[{"app":{"guid":"$img"},"port":8080},{"app":{"guid":"$app"},"port":8080}]}`, want: 200,
			has: []string{`"port":80,`, `"port":8080`}},
		{as: "dev", do: "GET /v3/routes/$r", want: 200, has: []string{`"port":80,`, `"port":8080`}},
	})
}

// TestDockerManifest applies manifests with images.
func TestDockerManifest(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	apply := func(text string, has ...string) step {
		return step{as: "dev", do: "POST /v3/spaces/$space/actions/apply_manifest", body: text, want: 202, has: has}
	}
	image := "applications: [{name: img, docker: {image: registry.example.com/shop, username: ann}}]"
	failed := func(s step, want string) {
		t.Helper()
		if job := w.job(s); job.at("state") != "FAILED" || !strings.Contains(job.body, want) {
			t.Errorf("%s: %s, want %q", s.body, job.body, want)
		}
	}
	refused := apply(image, "For application 'img': Feature Disabled: diego_docker")
	refused.want = 403
	w.one(refused)
	w.one(step{do: "PATCH /v3/feature_flags/diego_docker", body: `{"enabled":true}`, want: 200})
	if job := w.job(apply(image)); job.at("state") != "COMPLETE" {
		t.Fatalf("got %s", job.body)
	}
	w.one(step{as: "dev", do: "GET /v3/apps?names=img", want: 200,
		has: []string{`"lifecycle":{"type":"docker","data":{}}`}})
	if job := w.job(apply("applications: [{name: img, lifecycle: docker, memory: 64M}]")); job.at("state") != "COMPLETE" {
		t.Errorf("got %s", job.body)
	}
	failed(apply("applications: [{name: app, docker: {image: x}}]"), "Lifecycle type cannot be changed")
	failed(apply("applications: [{name: img, stack: cflinuxfs4}]"), "Lifecycle data must be empty")
}
