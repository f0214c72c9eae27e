package api_test

import (
	"testing"

	"ingot/internal/platform"
	"ingot/internal/platform/actions"
)

const restart = "POST /v3/apps/$app/actions/restart"

// TestRevisionsCreated sees when an app gets a new revision, and how it is described.
func TestRevisionsCreated(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.deployable() // which starts it
	list := "GET /v3/apps/$app/revisions?order_by=-created_at"
	w.play([]step{
		{as: "dev", do: list, want: 200, has: []string{`"total_results":1`, `"version":1`, `"description":"Initial revision."`, `"deployable":true`, `"droplet":{"guid":"$d1"}`,
			`"processes":{"web":{"command":null},"worker":{"command":null}}`, `"ingot":{"processes":{"web":{"user":null,"memory_in_mb":1024`,
			`"sidecars":[]`, "/environment_variables"}, not: []string{"hunter2"}, save: "first"},
		{as: "dev", do: "GET /v3/apps/$app", want: 200, has: []string{"/v3/apps/$app/revisions/deployed"}},
		{as: "dev", do: "GET /v3/processes/$app", want: 200, has: []string{`"revision":{"data":{"guid":"$first"}}`}},
		{as: "dev", do: restart, want: 200},
		{as: "dev", do: list, want: 200, has: []string{`"total_results":1`}},

		{as: "dev", do: "PATCH /v3/apps/$app/environment_variables", body: `{"var":{"COLOR":"blue"}}`, want: 200},
		{as: "dev", do: list, want: 200, has: []string{`"total_results":1`}}, // only once it is started
		{as: "dev", do: restart, want: 200},
		{as: "dev", do: list, want: 200, has: []string{`"total_results":2`,
			`"description":"New environment variables deployed."`}, save: "second"},

		{as: "dev", do: "PATCH /v3/apps/$app/processes/web", body: `{"command":"run --fast hunter2"}`, want: 200},
		{as: "dev", do: "POST /v3/apps/$app/sidecars", body: `{"name":"helper","command":"help","process_types":["web"]}`,
			want: 201},
		{as: "dev", do: "POST /v3/apps/$app/actions/stop", want: 200},
		{as: "dev", do: "GET /v3/apps/$app/revisions/deployed", want: 200, has: []string{`"total_results":0`}},
		{as: "dev", do: "POST /v3/apps/$app/actions/start", want: 200},
		{as: "dev", do: list, want: 200, has: []string{`"total_results":3`, `"description":"Custom start command added for 'web' process. Sidecars updated."`,
			`"command":"run --fast hunter2"`,
			`"sidecars":[{"name":"helper","command":"help","process_types":["web"],"memory_in_mb":null}]`}, save: "third"},
		{as: "auditor", do: list, want: 200, has: []string{"[PRIVATE DATA HIDDEN]"}, not: []string{"hunter2"}},

		// Settings make no revision; the newest has those with which it ran last.
		{as: "dev", do: "POST /v3/apps/$app/processes/web/actions/scale",
			body: `{"memory_in_mb":256,"instances":2}`, want: 202},
		{as: "dev", do: restart, want: 200},
		{as: "dev", do: "GET /v3/revisions/$third", want: 200, has: []string{`"memory_in_mb":256`, `"version":3`}},

		{as: "dev", do: "POST /v3/deployments", body: deployBody(`,"droplet":{"guid":"$d2"}`), want: 201,
			has: []string{`"version":4}`}, save: "d"},
		{as: "dev", do: list, want: 200, has: []string{`"total_results":4`, `"description":"New droplet deployed."`}},
		{as: "dev", do: "GET /v3/audit_events?types=audit.app.revision.create&target_guids=$app", want: 200,
			has: []string{`"total_results":4`, `"revision_version":4`}},

		{as: "auditor", do: "GET /v3/apps/$app/revisions?versions=1,3", want: 200, has: []string{`"total_results":2`,
			"$first", "$third"}},
		{as: "auditor", do: "GET /v3/apps/$app/revisions?deployable=false", want: 200, has: []string{`"total_results":0`}},
		{as: "auditor", do: "GET /v3/apps/$app/revisions?versions=x", want: 400},
		{as: "auditor", do: "GET /v3/apps/$app/revisions?color=red", want: 400},
		{as: "member", do: list, want: 404, has: []string{"App not found"}},
		{as: "member", do: "GET /v3/apps/$app/revisions/deployed", want: 404, has: []string{"App not found"}},
	})
}

// TestRevisionsDisabled sees that an app without the feature gets no revisions.
func TestRevisionsDisabled(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.play([]step{{as: "dev", do: "PATCH /v3/apps/$app/features/revisions", body: `{"enabled":false}`, want: 200}})
	w.deployable()
	w.play([]step{
		{as: "dev", do: "GET /v3/apps/$app/revisions", want: 200, has: []string{`"total_results":0`}},
		{as: "dev", do: "GET /v3/processes/$app", want: 200, has: []string{`"revision":null`}},
		{as: "dev", do: "POST /v3/deployments", body: deployBody(`,"droplet":{"guid":"$d2"}`), want: 201,
			has: []string{`"revision":null`}},
	})
}

// TestRevisionAccess sees who may read and change a revision.
func TestRevisionAccess(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.deployable()
	const env = "GET /v3/revisions/$r/environment_variables"
	w.play([]step{
		{as: "dev", do: "GET /v3/apps/$app/revisions", want: 200, save: "r"},
		{as: "dev", do: env, want: 200, has: []string{`"SECRET":"hunter2"`, "/v3/apps/$app"}},
		{do: env, want: 200, has: []string{`"SECRET":"hunter2"`}},
		{as: "supporter", do: env, want: 403},
		{as: "auditor", do: env, want: 403},
		{as: "manager", do: env, want: 403},
		{as: "orgmanager", do: env, want: 403},
		{as: "member", do: env, want: 404, has: []string{"Revision not found"}},
		{as: "dev", do: "GET /v3/audit_events?types=audit.app.revision.environment_variables.show&target_guids=$app",
			want: 200, has: []string{`"total_results":2`, `"revision_guid":"$r"`}, not: []string{"hunter2"}},
		{as: "auditor", do: "GET /v3/revisions/$r", want: 200, has: []string{`"version":1`}, not: []string{"hunter2"}},
		{as: "member", do: "GET /v3/revisions/$r", want: 404, has: []string{"Revision not found"}},
		{as: "dev", do: "GET /v3/revisions/$none", want: 404, has: []string{"Revision not found"}},
		{as: "dev", do: "PATCH /v3/revisions/$r",
			body: `{"metadata":{"labels":{"stable":"yes"},"annotations":{"note":"good"}}}`, want: 200,
			has: []string{`"stable":"yes"`, `"note":"good"`}},
		{as: "supporter", do: "PATCH /v3/revisions/$r", body: `{"metadata":{"labels":{"stable":"no"}}}`, want: 403},
		{as: "auditor", do: "PATCH /v3/revisions/$r", body: `{"metadata":{"labels":{"stable":"no"}}}`, want: 403},
		{as: "member", do: "PATCH /v3/revisions/$r", body: `{}`, want: 404},
		{as: "dev", do: "PATCH /v3/revisions/$r", body: `{"version":7}`, want: 422},
		{as: "dev", do: "PATCH /v3/revisions/$r", body: `{"metadata":{"labels":{"a b":"c"}}}`, want: 422},
		{as: "dev", do: "GET /v3/apps/$app/revisions?label_selector=stable", want: 200, has: []string{`"total_results":1`}},
		{as: "dev", do: "GET /v3/apps/$app/revisions?label_selector=!stable", want: 200, has: []string{`"total_results":0`}},
	})
}

// TestRollback sees that a rollback restores all that a revision has, and that
// canceling it restores what was before.
func TestRollback(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.deployable()
	rollback := func(to, more string) string { return deployBody(`,"revision":{"guid":"` + to + `"}` + more) }
	w.play([]step{
		{as: "dev", do: "GET /v3/apps/$app/revisions", want: 200, save: "first"},
		// Everything is different in the second.
		{as: "dev", do: "PATCH /v3/apps/$app/environment_variables", body: `{"var":{"SECRET":null,"COLOR":"blue"}}`,
			want: 200},
		{as: "dev", do: "PATCH /v3/apps/$app/processes/web", body: `{"command":"other","health_check":{"type":"process"}}`,
			want: 200},
		{as: "dev", do: "PATCH /v3/apps/$app/processes/worker", body: `{"command":"labor"}`, want: 200},
		{as: "dev", do: "POST /v3/apps/$app/sidecars", body: `{"name":"helper","command":"help","process_types":["web"]}`,
			want: 201},
		{as: "dev", do: "POST /v3/apps/$app/processes/web/actions/scale",
			body: `{"memory_in_mb":256,"instances":3}`, want: 202},
		{as: "dev", do: "PATCH /v3/apps/$app/relationships/current_droplet", body: `{"data":{"guid":"$d2"}}`, want: 200},
		{as: "dev", do: restart, want: 200},
		{as: "dev", do: "GET /v3/apps/$app/revisions?versions=2", want: 200, save: "second"},

		{as: "auditor", do: "POST /v3/deployments", body: rollback("$first", ""), want: 422,
			has: []string{"Unable to use app"}},
		{as: "dev", do: "POST /v3/deployments", body: rollback("$none", ""), want: 422,
			has: []string{"The revision does not exist"}},
		{as: "dev", do: "POST /v3/deployments", body: rollback("", ""), want: 422,
			has: []string{"Revision must have a guid"}},
		{as: "dev", do: "POST /v3/deployments", body: rollback("$second", ""), want: 422,
			has: []string{"Unable to rollback. The code and configuration you are rolling back to is the same as the deployed " +
				"revision."}},

		{as: "supporter", do: "POST /v3/deployments", body: rollback("$first", `,"strategy":"canary"`), want: 201,
			has: []string{`"strategy":"canary"`, `"droplet":{"guid":"$d1"}`, `"previous_droplet":{"guid":"$d2"}`,
				`"version":3}`}, save: "back"},
		{as: "dev", do: "GET /v3/apps/$app/revisions?versions=3", want: 200, has: []string{
			`"description":"Custom start command removed for 'web' process. Custom start command removed for 'worker' process. New droplet deployed. New environment variables deployed. Sidecars updated. Rolled back to revision 1."`,
			`"memory_in_mb":1024`, `"type":"port"`}, save: "third"},
		{as: "dev", do: "GET /v3/apps/$app/environment_variables", want: 200, has: []string{"hunter2"},
			not: []string{"COLOR"}},
		{as: "dev", do: "GET /v3/apps/$app/sidecars", want: 200, has: []string{`"total_results":0`}},
		{as: "dev", do: "GET /v3/apps/$app/processes/web", want: 200, has: []string{`"command":"run"`, `"memory_in_mb":1024`,
			`"type":"port"`, `"revision":{"data":{"guid":"$third"}}`}},
		{as: "dev", do: "GET /v3/apps/$app/processes/worker", want: 200, has: []string{`"command":"work"`,
			`"revision":{"data":{"guid":"$second"}}`}},
		{as: "dev", do: "GET /v3/audit_events?types=audit.app.deployment.create&target_guids=$app", want: 200,
			has: []string{`"type":"rollback"`, `"revision_guid":"$third"`}},
		{as: "dev", do: "GET /v3/apps/$app/revisions/deployed?order_by=created_at", want: 200,
			has: []string{`"total_results":2`, "$second", "$third"}},

		{as: "dev", do: "POST /v3/deployments/$back/actions/cancel", want: 200},
		{as: "dev", do: "GET /v3/apps/$app/environment_variables", want: 200, has: []string{"blue"},
			not: []string{"hunter2"}},
		{as: "dev", do: "GET /v3/apps/$app/sidecars", want: 200, has: []string{`"total_results":1`, "helper"}},
		{as: "dev", do: "GET /v3/apps/$app/processes/worker", want: 200, has: []string{`"command":"labor"`}},
	})
	w.turn("back", func(tx platform.Tx, app *platform.App, d *platform.Deployment) error {
		return actions.New().FinishDeployment(tx, app, d)
	})
	w.play([]step{
		{as: "dev", do: "GET /v3/apps/$app/processes/web", want: 200, has: []string{`"command":"other"`, `"memory_in_mb":256`,
			`"instances":3`, `"revision":{"data":{"guid":"$second"}}`}},
		{as: "dev", do: "GET /v3/apps/$app/relationships/current_droplet", want: 200, has: []string{"$d2"}},

		// A stopped app is started with it, and sizes can be given.
		{as: "dev", do: "POST /v3/apps/$app/actions/stop", want: 200},
		{as: "dev", do: "POST /v3/deployments", body: rollback("$first", `,"options":{"memory_in_mb":99}`), want: 201,
			has: []string{`"reason":"DEPLOYED"`, `"version":4}`}},
		{as: "dev", do: "GET /v3/apps/$app", want: 200, has: []string{`"state":"STARTED"`}},
		{as: "dev", do: "GET /v3/apps/$app/processes/web", want: 200, has: []string{`"command":"run"`, `"memory_in_mb":99`,
			`"instances":3`}},
		{as: "dev", do: "GET /v3/apps/$app/revisions/deployed", want: 200, has: []string{`"total_results":1`, `"version":4`,
			`"memory_in_mb":99`}},

		// A revision without its droplet cannot be deployed.
		{as: "dev", do: "DELETE /v3/droplets/$d2", want: 202},
		{as: "dev", do: "GET /v3/revisions/$second", want: 200, has: []string{`"deployable":false`}},
		{as: "dev", do: "GET /v3/apps/$app/revisions?deployable=false", want: 200, has: []string{`"total_results":1`}},
		{as: "dev", do: "POST /v3/deployments", body: rollback("$second", ""), want: 422,
			has: []string{"Unable to deploy this revision, the droplet for this revision no longer exists."}},
	})
}
