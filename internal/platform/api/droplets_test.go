package api_test

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"ingot/internal/base/db"
	"ingot/internal/base/fault"
	"ingot/internal/platform"
	"ingot/internal/platform/api"
)

// TestUploadedDroplet sees that an uploaded droplet says what it is, and that one
// that could not run is refused with the reason.
func TestUploadedDroplet(t *testing.T) {
	t.Parallel()
	f := setupOptions(t, db.SQLite, func(o *api.Options) {
		o.InspectDroplet = func(_ context.Context, r io.Reader) (*platform.Droplet, error) {
			content, err := io.ReadAll(r)
			switch string(content) {
			case "bad":
				return nil, fault.New(fault.Unprocessable, "The file is not a droplet: it is bad")
			case "broken":
				return nil, errors.New("the disk is broken")
			}
			return &platform.Droplet{ProcessTypes: map[string]string{"web": "run web", "worker": "run worker"},
				Buildpacks: []platform.DropletBuildpack{{Name: "ruby"}}}, err
		}
	})
	w := newWorldIn(t, f)
	create := func(more, name string) {
		w.one(step{as: "dev", do: "POST /v3/droplets", body: `{"relationships":{"app":{"data":{"guid":"$app"}}}` + more + `}`,
			want: 201, save: name})
	}
	create("", "good")
	w.file("dev", "/v3/droplets/$good/upload", "d.tgz", "good", nil,
		step{want: 202, has: []string{`"state":"STAGED"`, `"web":"run web"`, `"worker":"run worker"`, `"name":"ruby"`}})
	if got := w.downloaded("dev", "/v3/droplets/$good/download"); got != "good" {
		t.Errorf("downloaded %q, want the droplet", got)
	}
	create(`,"process_types":{"web":"mine","other":"x"}`, "named")
	w.file("dev", "/v3/droplets/$named/upload", "d.tgz", "good", nil,
		step{want: 202, has: []string{`"web":"mine"`, `"worker":"run worker"`, `"other":"x"`}})
	create("", "bad")
	w.file("dev", "/v3/droplets/$bad/upload", "d.tgz", "bad", nil,
		step{want: 202, has: []string{`"state":"FAILED"`, `"error":"The file is not a droplet: it is bad"`}})
	job := ""
	if err := f.store.View(t.Context(), func(tx platform.Tx) error {
		jobs, _, err := tx.Jobs().List(platform.Where("state", platform.JobFailed))
		if len(jobs) == 1 {
			job = jobs[0].GUID
		}
		return err
	}); err != nil || job == "" {
		t.Fatalf("no failed job: %v", err)
	}
	w.vars["job"] = job
	w.play([]step{
		{as: "dev", do: "GET /v3/jobs/$job", want: 200, has: []string{`"state":"FAILED"`,
			`"detail":"The file is not a droplet: it is bad"`, `"code":10008`, "CF-UnprocessableEntity"}},
		{as: "dev", do: "GET /v3/droplets/$bad/download", want: 422,
			has: []string{"Only staged droplets can be downloaded."}},
		{as: "dev", do: "PATCH /v3/apps/$app/relationships/current_droplet", body: `{"data":{"guid":"$bad"}}`, want: 422,
			has: []string{"Unable to assign current droplet."}},
		{as: "dev", do: "PATCH /v3/apps/$app/relationships/current_droplet", body: `{"data":{"guid":"$good"}}`, want: 200},
		{as: "dev", do: "GET /v3/apps/$app/processes?types=worker", want: 200, has: []string{`"total_results":1`}},
	})
	create("", "broken")
	w.file("dev", "/v3/droplets/$broken/upload", "d.tgz", "broken", nil, step{want: 500})
	w.one(step{as: "dev", do: "GET /v3/droplets/$broken", want: 200, has: []string{`"state":"AWAITING_UPLOAD"`}})
}

// TestInterruptedBuild has a build that an earlier server process began. It gives
// way to a new one.
func TestInterruptedBuild(t *testing.T) {
	t.Parallel()
	f := setupOptions(t, db.SQLite, func(o *api.Options) { o.Platform.Began = time.Now().Add(time.Hour) })
	w := newWorldIn(t, f)
	w.one(step{as: "dev", do: "POST /v3/packages",
		body: `{"type":"bits","relationships":{"app":{"data":{"guid":"$app"}}}}`, want: 201, save: "pkg"})
	w.file("dev", "/v3/packages/$pkg/upload", "p.zip", "zip", nil, step{want: 200})
	const build = `{"package":{"guid":"$pkg"}}`
	w.play([]step{
		{as: "dev", do: "POST /v3/builds", body: build, want: 201, save: "old"},
		{as: "auditor", do: "POST /v3/builds", body: build, want: 403},
		{as: "dev", do: "GET /v3/builds/$old", want: 200, has: []string{`"state":"STAGING"`}},
		{as: "dev", do: "POST /v3/builds", body: build, want: 201, save: "new", has: []string{`"state":"STAGING"`}},
		{as: "dev", do: "GET /v3/builds/$old", want: 200, has: []string{`"state":"FAILED"`,
			"The server was restarted during this build"}},
		{as: "dev", do: "GET /v3/audit_events?types=audit.app.build.failed", want: 200,
			has: []string{`"total_results":1`, "$old"}},
		{as: "dev", do: "GET /v3/builds?states=STAGING", want: 200, has: []string{`"total_results":1`, "$new"}},
	})
}
