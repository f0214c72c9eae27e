package api_test

import (
	"fmt"
	"testing"

	"ingot/internal/platform"
	"ingot/internal/platform/actions"
)

// Of the droplets and packages of an app that it does not use, the newest few are kept, as
// in Cloud Foundry. Revisions of the others cannot be deployed.
func TestExpiredBits(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	own := `{"relationships":{"app":{"data":{"guid":"$app"}}}}`
	w.one(step{as: "dev", do: "POST /v3/packages",
		body: `{"type":"bits","relationships":{"app":{"data":{"guid":"$app"}}}}`, want: 201, save: "pkg"})
	w.file("dev", "/v3/packages/$pkg/upload", "p.zip", "zip", nil, step{want: 200})
	w.vars["used"] = w.droplet(w.vars["app"], &platform.Droplet{PackageGUID: w.vars["pkg"], Stack: "cflinuxfs4"})
	w.one(step{as: "dev", do: "PATCH /v3/apps/$app/relationships/current_droplet",
		body: `{"data":{"guid":"$used"}}`, want: 200})
	for i := range actions.KeptDroplets + 2 {
		w.one(step{as: "dev", do: "POST /v3/droplets?source_guid=$used", body: own, want: 201, save: fmt.Sprintf("copy%d", i),
			has: []string{`"state":"STAGED"`}})
	}
	for i := range actions.KeptPackages + 2 {
		w.one(step{as: "dev", do: "POST /v3/packages?source_guid=$pkg", body: own, want: 201, save: fmt.Sprintf("pkg%d", i),
			has: []string{`"state":"READY"`}})
	}
	w.play([]step{
		{as: "dev", do: "GET /v3/droplets?states=EXPIRED&app_guids=$app", want: 200, has: []string{`"total_results":2`,
			"$copy0", "$copy1"}},
		{as: "dev", do: "GET /v3/droplets?states=STAGED&app_guids=$app", want: 200,
			has: []string{fmt.Sprintf(`"total_results":%d`, actions.KeptDroplets+1), "$used"}},
		{as: "dev", do: "GET /v3/droplets/$copy0/download", want: 422,
			has: []string{"Only staged droplets can be downloaded."}},
		{as: "dev", do: "PATCH /v3/apps/$app/relationships/current_droplet", body: `{"data":{"guid":"$copy0"}}`, want: 422,
			has: []string{"Unable to assign current droplet."}},
		{as: "dev", do: "POST /v3/droplets?source_guid=$copy0", body: own, want: 422,
			has: []string{"Source droplet is not staged."}},
		{as: "dev", do: "GET /v3/packages?states=EXPIRED&app_guids=$app", want: 200, has: []string{`"total_results":2`,
			"$pkg0", "$pkg1"}},
		{as: "dev", do: "GET /v3/packages/$pkg", want: 200, has: []string{`"state":"READY"`}}, // that of the current droplet
		{as: "dev", do: "POST /v3/builds", body: `{"package":{"guid":"$pkg0"}}`, want: 400,
			has: []string{"Cannot stage package whose state is not ready."}},
		{as: "dev", do: "GET /v3/packages/$pkg0/download", want: 422},
		{do: "GET /v3/audit_events?types=audit.app.droplet.create&target_guids=$app&order_by=created_at", want: 200,
			has: []string{`"source_droplet_guid":"$used"`, "$copy0"}},
		{as: "dev", do: "DELETE /v3/droplets/$copy0", want: 202},
	})
}
