package api_test

import (
	"strings"
	"testing"

	"ingot/internal/platform"
	"ingot/internal/platform/actions"
)

// deployable gives an app a droplet and starts it, and leaves a second droplet,
// and one of another app.
func (w *world) deployable() {
	w.t.Helper()
	err := w.store.Update(w.t.Context(), func(tx platform.Tx) error {
		for guid, app := range map[string]string{"d1": w.vars["app"], "d2": w.vars["app"], "d3": w.vars["app2"]} {
			d := &platform.Droplet{Resource: platform.Resource{GUID: w.vars["none"][:34] + guid}, AppGUID: app,
				State: platform.DropletStaged, ProcessTypes: map[string]string{"web": "run", "worker": "work"}}
			w.vars[guid] = d.GUID
			if err := tx.Droplets().Insert(d); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.play([]step{
		{do: "PATCH /v3/apps/$app/relationships/current_droplet", body: `{"data":{"guid":"$d1"}}`, want: 200},
		{do: "POST /v3/apps/$app/actions/start", want: 200},
	})
}

// turn does to a deployment what only the controller does.
func (w *world) turn(name string, change func(tx platform.Tx, app *platform.App, d *platform.Deployment) error) {
	w.t.Helper()
	err := w.store.Update(w.t.Context(), func(tx platform.Tx) error {
		d, err := tx.Deployments().Get(w.vars[name])
		if err != nil {
			return err
		}
		app, err := tx.Apps().Get(d.AppGUID)
		if err != nil {
			return err
		}
		if err := change(tx, app, d); err != nil {
			return err
		}
		return tx.Deployments().Update(d)
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

func deployBody(more string) string {
	return `{"relationships":{"app":{"data":{"guid":"$app"}}}` + more + `}`
}

func TestDeploymentRequests(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.deployable()
	const unusable = "Unable to use app. Ensure that the app exists and you have access to it."
	w.play([]step{
		{as: "dev", do: "POST /v3/deployments", body: `{}`, want: 422, has: []string{"must include 'app'"}},
		{as: "dev", do: "POST /v3/deployments", body: `{"relationships":{"app":{"data":{"guid":"$none"}}}}`, want: 422,
			has: []string{unusable}},
		{as: "dev", do: "POST /v3/deployments", body: `{"relationships":{"app":{"data":{"guid":"$app2"}}}}`, want: 422,
			has: []string{unusable}},
		{as: "auditor", do: "POST /v3/deployments", body: deployBody(``), want: 422, has: []string{unusable}},
		{as: "manager", do: "POST /v3/deployments", body: deployBody(``), want: 422, has: []string{unusable}},
		{as: "dev", do: "POST /v3/deployments", body: deployBody(`,"strategy":"slow"`), want: 422,
			has: []string{"'slow' is not a supported deployment strategy"}},
		{as: "dev", do: "POST /v3/deployments", body: deployBody(`,"revision":{"guid":"$none"}`), want: 422,
			has: []string{"The revision does not exist"}},
		{as: "dev", do: "POST /v3/deployments", body: deployBody(`,"revision":{"guid":"$none"},"droplet":{"guid":"$d2"}`),
			want: 422, has: []string{"Cannot set both fields 'droplet' and 'revision'"}},
		{as: "dev", do: "POST /v3/deployments", body: deployBody(`,"droplet":{"guid":"$none"}`), want: 422,
			has: []string{"Unable to assign current droplet"}},
		{as: "dev", do: "POST /v3/deployments", body: deployBody(`,"droplet":{"guid":"$d3"}`), want: 422,
			has: []string{"Unable to assign current droplet"}},
		{as: "dev", do: "POST /v3/deployments", body: deployBody(`,"options":{"max_in_flight":0}`), want: 422,
			has: []string{"Max in flight must be an integer greater than 0"}},
		{as: "dev", do: "POST /v3/deployments", body: deployBody(`,"options":{"memory_in_mb":0}`), want: 422,
			has: []string{"Memory in mb must be greater than 0"}},
		{as: "dev", do: "POST /v3/deployments", body: deployBody(`,"options":{"web_instances":-1}`), want: 422,
			has: []string{"Web instances must be greater than 0"}},
		{as: "dev", do: "POST /v3/deployments", body: deployBody(`,"options":{"min_healthy_time":-1}`), want: 422,
			has: []string{"Min healthy time must be between 0 and 3600 seconds"}},
		{as: "dev", do: "POST /v3/deployments", body: deployBody(`,"options":{"min_healthy_time":3601}`), want: 422,
			has: []string{"Min healthy time must be between 0 and 3600 seconds"}},
		{as: "dev", do: "POST /v3/deployments", body: deployBody(`,"options":{"min_healthy_time":"5s"}`), want: 422,
			has: []string{"min_healthy_time"}},
		{as: "dev", do: "POST /v3/deployments", body: deployBody(`,"options":{"speed":9}`), want: 422,
			has: []string{"speed"}},
		{as: "dev", do: "POST /v3/deployments", body: deployBody(`,"options":{"canary":{"steps":[{"instance_weight":5}]}}`),
			want: 422, has: []string{"only valid for Canary deployments"}},
		{as: "dev", do: "POST /v3/deployments", body: deployBody(`,"strategy":"canary","options":{"canary":{"steps":[{}]}}`),
			want: 422, has: []string{`missing key: "instance_weight"`}},
		{as: "dev", do: "POST /v3/deployments",
			body: deployBody(`,"strategy":"canary","options":{"canary":{"steps":[{"instance_weight":101}]}}`), want: 422,
			has: []string{"between 1-100"}},
		{as: "dev", do: "POST /v3/deployments",
			body: deployBody(`,"strategy":"canary","options":{"canary":{"steps":[{"instance_weight":50},{"instance_weight":20}]}}`), want: 422, has: []string{"ascending"}},
		{as: "dev", do: "GET /v3/deployments", want: 200, has: []string{`"total_results":0`}},
	})
}

func TestDeploymentLife(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.deployable()
	w.play([]step{
		// As cf sends it.
		{as: "supporter", do: "POST /v3/deployments",
			body: deployBody(`,"strategy":"rolling","droplet":{"guid":"$d2"},"options":{"max_in_flight":3,"web_instances":4,"memory_in_mb":null,"disk_in_mb":null,"log_rate_limit_in_bytes_per_second":null,"min_healthy_time":0.25},"metadata":{"labels":{"a":"b"}}`), want: 201,
			has: []string{`"value":"ACTIVE"`, `"reason":"DEPLOYING"`, `"max_in_flight":3`, `"web_instances":4`, `"min_healthy_time":0.25`, `"droplet":{"guid":"$d2"}`, `"previous_droplet":{"guid":"$d1"}`,
				`"type":"web"}]`, `"version":2}`, `"labels":{"a":"b"}`, `/actions/cancel`},
			not: []string{"memory_in_mb", "canary", "/actions/continue", `"error"`}, save: "first"},
		{as: "dev", do: "GET /v3/apps/$app/relationships/current_droplet", want: 200, has: []string{"$d2"}},
		{as: "dev", do: "GET /v3/apps/$app/processes/web", want: 200, has: []string{`"instances":3`}},
		{as: "dev", do: "GET /v3/processes/$app", want: 200, has: []string{`"instances":1`}},
		{as: "auditor", do: "GET /v3/deployments/$first", want: 200, has: []string{"$first"}},
		{as: "auditor", do: "GET /v3/deployments?app_guids=$app&status_values=ACTIVE&order_by=-created_at&page=1&per_page=1",
			want: 200, has: []string{`"total_results":1`}},
		{as: "auditor", do: "GET /v3/deployments?status_reasons=DEPLOYED,CANCELED", want: 200,
			has: []string{`"total_results":0`}},
		{as: "auditor", do: "PATCH /v3/deployments/$first", body: `{"metadata":{"labels":{"a":"c"}}}`, want: 403},
		{as: "dev", do: "PATCH /v3/deployments/$first", body: `{"metadata":{"labels":{"a":"c"}}}`, want: 200,
			has: []string{`"labels":{"a":"c"}`}},
		{as: "dev", do: "PATCH /v3/deployments/$first", body: `{"strategy":"canary"}`, want: 422},
		{as: "dev", do: "PATCH /v3/deployments/$none", body: `{}`, want: 404, has: []string{"Deployment not found"}},

		{as: "dev", do: "POST /v3/processes/$app/actions/scale", body: `{"instances":1}`, want: 422,
			has: []string{`"code":390016`, "CF-ScaleDisabledDuringDeployment",
				"Cannot scale this process while a deployment is in flight."}},
		{as: "dev", do: "PATCH /v3/processes/$app", body: `{"command":"x"}`, want: 422,
			has: []string{"CF-ProcessUpdateDisabledDuringDeployment"}},
		{as: "dev", do: "POST /v3/apps/$app/processes/worker/actions/scale", body: `{"instances":1}`, want: 202},
		{as: "dev", do: "POST /v3/apps/$app/actions/stop", want: 422,
			has: []string{`"code":390024`, "CF-StopDisabledDuringDeployment", "cancel the deployment"}},
		{as: "dev", do: "POST /v3/apps/$app/actions/restart", want: 422, has: []string{`"code":390024`}},
		{as: "dev", do: "POST /v3/apps/$app/actions/start", want: 200},
		{as: "dev", do: "POST /v3/deployments/$first/actions/continue", want: 422,
			has: []string{"Cannot continue a deployment with status: ACTIVE and reason: DEPLOYING"}},
		{as: "auditor", do: "POST /v3/deployments/$first/actions/cancel", want: 403},
	})
	w.turn("first", func(_ platform.Tx, _ *platform.App,
		d *platform.Deployment) error {
		d.Error = "it crashes"
		return nil
	})
	w.play([]step{
		{as: "dev", do: "GET /v3/deployments/$first", want: 200, has: []string{`"error":"it crashes"`}},
		// Another one takes over. Nothing of the first is ready, so back means back
		// to what was before it.
		{as: "dev", do: "POST /v3/deployments", body: deployBody(``), want: 201,
			has: []string{`"previous_droplet":{"guid":"$d1"}`, `"droplet":{"guid":"$d2"}`, `"strategy":"rolling"`,
				`"max_in_flight":1`}, save: "second"},
		{as: "dev", do: "GET /v3/deployments/$first", want: 200, has: []string{`"value":"FINALIZED"`,
			`"reason":"SUPERSEDED"`}, not: []string{"/actions/"}},
		{as: "dev", do: "POST /v3/deployments/$first/actions/cancel", want: 422,
			has: []string{"Cannot cancel a deployment with status: FINALIZED and reason: SUPERSEDED"}},
		{as: "dev", do: "GET /v3/processes/$app", want: 200, has: []string{`"instances":1`}},
		{as: "supporter", do: "POST /v3/deployments/$second/actions/cancel", want: 200},
		{as: "dev", do: "GET /v3/deployments/$second", want: 200, has: []string{`"value":"ACTIVE"`, `"reason":"CANCELING"`},
			not: []string{"/actions/"}},
		{as: "dev", do: "POST /v3/deployments/$second/actions/cancel", want: 200},
		{as: "dev", do: "GET /v3/apps/$app/relationships/current_droplet", want: 200, has: []string{"$d1"}},
		// On the way back stopping is allowed, and ends it.
		{as: "dev", do: "POST /v3/apps/$app/actions/stop", want: 200},
		{as: "dev", do: "GET /v3/deployments/$second", want: 200, has: []string{`"value":"FINALIZED"`,
			`"reason":"CANCELED"`}},

		// A stopped app is just started.
		{as: "dev", do: "POST /v3/deployments", body: deployBody(`,"droplet":{"guid":"$d2"},"options":{"memory_in_mb":99}`),
			want: 201, has: []string{`"value":"FINALIZED"`, `"reason":"DEPLOYED"`}},
		{as: "dev", do: "GET /v3/apps/$app", want: 200, has: []string{`"state":"STARTED"`}},
		{as: "dev", do: "GET /v3/processes/$app", want: 200, has: []string{`"memory_in_mb":99`}},
		{as: "dev", do: "GET /v3/audit_events?types=audit.app.deployment.create", want: 200,
			has: []string{`"total_results":3`}},
		{as: "dev", do: "GET /v3/audit_events?types=audit.app.deployment.cancel", want: 200,
			has: []string{`"total_results":1`}},
		{as: "dev", do: "GET /v3/audit_events?types=audit.app.deployment.finished", want: 200,
			has: []string{`"total_results":1`, `"reason":"DEPLOYED"`}},
	})
}

func TestCanaryDeployments(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.deployable()
	pause := func(_ platform.Tx, _ *platform.App, d *platform.Deployment) error {
		d.Reason = platform.ReasonPaused
		return nil
	}
	w.one(step{as: "dev", do: "POST /v3/deployments",
		body: deployBody(`,"strategy":"canary","options":{"canary":{"steps":[{"instance_weight":20},{"instance_weight":60}]}}`), want: 201,
		has: []string{`"canary":{"steps":{"current":1,"total":2}}`,
			`"canary":{"steps":[{"instance_weight":20},{"instance_weight":60}]}`}, save: "it"})
	w.turn("it", pause)
	w.one(step{as: "dev", do: "GET /v3/deployments/$it", want: 200, has: []string{`"reason":"PAUSED"`, "/actions/continue",
		"/actions/cancel"}})
	w.one(step{as: "supporter", do: "POST /v3/deployments/$it/actions/continue", want: 200})
	w.one(step{as: "dev", do: "GET /v3/deployments/$it", want: 200, has: []string{`"reason":"DEPLOYING"`, `"current":2`}})
	w.turn("it", pause)
	w.one(step{as: "dev", do: "POST /v3/deployments/$it/actions/continue", want: 200})
	w.one(step{as: "dev", do: "GET /v3/deployments/$it", want: 200, has: []string{`"reason":"DEPLOYING"`, `"current":2`}})
	w.one(step{as: "dev", do: "GET /v3/audit_events?types=audit.app.deployment.continue", want: 200,
		has: []string{`"total_results":2`}})
	w.one(step{as: "dev", do: "DELETE /v3/apps/$app", want: 202}) // nothing holds it
}

// TestProcessesWhileDeploying sees that the new version is a separate web process
// until it is the only one.
func TestProcessesWhileDeploying(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.deployable()
	running := func(name string) {
		t.Helper()
		err := w.store.Update(t.Context(), func(tx platform.Tx) error {
			process, err := tx.Processes().Get(w.vars[name])
			if err != nil {
				return err
			}
			return tx.Instances().Insert(&platform.Instance{AppGUID: w.vars["app"], ProcessGUID: process.GUID,
				Version: process.Version, State: platform.InstanceRunning, Ready: true})
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	running("app")
	a := w.one(step{as: "dev", do: "POST /v3/deployments", body: deployBody(`,"options":{"memory_in_mb":99}`), want: 201,
		not: []string{`"new_processes":[{"guid":"$app"`}, save: "it"})
	w.vars["fresh"], _ = a.at("new_processes.0.guid").(string)
	w.play([]step{
		{as: "auditor", do: "GET /v3/apps/$app/processes?types=web", want: 200, has: []string{`"total_results":2`,
			`"guid":"$app"`, `"guid":"$fresh"`}},
		{as: "auditor", do: "GET /v3/apps/$app/processes/web", want: 200, has: []string{`"guid":"$fresh"`,
			`"memory_in_mb":99`}},
		{as: "auditor", do: "GET /v3/processes/$app", want: 200, has: []string{`"memory_in_mb":1024`}},
		{as: "auditor", do: "GET /v3/processes/$app/stats", want: 200, has: []string{`"state":"RUNNING"`}},
		{as: "auditor", do: "GET /v3/processes/$fresh/stats", want: 200, has: []string{`"state":"DOWN"`}},
		{as: "dev", do: "GET /v3/apps/$app/manifest", want: 200, has: []string{"memory: 99M"},
			not: []string{"memory: 1G\n  instances: 1\n  disk_quota: 1G\n  log"}},
		{as: "dev", do: "POST /v3/processes/$fresh/actions/scale", body: `{"instances":5}`, want: 422,
			has: []string{"while a deployment is in flight"}},
	})
	running("fresh")
	w.turn("it", func(tx platform.Tx, app *platform.App, d *platform.Deployment) error {
		return actions.New().FinishDeployment(tx, app, d)
	})
	w.play([]step{
		{as: "auditor", do: "GET /v3/apps/$app/processes?types=web", want: 200, has: []string{`"total_results":1`,
			`"guid":"$fresh"`}},
		{as: "auditor", do: "GET /v3/processes/$app", want: 404, has: []string{"Process not found"}},
		{as: "auditor", do: "GET /v3/apps/$app/processes/web/stats", want: 200, has: []string{`"state":"RUNNING"`}},
		{as: "dev", do: "POST /v3/apps/$app/processes/web/actions/scale", body: `{"instances":2}`, want: 202,
			has: []string{`"guid":"$fresh"`}},
		{as: "dev", do: "GET /v3/apps/$app/env", want: 200, has: []string{`"process_id":"$fresh"`}},
	})
}

// Neither a request nor the past of an app grows without end.
func TestDeploymentsAreBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.deployable()
	steps := func(n int) string {
		all := strings.TrimSuffix(strings.Repeat(`{"instance_weight":7},`, n), ",")
		return deployBody(`,"strategy":"canary","options":{"canary":{"steps":[` + all + `]}}`)
	}
	w.one(step{as: "dev", do: "POST /v3/deployments", body: steps(101), want: 422,
		has: []string{"Options.canary.steps must have at most 100 steps, and has 101"}})
	w.one(step{as: "dev", do: "POST /v3/deployments", body: steps(100), want: 201, save: "first"})
	err := w.store.Update(t.Context(), func(tx platform.Tx) error {
		for range 98 {
			for _, app := range []string{"app", "app2"} {
				d := &platform.Deployment{
					AppGUID: w.vars[app], Strategy: platform.StrategyRolling, Status: platform.DeploymentFinalized,
					Reason:      platform.ReasonDeployed,
					MaxInFlight: 1, DropletGUID: w.vars["d1"], PreviousDropletGUID: w.vars["d1"], WebGUID: w.vars[app],
				}
				if err := tx.Deployments().Insert(d); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	w.play([]step{
		{as: "dev", do: "POST /v3/deployments", body: deployBody(``), want: 201, save: "second"},
		{as: "dev", do: "GET /v3/deployments/$first", want: 200},
		{as: "dev", do: "POST /v3/deployments", body: deployBody(``), want: 201, save: "third"},
		{as: "dev", do: "GET /v3/deployments/$first", want: 404}, // superseded long ago
		{as: "dev", do: "GET /v3/deployments/$second", want: 200},
		{as: "dev", do: "GET /v3/deployments/$third", want: 200},
		{as: "dev", do: "GET /v3/deployments?app_guids=$app", want: 200, has: []string{`"total_results":100`}},
		{do: "GET /v3/deployments?app_guids=$app2", want: 200, has: []string{`"total_results":98`}},
	})
}

// Who may not scale may not do so with a deployment either.
func TestDeploymentsScaleOnlyWithTheFlag(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.deployable()
	w.one(step{do: "PATCH /v3/feature_flags/app_scaling", body: `{"enabled":false}`, want: 200})
	for _, option := range []string{`"web_instances":3`, `"memory_in_mb":99`, `"disk_in_mb":99`,
		`"log_rate_limit_in_bytes_per_second":-1`} {
		w.one(step{as: "dev", do: "POST /v3/deployments", body: deployBody(`,"options":{` + option + `}`), want: 403,
			has: []string{"Feature Disabled: app_scaling"}})
	}
	w.one(step{as: "dev", do: "POST /v3/deployments",
		body: deployBody(`,"options":{"max_in_flight":2,"web_instances":null}`), want: 201})
	w.one(step{do: "POST /v3/deployments", body: deployBody(`,"options":{"web_instances":3}`), want: 201})
}

// A deployment needs the droplet before it for the way back, and its own.
func TestDeploymentKeepsItsDroplets(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.deployable()
	const used = "The droplet is used by a deployment of the app."
	w.play([]step{
		{as: "dev", do: "POST /v3/deployments", body: deployBody(`,"droplet":{"guid":"$d2"}`), want: 201, save: "it"},
		{as: "dev", do: "DELETE /v3/droplets/$d1", want: 422, has: []string{used}},
		{as: "dev", do: "DELETE /v3/droplets/$d2", want: 422, has: []string{"The droplet is currently used by an app."}},
		// The app may be given another one meanwhile.
		{as: "dev", do: "PATCH /v3/apps/$app/relationships/current_droplet", body: `{"data":{"guid":"$d1"}}`, want: 200},
		{as: "dev", do: "DELETE /v3/droplets/$d2", want: 422, has: []string{used}},
		{as: "dev", do: "POST /v3/deployments/$it/actions/cancel", want: 200},
		{as: "dev", do: "DELETE /v3/droplets/$d2", want: 422, has: []string{used}},
		{as: "dev", do: "POST /v3/apps/$app/actions/stop", want: 200}, // ends it
		{as: "dev", do: "DELETE /v3/droplets/$d2", want: 202},
	})
}

// Sidecars have to fit into the memory that comes with their droplet, and back
// again into what there was before.
func TestDeploymentsOfSidecars(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.deployable()
	err := w.store.Update(t.Context(), func(tx platform.Tx) error {
		for name, memory := range map[string]int{"d1": platform.DefaultMemoryMB / 2, "d2": 2 * platform.DefaultMemoryMB} {
			d, err := tx.Droplets().Get(w.vars[name])
			if err != nil {
				return err
			}
			d.Sidecars = []platform.DropletSidecar{{Name: name, Command: "aside", ProcessTypes: []string{"web"},
				MemoryMB: memory}}
			if err := tx.Droplets().Update(d); err != nil {
				return err
			}
		}
		w.vars["bare"] = w.vars["none"][:34] + "ba"
		return tx.Droplets().Insert(&platform.Droplet{Resource: platform.Resource{GUID: w.vars["bare"]},
			AppGUID: w.vars["app"], State: platform.DropletStaged})
	})
	if err != nil {
		t.Fatal(err)
	}
	const small = "not large enough to run all of your sidecar processes"
	w.play([]step{
		{as: "dev", do: "PATCH /v3/apps/$app/relationships/current_droplet", body: `{"data":{"guid":"$d1"}}`, want: 200},
		{as: "dev", do: "POST /v3/deployments", body: deployBody(`,"droplet":{"guid":"$d2"}`), want: 422,
			has: []string{small}},
		{as: "dev", do: "POST /v3/deployments", body: deployBody(`,"options":{"memory_in_mb":512}`), want: 422,
			has: []string{small}},
		// More memory for larger sidecars, and back.
		{as: "dev", do: "POST /v3/deployments", body: deployBody(`,"droplet":{"guid":"$d2"},"options":{"memory_in_mb":4096}`),
			want: 201, save: "larger"},
		{as: "dev", do: "POST /v3/deployments/$larger/actions/cancel", want: 200},
		{as: "dev", do: "GET /v3/processes/$app", want: 200, has: []string{`"memory_in_mb":1024`}},
		// Less memory without any, and back.
		{as: "dev", do: "POST /v3/deployments",
			body: deployBody(`,"droplet":{"guid":"$bare"},"options":{"memory_in_mb":100}`), want: 201, save: "smaller"},
		{as: "dev", do: "GET /v3/apps/$app/processes/web", want: 200, has: []string{`"memory_in_mb":100,`}},
		{as: "dev", do: "POST /v3/deployments/$smaller/actions/cancel", want: 200},
		{as: "dev", do: "GET /v3/processes/$app", want: 200, has: []string{`"memory_in_mb":1024`}},
		{as: "dev", do: "GET /v3/apps/$app/relationships/current_droplet", want: 200, has: []string{"$d1"}},
	})
}
