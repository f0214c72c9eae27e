package api_test

import (
	"slices"
	"strings"
	"testing"

	"ingot/internal/platform"
)

func TestAppScenarios(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	in := func(more string) string {
		return `{"name":"new","relationships":{"space":{"data":{"guid":"$space"}}}` + more + `}`
	}
	w.play([]step{
		{as: "dev", do: "POST /v3/apps",
			body: in(`,"environment_variables":{"A":"b"},"lifecycle":{"type":"buildpack","data":{"buildpacks":["go_buildpack"],"stack":"cflinuxfs4"}},"metadata":{"labels":{"k":"v"}}`), want: 201,
			has: []string{`"state":"STOPPED"`, `"buildpacks":["go_buildpack"]`, `"current_droplet":{"data":null}`},
			not: []string{`"A"`}, save: "new"},
		{as: "dev", do: "POST /v3/apps", body: in(``), want: 422, has: []string{"App with the name 'new' already exists.",
			`"code":10016`, "CF-UniquenessError"}},
		{do: "POST /v3/apps", body: `{"name":"x"}`, want: 422,
			has: []string{"Relationships 'relationships' must include 'space'"}},
		{do: "POST /v3/apps", body: `{"relationships":{"space":{"data":{"guid":"$space"}}}}`, want: 422,
			has: []string{"Name must be a string"}},
		{do: "POST /v3/apps", body: strings.Replace(in(``), "new", " ", 1), want: 422, has: []string{"Name can't be blank"}},
		{do: "POST /v3/apps", body: strings.Replace(in(``), "$space", "$none", 1), want: 422,
			has: []string{"Invalid space. Ensure that the space exists and you have access to it."}},
		{as: "dev", do: "POST /v3/apps", body: strings.Replace(in(``), "$space", "$space2", 1), want: 422,
			has: []string{"Invalid space"}},
		{do: "POST /v3/apps", body: strings.Replace(in(`,"environment_variables":{"A":5}`), "new", "n2", 1), want: 422,
			has: []string{"must be a string"}},
		{do: "POST /v3/apps", body: strings.Replace(in(`,"environment_variables":{"VCAP_A":"x","PORT":"1"}`), "new", "n2", 1),
			want: 422, has: []string{"VCAP_A", "PORT"}},
		{do: "POST /v3/apps", body: strings.Replace(in(`,"lifecycle":{"type":"buildpack","data":{"buildpacks":["nope"]}}`),
			"new", "n2", 1), want: 422,
			has: []string{"must be an existing admin buildpack or a valid git URI. Existing buildpacks: go_buildpack"}},
		{do: "POST /v3/apps", body: strings.Replace(
			in(`,"lifecycle":{"type":"buildpack","data":{"buildpacks":["go_buildpak"]}}`), "new", "n2", 1), want: 422,
			has: []string{`(did you mean \"go_buildpack\"?)`}},
		{do: "POST /v3/apps", body: strings.Replace(in(`,"lifecycle":{"type":"buildpack","data":{"stack":"nope"}}`), "new",
			"n2", 1), want: 422, has: []string{"Stack must be an existing stack"}},
		{do: "POST /v3/apps", body: strings.Replace(in(`,"lifecycle":{"type":"cnb","data":{}}`), "new", "n2", 1), want: 422,
			has: []string{"not supported"}},

		{as: "dev", do: "PATCH /v3/apps/$new",
			body: `{"name":"newer","lifecycle":{"type":"buildpack","data":{"buildpacks":null}}}`, want: 200,
			has: []string{"newer", `"buildpacks":[]`}},
		{as: "dev", do: "PATCH /v3/apps/$new", body: `{"name":"app"}`, want: 422,
			has: []string{"App with the name 'app' already exists.", `"code":10016`, "CF-UniquenessError"}},
		{as: "dev", do: "PATCH /v3/apps/$new", body: `{"lifecycle":{"type":"docker"}}`, want: 422,
			has: []string{"Lifecycle type cannot be changed"}},
		{as: "dev", do: "PATCH /v3/apps/$new", body: `{"environment_variables":{}}`, want: 422,
			has: []string{"Unknown field(s)"}},
		{as: "supporter", do: "PATCH /v3/apps/$new", body: `{"name":"x"}`, want: 403},
		{as: "dev", do: "POST /v3/apps/$new/actions/start", want: 422,
			has: []string{"Assign a droplet before starting this app."}},
		{as: "dev", do: "POST /v3/apps/$new/actions/restart", want: 422,
			has: []string{"Assign a droplet before starting this app."}},
		{as: "supporter", do: "POST /v3/apps/$new/actions/stop", want: 200, has: []string{`"state":"STOPPED"`}},

		{as: "dev", do: "PATCH /v3/apps/$new/environment_variables", body: `{"var":{"A":null,"C":"d"}}`, want: 200,
			has: []string{`"var":{"C":"d"}`}},
		{as: "dev", do: "PATCH /v3/apps/$new/environment_variables", body: `{"var":{"C":5}}`, want: 422,
			has: []string{"must be a string"}},
		{as: "dev", do: "PATCH /v3/apps/$new/environment_variables", body: `{}`, want: 422,
			has: []string{"Var must be an object"}},
		{as: "dev", do: "PATCH /v3/apps/$new/environment_variables", body: `{"var":{"VMC_X":"1"}}`, want: 422,
			has: []string{"VMC"}},
		{as: "dev", do: "PATCH /v3/apps/$new/environment_variables", body: `{"var":{"":"1"}}`, want: 422},
		{as: "dev", do: "PATCH /v3/apps/$new/environment_variables", body: `{"var":{"A=B":"1"}}`, want: 422},
		{as: "dev", do: "GET /v3/apps/$app/env", want: 200, has: []string{"hunter2", "VCAP_APPLICATION", "VCAP_SERVICES",
			`"running_env_json":{}`}},
		{as: "supporter", do: "GET /v3/apps/$app/env", want: 200,
			has: []string{"hunter2", `"system_env_json":{"redacted_message"`}},
		{as: "auditor", do: "GET /v3/apps/$app/env", want: 403, not: []string{"hunter2"}},
		{as: "orgmanager", do: "GET /v3/apps/$app/environment_variables", want: 403, not: []string{"hunter2"}},
		{as: "auditor", do: "GET /v3/apps/$app", want: 200, not: []string{"hunter2"}},
		{as: "dev", do: "GET /v3/apps/$app/manifest", want: 200, has: []string{"hunter2"}},
		{as: "supporter", do: "GET /v3/apps/$app/manifest", want: 403, not: []string{"hunter2"}},
		{as: "auditor", do: "GET /v3/apps/$app/manifest", want: 403, not: []string{"hunter2"}},

		{as: "auditor", do: "GET /v3/apps/$app/permissions", want: 200, has: []string{`"read_basic_data":true`,
			`"read_sensitive_data":false`}},
		{as: "dev", do: "GET /v3/apps/$app/permissions", want: 200, has: []string{`"read_sensitive_data":true`}},
		{as: "dev", do: "GET /v3/apps/$app/features", want: 200, has: []string{`"ssh"`, `"revisions"`}},
		{as: "dev", do: "PATCH /v3/apps/$app/features/ssh", body: `{"enabled":false}`, want: 200,
			has: []string{`"enabled":false`}},
		{as: "dev", do: "GET /v3/apps/$app/features/revisions", want: 200, has: []string{`"enabled":true`}},
		{as: "dev", do: "PATCH /v3/apps/$app/features/revisions", body: `{"enabled":false}`, want: 200,
			has: []string{`"enabled":false`}},
		{as: "dev", do: "PATCH /v3/apps/$app/features/revisions", body: `{"enabled":true}`, want: 200,
			has: []string{`"enabled":true`}},
		{as: "dev", do: "PATCH /v3/apps/$app/features/nonsense", body: `{"enabled":false}`, want: 404,
			has: []string{"Feature not found"}},
		{as: "dev", do: "PATCH /v3/apps/$app/features/ssh", body: `{"enabled":null}`, want: 422,
			has: []string{"Enabled must be a boolean"}},
		{as: "dev", do: "GET /v3/apps/$app/ssh_enabled", want: 200, has: []string{`"enabled":false`, "Disabled globally"}},

		{as: "dev", do: "GET /v3/apps?include=org&names=app", want: 200, has: []string{`"included":{"organizations":[`},
			not: []string{`"spaces":[`}},
		{as: "dev", do: "GET /v3/apps/$app?include=space", want: 200, has: []string{`"included":{"spaces":[`},
			not: []string{`"organizations":[`}},
		{as: "dev", do: "GET /v3/apps?include=space.organization", want: 200,
			has: []string{`"spaces":[`, `"organizations":[`}, not: []string{"$space2"}},
		{as: "dev", do: "GET /v3/apps?stacks=cflinuxfs4&lifecycle_type=buildpack&order_by=-name", want: 200,
			has: []string{`"total_results":2`}},
		{as: "dev", do: "GET /v3/stacks?names=cflinuxfs4", want: 200, save: "stack"},
		{as: "dev", do: "GET /v3/stacks/$stack/apps", want: 200, has: []string{"$app"}, not: []string{"$app2"}},
		{as: "dev", do: "DELETE /v3/apps/$app2", want: 404, has: []string{"App not found"}},
		{as: "auditor", do: "DELETE /v3/apps/$app", want: 403},
	})
	if job := w.job(step{as: "dev", do: "DELETE /v3/apps/$new", want: 202}); job.at("operation") != "app.delete" ||
		job.at("state") != "COMPLETE" {
		t.Errorf("job %s", job.body)
	}
	w.one(step{do: "GET /v3/processes/$new", want: 404, has: []string{"Process not found"}})
}

func TestProcessScenarios(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	patch := func(body string, want int, has ...string) step {
		return step{as: "dev", do: "PATCH /v3/processes/$app", body: body, want: want, has: has}
	}
	scale := func(body string, want int, has ...string) step {
		return step{as: "dev", do: "POST /v3/apps/$app/processes/web/actions/scale", body: body, want: want, has: has}
	}
	w.play([]step{
		patch(`{"command":"./run --key hunter2"}`, 200, "./run --key hunter2"),
		patch(`{"command":"quote \" slash \/ \u00fc \ud83d\ude00"}`, 200, `quote \" slash / ü 😀`),
		patch(`{"command":""}`, 422, "Command must be between 1 and 4096 characters"),
		patch(`{"command":"`+strings.Repeat("x", 4097)+`"}`, 422, "Command must be between 1 and 4096 characters"),
		patch(`{"command":5}`, 422, "command must be a string"),
		patch(`{"command":null}`, 200, `"command":null`),
		patch(`{"command":"./secret"}`, 200),
		patch(`{"health_check":{"type":"http","data":{"endpoint":"/health","timeout":60,"invocation_timeout":5,"interval":3}}}`, 200, `"endpoint":"/health"`, `"timeout":60`, `"invocation_timeout":5`, `"interval":3`),
		patch(`{"health_check":{"type":"http"}}`, 200, `"endpoint":"/health"`),
		patch(`{"health_check":{"type":"process"}}`, 200, `"type":"process"`),
		patch(`{"health_check":{"type":"port","data":{"endpoint":"/x"}}}`, 422,
			`must be "http" to set a health check endpoint`),
		patch(`{"health_check":{"type":"magic"}}`, 422, `Health check type must be "port", "process", or "http"`),
		patch(`{"health_check":{"type":"http","data":{"endpoint":"no slash"}}}`, 422, "valid URI path"),
		patch(`{"health_check":{"data":{"timeout":0}}}`, 422, "greater than or equal to 1"),
		patch(`{"health_check":{"data":{"timeout":"5s"}}}`, 422, "must be a number"),
		patch(`{"health_check":{"data":{"timeout":"5","interval":7}}}`, 200, `"timeout":5`, `"interval":7`),
		patch(`{"health_check":{"data":{"timeout":null}}}`, 200, `"timeout":null`, `"interval":7`),
		// Data without a type is kept, and counts once the type is given.
		patch(`{"health_check":{"data":{"endpoint":"no slash"}}}`, 422, "valid URI path"),
		patch(`{"health_check":{"data":{"endpoint":"/kept","unknown":1},"links":{}}}`, 200, `"type":"process"`),
		patch(`{"health_check":{"type":"http"}}`, 200, `"endpoint":"/kept"`),
		patch(`{"health_check":{"type":"process"}}`, 200, `"type":"process"`),
		patch(`{"readiness_health_check":{"type":"http","data":{"endpoint":"/ready","invocation_timeout":2}}}`, 200,
			`"endpoint":"/ready"`),
		patch(`{"readiness_health_check":{"type":"process"}}`, 200),
		patch(`{"user":"someone"}`, 200, `"user":"someone"`),
		patch(`{"user":null}`, 200, `"user":null`),
		patch(`{"metadata":{"labels":{"k":"v"}}}`, 200, `"k":"v"`),
		patch(`{"instances":2}`, 422, "Unknown field(s): 'instances'"),
		{as: "supporter", do: "PATCH /v3/apps/$app/processes/web", body: `{"command":"evil"}`, want: 403},
		{as: "auditor", do: "GET /v3/processes/$app", want: 200, has: []string{"[PRIVATE DATA HIDDEN]"},
			not: []string{"./secret"}},
		{as: "dev", do: "GET /v3/apps/$app/processes/web", want: 200, has: []string{"./secret"}},
		{as: "dev", do: "GET /v3/processes?types=web&app_guids=$app", want: 200,
			has: []string{"[PRIVATE DATA HIDDEN IN LISTS]"}, not: []string{"./secret"}},
		{as: "dev", do: "GET /v3/processes?label_selector=k=v&organization_guids=$org", want: 200,
			has: []string{`"total_results":1`}},
		{as: "dev", do: "GET /v3/audit_events?target_guids=$app&types=audit.app.process.update", want: 200,
			not: []string{"./secret", "hunter2"}},

		scale(`{"instances":0}`, 202, `"instances":0`),
		scale(`{"instances":10000}`, 202),
		scale(`{"instances":10001}`, 422, "Instances must be"),
		scale(`{"instances":-1}`, 422, "Instances must be greater than or equal to 0"),
		scale(`{"instances":1.5}`, 422, "must be a number"),
		scale(`{"instances":"4","memory_in_mb":"256","disk_in_mb":"512","log_rate_limit_in_bytes_per_second":"-1"}`, 202,
			`"instances":4`, `"memory_in_mb":256`, `"disk_in_mb":512`, `"log_rate_limit_in_bytes_per_second":-1`),
		scale(`{"instances":"two"}`, 422, "instances must be a number, not string"),
		scale(`{"instances":""}`, 422, "must be a number"),
		scale(`{"instances":" 2"}`, 422, "must be a number"),
		scale(`{"instances":"2.0"}`, 422, "must be a number"),
		scale(`{"instances":"0x2"}`, 422, "must be a number"),
		scale(`{"instances":"99999999999999999999"}`, 422, "must be a number"),
		scale(`{"instances":["2"]}`, 422, "must be a number"),
		scale(`{"instances":true}`, 422, "must be a number"),
		scale(`{"memory_in_mb":"256M"}`, 422, "memory_in_mb must be a number"),
		scale(`{"memory_in_mb":"0"}`, 422, "Memory in mb must be greater than 0"),
		scale(`{"memory_in_mb":0}`, 422, "Memory in mb must be greater than 0"),
		scale(`{"memory_in_mb":99999999999}`, 422, "Memory in mb"),
		scale(`{"disk_in_mb":-5}`, 422, "Disk in mb must be greater than 0"),
		scale(`{"log_rate_limit_in_bytes_per_second":-2}`, 422, "greater than or equal to -1"),
		scale(`{"log_rate_limit_in_bytes_per_second":-1,"memory_in_mb":256,"disk_in_mb":512,"instances":1}`, 202,
			`"memory_in_mb":256`, `"disk_in_mb":512`),
		scale(`{}`, 202),
		{as: "supporter", do: "POST /v3/processes/$app/actions/scale", body: `{"instances":1}`, want: 202},
		{as: "auditor", do: "POST /v3/processes/$app/actions/scale", body: `{"instances":1}`, want: 403},
		// A stopped app has a row for each instance that it would have.
		{as: "dev", do: "GET /v3/processes/$app/stats", want: 200, has: []string{`"resources":[{`, `"index":0`,
			`"state":"DOWN"`}},
		{as: "dev", do: "GET /v3/processes/$app?embed=process_instances", want: 200,
			has: []string{`"process_instances":[{"index":0,"state":"DOWN"`, "./secret"}, not: []string{`"since":0`}},
		{as: "dev", do: "GET /v3/apps/$app/processes/web?embed=process_instances", want: 200,
			has: []string{`"process_instances":[{"index":0,"state":"DOWN"`}, not: []string{`"since":0`}},
		{as: "dev", do: "GET /v3/apps/$app/processes?embed=process_instances", want: 200,
			has: []string{`"process_instances":[{"index":0,"state":"DOWN"`}, not: []string{`"since":0`}},
		{as: "dev", do: "GET /v3/processes/$app", want: 200, not: []string{`"process_instances":[`}},
		{as: "dev", do: "GET /v3/processes/$app?embed=everything", want: 400,
			has: []string{"Invalid embedded resource: 'everything'. Valid embedded resources are: 'process_instances'"}},
		{as: "dev", do: "GET /v3/processes?embed=everything", want: 400},
		{as: "dev", do: "GET /v3/app_summaries", want: 200, has: []string{`"guid":"$app"`, `"space_guid":"$space"`,
			`"state":"STOPPED"`, `"instances":{"desired":0,"running":0,"crashed":0}`}, not: []string{"secret", `"metadata"`}},
		{as: "auditor", do: "GET /v3/app_summaries?order_by=-name&per_page=1", want: 200,
			has: []string{`"guid":"$app"`, `"total_results":1`}},
		{as: "stranger", do: "GET /v3/app_summaries", want: 200, has: []string{`"total_results":0`}},
		{as: "dev", do: "GET /v3/app_summaries?include=space", want: 400},
		{as: "dev", do: "GET /v3/processes/$app/process_instances", want: 200,
			has: []string{`"resources":[{"index":0,"state":"DOWN"`}, not: []string{`"since":0`}},
		{as: "dev", do: "PATCH /v3/processes/$app", body: `{"min_healthy_time":0}`, want: 200,
			has: []string{`"min_healthy_time":0`}},
		{as: "dev", do: "PATCH /v3/processes/$app", body: `{"min_healthy_time":-1}`, want: 422,
			has: []string{"Min healthy time must be between 0 and 3600 seconds"}},
		{as: "dev", do: "GET /v3/apps/$app/manifest", want: 200, has: []string{"min-healthy-time: 0"}},
		{as: "dev", do: "PATCH /v3/processes/$app", body: `{"min_healthy_time":null}`, want: 200,
			not: []string{"min_healthy_time"}},
		{as: "dev", do: "DELETE /v3/processes/$app/instances/0", want: 204},
		{as: "auditor", do: "DELETE /v3/processes/$app/instances/0", want: 403},
	})
}

func TestSidecarScenarios(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	create := func(body string, want int, has ...string) step {
		return step{as: "dev", do: "POST /v3/apps/$app/sidecars", body: body, want: want, has: has}
	}
	patch := func(body string, want int, has ...string) step {
		return step{as: "dev", do: "PATCH /v3/sidecars/$one", body: body, want: want, has: has}
	}
	one := create(`{"name":"config server","command":"./c","process_types":["worker","web"],"memory_in_mb":300}`, 201,
		`"process_types":["web","worker"]`, `"origin":"user"`, `"memory_in_mb":300`)
	one.save = "one"
	w.play([]step{
		one,
		create(`{"name":"config server","command":"./c","process_types":["web"]}`, 422, "already exists for given app"),
		create(`{}`, 422, "Name can't be blank", "Command can't be blank", "Process types must have at least 1 process_type"),
		create(`{"name":"x","command":"y","process_types":[]}`, 422, "at least 1 process_type"),
		create(`{"name":"x","command":"y","process_types":[""]}`, 422, "Process types"),
		create(`{"name":"x","command":"y","process_types":["web","web"]}`, 422, "duplicates"),
		create(`{"name":"x","command":"y","process_types":"web"}`, 422, "process_types must be a list"),
		create(`{"name":5,"command":"y","process_types":["web"]}`, 422, "name must be a string"),
		create(`{"name":"`+strings.Repeat("n", 256)+`","command":"y","process_types":["web"]}`, 422, "Name is too long"),
		create(`{"name":"x","command":"`+strings.Repeat("n", 4097)+`","process_types":["web"]}`, 422, "Command is too long"),
		create(`{"name":"x","command":"y","process_types":["web"],"memory_in_mb":0}`, 422,
			"Memory in mb must be greater than 0"),
		create(`{"name":"x","command":"y","process_types":["web"],"memory_in_mb":-1}`, 422,
			"Memory in mb must be greater than 0"),
		create(`{"name":"x","command":"y","process_types":["web"],"memory_in_mb":"256M"}`, 422,
			"memory_in_mb must be a number"),
		create(`{"name":"x","command":"y","process_types":["web"],"origin":"buildpack"}`, 422, "Unknown field(s): 'origin'"),
		create(`{"name":"x","command":"y","process_types":["web"],"memory_in_mb":724}`, 422,
			`too large to run with the dependent "web" process`),
		create(`{"name":"x","command":"y","process_types":["web"],"memory_in_mb":723}`, 201, `"memory_in_mb":723`),
		create(`{"name":"no memory","command":"y","process_types":["web"],"memory_in_mb":null}`, 201, `"memory_in_mb":null`),
		// Options, which Cloud Foundry does not have.
		create(`{"name":"o","command":"y","process_types":["web"],"options":{"restart":"always","ports":[9090],"health_check":{"type":"http","endpoint":"/h"},"env":{"TOKEN":"secret"},"stop_after":["main"],"stop_signal":"SIGINT","stop_grace":3}}`, 201,
			`"restart":"always"`, `"ports":[9090]`, `"endpoint":"/h"`, `"TOKEN":"[PRIVATE DATA HIDDEN]"`,
			`"stop_after":["main"]`),
		create(`{"name":"p","command":"y","process_types":["web"],"options":{"depends_on":["o","main"]}}`, 201,
			`"depends_on":["o","main"]`),
		create(`{"name":"q","command":"y","process_types":["web"],"options":{"depends_on":["nobody"]}}`, 422,
			`waits for \"nobody\", which is neither a sidecar of the app nor \"main\"`),
		create(`{"name":"q","command":"y","process_types":["web"],"options":{"depends_on":["q"]}}`, 422, "waits for itself"),
		create(`{"name":"q","command":"y","process_types":["web"],"options":{"depends_on":["p"],"before_main":true}}`, 422,
			"Sidecars wait for each other to start: main → q → p → main"),
		create(`{"name":"q","command":"y","process_types":["web"],"options":{"restart":"sometimes","stop_signal":"SIGSTOP","stop_grace":9,"ports":[0],"env":{"VCAP_X":"1"}}}`, 422,
			"Restart must be one of never, on-failure, always", "Stop signal must be one of",
			"Stop grace must be between 1 and 8 seconds", "Ports must be", "Env cannot start with VCAP_"),
		create(`{"name":"q","command":"y","process_types":["web"],"options":{"health_check":{"type":"port"}}}`, 422,
			"needs the ports of the sidecar"),
		create(`{"name":"q","command":"y","process_types":["web"],"memory_in_mb":1023,"options":{"memory_enforced":true}}`,
			422,
			`too large to run with the dependent \"web\" process (the process has 1024M, and its sidecars get `, "q 1023M"),
		create(`{"name":"q","command":"y","process_types":["web"],"options":{"memory_enforced":true}}`, 422,
			"Memory enforced needs the memory of the sidecar"),
		create(`{"name":"q","command":"y","process_types":["web"],"options":{"cpu_weight":10001}}`, 422,
			"Cpu weight must be between 1 and 10000"),
		create(`{"name":"q","command":"y","process_types":["worker"],"memory_in_mb":8,"options":{"memory_enforced":true,"cpu_weight":20}}`, 201, `"memory_enforced":true`, `"cpu_weight":20`),
		create(`{"name":"q","command":"y","process_types":["web"],"options":{"unknown":1}}`, 422,
			"Unknown field(s): 'unknown'"),
		// Of a type that does not exist yet anything goes; the type must fit then.
		create(`{"name":"big","command":"y","process_types":["later"],"memory_in_mb":5000}`, 201),
		{as: "dev", do: "POST /v3/processes/$app/actions/scale", body: `{"memory_in_mb":1023}`, want: 422,
			has: []string{"not large enough to run all of your sidecar processes"}},
		{as: "dev", do: "POST /v3/processes/$app/actions/scale", body: `{"memory_in_mb":1024}`, want: 202},
		patch(`{"memory_in_mb":301}`, 422, "too large to run with the dependent"),
		patch(`{"memory_in_mb":null}`, 200, `"memory_in_mb":null`),
		patch(`{"memory_in_mb":300}`, 200, `"memory_in_mb":300`),
		patch(`{"command":"./other"}`, 200, "./other", `"memory_in_mb":300`),
		patch(`{"process_types":["worker"]}`, 200, `"process_types":["worker"]`),
		patch(`{"memory_in_mb":500}`, 200),
		patch(`{"process_types":["web"]}`, 422, "too large to run with the dependent"),
		patch(`{"process_types":[]}`, 422, "at least 1 process_type"),
		patch(`{"name":"x"}`, 422, "already exists for given app"),
		patch(`{"name":""}`, 422, "Name can't be blank"),
		{as: "dev", do: "GET /v3/processes/$app/sidecars", want: 200, has: []string{`"no memory"`},
			not: []string{"config server", `"big"`}},
		{as: "auditor", do: "GET /v3/apps/$app/sidecars?per_page=2", want: 200, has: []string{`"total_results":7`,
			`"total_pages":4`}},
		{as: "auditor", do: "GET /v3/sidecars/$one", want: 200},
		{as: "auditor", do: "PATCH /v3/sidecars/$one", body: `{}`, want: 403},
		{as: "supporter", do: "DELETE /v3/sidecars/$one", want: 403},
		{as: "member", do: "GET /v3/sidecars/$one", want: 404, has: []string{"Sidecar not found"}},
		{as: "dev", do: "POST /v3/apps/$none/sidecars", body: `{"name":"x","command":"y","process_types":["web"]}`, want: 404,
			has: []string{"App not found"}},
		{do: "GET /v3/processes/$none/sidecars", want: 404, has: []string{"Process not found"}},
		{as: "dev", do: "DELETE /v3/sidecars/$one", want: 204},
		{as: "dev", do: "DELETE /v3/sidecars/$one", want: 404, has: []string{"Sidecar not found"}},
	})
	// A droplet that brings the type, or sidecars of its own.
	d := w.droplet(w.vars["app"], &platform.Droplet{ProcessTypes: map[string]string{"later": "./x"}})
	w.one(step{as: "dev", do: "PATCH /v3/apps/$app/relationships/current_droplet", body: `{"data":{"guid":"` + d + `"}}`,
		want: 422, has: []string{"not large enough"}})
	d = w.droplet(w.vars["app"], &platform.Droplet{Sidecars: []platform.DropletSidecar{{Name: "bp", Command: "./b",
		ProcessTypes: []string{"web"}, MemoryMB: 301}}})
	w.one(step{as: "dev", do: "PATCH /v3/apps/$app/relationships/current_droplet", body: `{"data":{"guid":"` + d + `"}}`,
		want: 422, has: []string{"not large enough"}})
	d = w.droplet(w.vars["app"], &platform.Droplet{Sidecars: []platform.DropletSidecar{{Name: "x", Command: "./b",
		ProcessTypes: []string{"web"}}}})
	w.one(step{as: "dev", do: "PATCH /v3/apps/$app/relationships/current_droplet", body: `{"data":{"guid":"` + d +
		`"}}`, want: 200})
}

// droplet stores a staged droplet of an app.
func (f *fixture) droplet(app string, d *platform.Droplet) string {
	f.t.Helper()
	d.AppGUID, d.State = app, platform.DropletStaged
	if d.Container == nil {
		d.Lifecycle, d.Checksum, d.ExecutionMetadata = platform.LifecycleBuildpack, "abc", "{}"
	}
	if d.ProcessTypes == nil {
		d.ProcessTypes = map[string]string{"web": "./secret-command"}
	}
	if err := f.store.Update(f.t.Context(),
		func(tx platform.Tx) error { d.Resource = platform.Resource{}; return tx.Droplets().Insert(d) }); err != nil {
		f.t.Fatal(err)
	}
	return d.GUID
}

func TestAuditEventScenarios(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.play([]step{
		{as: "dev", do: "PATCH /v3/apps/$app/environment_variables", body: `{"var":{"PASSWORD":"hunter3"}}`, want: 200},
		{as: "dev", do: "GET /v3/audit_events?target_guids=$app&order_by=-created_at", want: 200,
			has: []string{"audit.app.create", "audit.app.update", `"name":"dev"`, "PASSWORD"},
			not: []string{"hunter3", "hunter2"}, save: "event"},
		{as: "dev", do: "GET /v3/audit_events/$event", want: 200, has: []string{`"space":{"guid":"$space"}`,
			`"organization":{"guid":"$org"}`}},
		{as: "orgauditor", do: "GET /v3/audit_events?organization_guids=$org&types=audit.user.space_developer_add", want: 200,
			has: []string{`"guid":"$space"`}},
		{as: "dev", do: "GET /v3/audit_events?space_guids=$space2", want: 200, has: []string{`"resources":[]`}},
		{as: "member", do: "GET /v3/audit_events", want: 200, has: []string{`"resources":[]`}},
		{as: "member", do: "GET /v3/audit_events/$event", want: 404, has: []string{"Event not found"}},
		{as: "stranger", do: "GET /v3/audit_events/$event", want: 404},
		{as: "auditor", do: "GET /v3/audit_events/$event", want: 200},
		{as: "supporter", do: "GET /v3/audit_events/$event", want: 200},
		{as: "orgauditor", do: "GET /v3/audit_events/$event", want: 200},
		{as: "manager", do: "GET /v3/audit_events/$event", want: 404},
		{as: "orgmanager", do: "GET /v3/audit_events/$event", want: 404},
		{do: "GET /v3/audit_events?label_selector=a", want: 400},
	})
	if got := names(w.call(w.admin(), "GET", "/v3/audit_events?created_ats[gt]=2999-01-01T00:00:00Z",
		nil)); !slices.Equal(got, nil) {
		t.Errorf("events of the future: %v", got)
	}
}
