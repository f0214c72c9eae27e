package cli_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// fake is an API with one org, one space, one app and one service instance and fixed responses: these tests cover what
// the client makes of them. The tests in e2e run the client against a real platform.
type fake struct {
	*httptest.Server
	// tail answers a live tail; nil means the platform has none.
	tail   http.HandlerFunc
	mu     sync.Mutex
	bodies map[string]string // the last body of a call, by method and path
	calls  []string
	// deploying is the guid of the active deployment.
	deploying string
	// droplet is the guid of the app's droplet (default: droplet-guid).
	droplet string
	// instead overrides the responses to some calls.
	instead map[string]func(*http.Request) (int, any)
	// headers are warnings of the notification service, by call.
	headers map[string]string
}

const (
	guidOrg, guidSpace, guidApp = "org-guid", "space-guid", "app-guid"
	stamp                       = "2026-01-02T03:04:05Z"
)

type object = map[string]any

func list(items ...any) object {
	if items == nil {
		items = []any{}
	}
	return object{"pagination": object{"next": nil}, "resources": items}
}

func to(guid string) object { return object{"data": object{"guid": guid}} }

// token returns an unsigned token with the given claims.
func token(claims object) string {
	body, _ := json.Marshal(claims)
	return "e30." + base64.RawURLEncoding.EncodeToString(body) + ".sig"
}

func userToken(lives time.Duration) string {
	return token(object{"user_name": "admin", "user_id": "user-guid", "origin": "uaa", "client_id": "cf",
		"exp": time.Now().Add(lives).Unix()})
}

func newFake(t *testing.T) *fake {
	t.Helper()
	f := &fake{bodies: map[string]string{}, instead: map[string]func(*http.Request) (int, any){}}
	f.Server = httptest.NewServer(f)
	t.Cleanup(f.Close)
	return f
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	call := r.Method + " " + r.URL.Path
	f.mu.Lock()
	f.bodies[call] = string(body)
	f.calls = append(f.calls, call)
	f.mu.Unlock()
	if f.tail != nil && call == "GET /api/v1/tail/"+guidApp {
		f.tail(w, r)
		return
	}
	status, answer := f.answer(call, r)
	if other := f.instead[call]; other != nil {
		status, answer = other(r)
	}
	if f.droplet != "" {
		switch call {
		case "GET /v3/apps/app-guid/droplets/current":
			status, answer = 200, object{"guid": f.droplet}
		case "GET /v3/droplets/" + f.droplet + "/download":
			status, answer = 200, rawFile("\x1f\x8bdroplet")
		}
	}
	if _, job := jobs[call]; job {
		w.Header().Set("Location", f.URL+"/v3/jobs/done")
		status = http.StatusAccepted
	}
	if call == "POST /v3/service_instances" {
		w.Header().Set("X-Cf-Warnings", "the+plan+is+nearly+used+up")
		w.Header().Set("Location", f.URL+"/v3/jobs/polling")
		status = http.StatusAccepted
	}
	if call == "GET /oauth/authorize" {
		w.Header().Set("Location", "https://client.test/?code=one-time")
		status = http.StatusFound
	}
	if warning := f.headers[call]; warning != "" {
		w.Header().Set("X-Notifications-Warnings", warning)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if file, ok := answer.(rawFile); ok {
		_, _ = io.WriteString(w, string(file))
	} else if answer != nil {
		_ = json.NewEncoder(w).Encode(answer)
	}
}

var jobs = map[string]bool{
	"POST /v3/spaces/space-guid/actions/apply_manifest": true, "DELETE /v3/apps/app-guid": true,
	"DELETE /v3/routes/route-guid":         true,
	"DELETE /v3/service_instances/si-guid": true, "POST /v3/service_credential_bindings": true,
	"DELETE /v3/service_credential_bindings/binding-guid": true,
	"POST /v3/ingot/service_instances/si-guid/rotate":     true,
}

// one returns a list with one item, filtered by name.
func one(r *http.Request, item object) any {
	for _, key := range []string{"names", "usernames"} {
		if asked := r.URL.Query()[key]; len(asked) > 0 && asked[0] != item["name"] {
			return list()
		}
	}
	return list(item)
}

func refusal(status, code int, title, detail string) (int, any) {
	return status, object{"errors": []any{object{"code": code, "title": title, "detail": detail}}}
}

func (f *fake) answer(call string, r *http.Request) (int, any) {
	if status, body := browsersAnswer(call); status != 0 {
		return status, body
	}
	if status, body := providersAnswer(call); status != 0 {
		return status, body
	}
	app := object{
		"guid": guidApp, "name": "shop", "state": "STARTED", "created_at": stamp, "lifecycle": object{"type": "buildpack"},
		"metadata": object{"labels": object{"team": "blue", "tier": "1"}}, "relationships": object{"space": to(guidSpace)},
	}
	process := object{
		"guid": guidApp, "type": "web", "command": "./shop", "instances": 2,
		"health_check":           object{"type": "http", "data": object{"endpoint": "/health", "invocation_timeout": 5}},
		"readiness_health_check": object{"type": "process", "data": object{}}, "memory_in_mb": 64, "disk_in_mb": 1024,
		"process_instances": []any{object{"index": 0, "state": "RUNNING"}, object{"index": 1, "state": "CRASHED"}},
		"relationships":     object{"app": to(guidApp)},
	}
	worker := object{"guid": "worker-guid", "type": "worker", "command": "./work", "instances": 0,
		"health_check": object{"type": "process"}, "readiness_health_check": object{"type": "process"}, "memory_in_mb": 32,
		"relationships": object{"app": to(guidApp)}}
	stats := list(
		object{"index": 0, "state": "RUNNING", "uptime": 60, "mem_quota": 64 << 20, "disk_quota": 1 << 30,
			"usage": object{"cpu": 0.015, "mem": 12 << 20, "disk": 8 << 20},
			"members": []any{
				object{"name": "web", "type": "process", "state": "RUNNING", "since": stamp, "cpu": 0.005, "mem": 8 << 20,
					"mem_quota": nil, "restarts": 0, "last_exit": nil},
				object{"name": "config server", "type": "sidecar", "state": "RUNNING", "since": stamp, "cpu": 0.01, "mem": 4 << 20,
					"mem_quota": 16 << 20, "restarts": 2,
					"last_exit": object{"status": 137, "reason": "out of memory: sidecar config server exceeded its limit of 16M",
						"time": "2026-01-02T03:04:05Z"}},
			},
			"router": object{
				"requests": 1234, "active": 2, "status": object{"2xx": 1200, "4xx": 30, "5xx": 4}, "bytes_received": 0,
				"bytes_sent": 5 << 20,
				"latency_ms": object{"mean": 3.25, "p50": 2.5, "p95": 10, "p99": 25},
			}},
		object{"index": 1, "state": "CRASHED", "mem_quota": 64 << 20, "disk_quota": 1 << 30, "usage": object{},
			"details": "exit status 7"})
	route := object{
		"guid": "route-guid", "url": "shop.apps.test", "host": "shop", "protocol": "http",
		"relationships": object{"domain": to("domain-guid"), "space": to(guidSpace)},
		"destinations": []any{object{"guid": "dest-guid", "app": object{"guid": guidApp, "process": object{"type": "web"}},
			"port": 8080}},
	}
	plan := object{
		"guid": "plan-guid", "name": "small", "description": "a small one", "free": false, "available": true,
		"visibility_type": "organization", "relationships": object{"service_offering": to("offering-guid")},
	}
	offering := object{"guid": "offering-guid", "name": "postgres", "description": "a database",
		"relationships": object{"service_broker": to("broker-guid")}}
	broker := object{"guid": "broker-guid", "name": "local"}
	with := func(l any, included object) any {
		if m, ok := l.(object); ok {
			m["included"] = included
		}
		return l
	}
	everything := object{"service_plans": []any{plan}, "service_offerings": []any{offering},
		"service_brokers": []any{broker}}
	instance := object{
		"guid": "si-guid", "name": "db", "type": "managed", "tags": []string{"sql"}, "created_at": stamp,
		"last_operation": object{"type": "create", "state": "succeeded", "description": "done"},
		"relationships":  object{"service_plan": to("plan-guid")},
	}
	binding := object{"guid": "binding-guid", "name": "key", "type": "app", "relationships": object{"app": to(guidApp),
		"service_instance": to("si-guid")}}

	if strings.Contains(call, " /notify/topics") {
		return topicAnswer(r)
	}
	if status, answer := repairAnswer(r); status != 0 {
		return status, answer
	}
	switch call {
	case "GET /":
		links := object{"cloud_controller_v3": object{"href": f.URL + "/v3", "meta": object{"version": "3.211.0"}},
			"app_ssh": nil, "console": object{"href": f.URL + "/console"}, "notifications": object{"href": f.URL + "/notify"},
			"routing": object{"href": f.URL + "/routing"}, "network_policy_v1": object{"href": f.URL + "/networking"}}
		for _, name := range []string{"login", "uaa", "log_cache"} {
			links[name] = object{"href": f.URL}
		}
		return 200, object{"links": links}
	case "POST /oauth/token":
		if f.body(call, "password=wrong") {
			return 401, object{"error": "unauthorized", "error_description": "Bad credentials"}
		}
		if f.body(call, "client_credentials") {
			return 200, object{"access_token": token(object{"client_id": "sender", "exp": time.Now().Add(time.Hour).Unix()}),
				"token_type": "bearer"}
		}
		return 200, object{"access_token": userToken(time.Hour), "refresh_token": "refresh", "token_type": "bearer"}
	case "POST /oauth/clients":
		if f.body(call, `"sender"`) {
			return 409, object{"error": "invalid_client", "error_description": "Client already exists: sender"}
		}
		return 201, object{"client_id": "mailer", "authorized_grant_types": []string{"client_credentials"},
			"scope": []string{"uaa.none"}, "authorities": []string{"emails.write", "notifications.write"}}
	case "GET /v3/organizations":
		return 200, one(r, object{"guid": guidOrg, "name": "acme"})
	case "GET /v3/spaces":
		return 200, one(r, object{"guid": guidSpace, "name": "dev"})
	case "GET /v3/users":
		return 200, one(r, object{"guid": "user-guid", "name": "admin"})
	case "POST /v3/organizations":
		return 201, object{"guid": "new-org", "name": "globex"}
	case "POST /v3/spaces":
		return 201, object{"guid": "new-space", "name": "prod"}
	case "POST /v3/roles":
		return refusal(422, 10008, "CF-UnprocessableEntity", "User 'admin' already has 'space_manager' role in space 'prod'.")
	case "GET /v3/apps":
		return 200, one(r, app)
	case "POST /v3/apps":
		return refusal(422, 10008, "CF-UnprocessableEntity", "App with the name 'shop' already exists.")
	case "POST /v3/apps/app-guid/actions/start", "POST /v3/apps/app-guid/actions/stop",
		"POST /v3/apps/app-guid/actions/restart", "PATCH /v3/apps/app-guid":
		return 200, app
	case "GET /v3/processes", "GET /v3/apps/app-guid/processes":
		return 200, list(worker, process)
	case "GET /v3/processes/app-guid", "GET /v3/apps/app-guid/processes/web",
		"POST /v3/apps/app-guid/processes/web/actions/scale":
		return 200, process
	case "GET /v3/processes/worker-guid":
		return 200, worker
	case "GET /v3/ingot/apps/app-guid/series":
		return 200, object{
			"range": "24h", "start": stamp, "end": stamp, "step": 60, "markers": []any{
				object{"time": stamp, "kind": "crash", "text": "Instance 0 crashed: Exited with status 1"}},
			"limits":    object{"instances": 2, "memory": 128 << 20, "disk": 2 << 30, "log_rate": -1},
			"processes": []any{object{"type": "web", "instances": []any{0, 1}}},
			"series": object{"requests": []any{nil, 0, 1.5, 3, 12}, "requests_5xx": []any{nil, 0, 0, 0, 0.5},
				"latency_p50": []any{nil, nil, 2.5, 2.5, 5}, "memory": []any{nil, 8 << 20, 64 << 20, 100 << 20, 120 << 20},
				"cpu": []any{nil, 0, 0, 0, 0}, "instances": []any{nil, 1, 2, 2, 2}, "crashes": []any{nil, 0, 0, 1, 0}},
		}
	case "GET /v3/processes/app-guid/stats":
		return 200, stats
	case "GET /v3/processes/app-guid/sidecars", "GET /v3/apps/app-guid/sidecars":
		return 200, list(object{"guid": "sc", "name": "config server", "command": "./config"})
	case "GET /v3/processes/worker-guid/stats", "GET /v3/processes/worker-guid/sidecars":
		return 200, list()
	case "GET /v3/routes", "GET /v3/apps/app-guid/routes":
		if hosts := r.URL.Query()["hosts"]; len(hosts) > 0 && hosts[0] != "shop" {
			return 200, list()
		}
		return 200, list(route)
	case "POST /v3/routes":
		return 201, object{"guid": "new-route", "url": "dump.apps.test"}
	case "POST /v3/routes/new-route/destinations":
		return 200, object{"destinations": []any{object{"guid": "new-dest",
			"app":  object{"guid": guidApp, "process": object{"type": "web"}, "sidecar": object{"name": "config server"}},
			"port": 9090}}}
	case "DELETE /v3/routes/route-guid/destinations/dest-guid":
		return 204, nil
	case "GET /v3/domains":
		return 200, one(r, object{"guid": "domain-guid", "name": "apps.test"})
	case "GET /v3/apps/app-guid/droplets/current":
		return 200, object{"guid": "droplet-guid", "stack": "cflinuxfs4", "created_at": stamp,
			"buildpacks": []any{object{"name": "binary_buildpack", "version": "1.0.0"}}}
	case "GET /v3/apps/app-guid/env":
		return 200, object{
			"system_env_json":       object{"VCAP_SERVICES": object{}},
			"application_env_json":  object{"VCAP_APPLICATION": object{"name": "shop"}},
			"environment_variables": object{"GREETING": "hello"}, "running_env_json": object{}, "staging_env_json": object{},
		}
	case "GET /v3/apps/app-guid/environment_variables":
		return 200, object{"var": object{"GREETING": "hello"}}
	case "PATCH /v3/apps/app-guid/environment_variables":
		return 200, object{"var": object{"GREETING": "good morning"}}
	case "GET /v3/audit_events":
		return 200, list(object{"guid": "e", "created_at": stamp, "type": "app.crash", "actor": object{"name": "web"},
			"data": object{"index": 1, "reason": "CRASHED", "exit_description": "exit status 7"}})
	case "GET /v3/apps/app-guid/tasks":
		if strings.Contains(r.Header.Get("User-Agent"), "none") {
			return 404, nil
		}
		migrated := object{"guid": "task-1", "sequence_id": 1, "name": "migrate", "state": "SUCCEEDED",
			"command": "./migrate", "created_at": stamp, "memory_in_mb": 64, "disk_in_mb": 1024}
		switch r.URL.Query().Get("sequence_ids") {
		case "", "1":
			return 200, list(migrated)
		case "2":
			return 200, list(object{"guid": "task-2", "sequence_id": 2, "name": "sweep", "state": "FAILED", "created_at": stamp,
				"memory_in_mb": 64, "disk_in_mb": 1024, "result": object{"failure_reason": "APP/TASK/sweep: Exited with status 3"}})
		case "4":
			return 200, list(object{"guid": "task-4", "sequence_id": 4, "name": "sleep", "state": "RUNNING",
				"command": "sleep 1000", "created_at": stamp, "memory_in_mb": 64, "disk_in_mb": 1024})
		}
		return 200, list()
	case "POST /v3/apps/app-guid/tasks":
		name := "migrate"
		for _, n := range []string{"good", "bad"} {
			if f.body(call, `"`+n+`"`) {
				name = n
			}
		}
		return 202, object{"guid": name, "sequence_id": 3, "name": name, "state": "PENDING", "command": "./migrate",
			"created_at": stamp, "memory_in_mb": 64, "disk_in_mb": 1024}
	case "GET /v3/tasks/good":
		return 200, object{"guid": "good", "sequence_id": 3, "name": "good", "state": "SUCCEEDED", "command": "./shop",
			"created_at": stamp, "memory_in_mb": 64, "disk_in_mb": 1024, "result": object{"failure_reason": nil}}
	case "GET /v3/tasks/bad":
		return 200, object{"guid": "bad", "sequence_id": 3, "name": "bad", "state": "FAILED", "command": "false",
			"created_at": stamp, "memory_in_mb": 64, "disk_in_mb": 1024,
			"result": object{"failure_reason": "APP/TASK/bad: Exited with status 1"}}
	case "POST /v3/tasks/task-4/actions/cancel":
		return 202, object{"guid": "task-4", "sequence_id": 4, "name": "sleep", "state": "CANCELING", "command": "sleep 1000",
			"created_at": stamp, "memory_in_mb": 64, "disk_in_mb": 1024}
	case "POST /v3/tasks/task-1/actions/cancel":
		return refusal(422, 10008, "CF-UnprocessableEntity", "Task state is SUCCEEDED and therefore cannot be canceled")
	case "GET /v3/jobs/done", "GET /v3/jobs/polling":
		return 200, object{"guid": "done", "state": map[bool]string{true: "POLLING",
			false: "COMPLETE"}[strings.HasSuffix(call, "polling")]}
	case "POST /v3/packages":
		return 201, object{"guid": "package-guid", "state": "AWAITING_UPLOAD"}
	case "GET /v3/packages":
		return 200, list(object{"guid": "package-guid", "state": "READY"})
	case "POST /v3/packages/package-guid/upload":
		return 200, object{"guid": "package-guid", "state": "READY"}
	case "POST /v3/builds":
		return 201, object{"guid": "build-guid", "state": "STAGING", "created_at": stamp}
	case "GET /v3/builds/build-guid":
		return 200, object{"guid": "build-guid", "state": "STAGED", "droplet": object{"guid": "droplet-guid"}}
	case "PATCH /v3/apps/app-guid/relationships/current_droplet":
		return 200, to("droplet-guid")
	case "POST /v3/deployments":
		reason, guid := "DEPLOYING", "deployment-guid"
		if f.body(call, "canary") {
			guid = "canary-guid"
		}
		f.mu.Lock()
		f.deploying = guid
		f.mu.Unlock()
		return 201, deployment(guid, "ACTIVE", reason)
	case "GET /v3/deployments":
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.deploying == "" {
			return 200, list()
		}
		if f.deploying == "canary-guid" {
			return 200, list(deployment("canary-guid", "ACTIVE", "PAUSED"))
		}
		return 200, list(deployment(f.deploying, "ACTIVE", "DEPLOYING"))
	case "GET /v3/deployments/canary-guid":
		return 200, deployment("canary-guid", "ACTIVE", "PAUSED")
	case "GET /v3/deployments/deployment-guid":
		f.mu.Lock()
		defer f.mu.Unlock()
		f.deploying = ""
		return 200, deployment("deployment-guid", "FINALIZED", "DEPLOYED")
	case "POST /v3/deployments/deployment-guid/actions/cancel", "POST /v3/deployments/deployment-guid/actions/continue":
		return 200, nil
	case "GET /v3/apps/app-guid":
		return 200, app
	case "GET /api/v1/read/app-guid":
		return 200, logBatch(r)
	case "GET /v3/service_plans":
		if names := r.URL.Query()["names"]; len(names) > 0 && names[0] != "small" {
			return 200, list()
		}
		return 200, with(list(plan), everything)
	case "GET /v3/service_instances":
		return 200, with(one(r, instance), everything)
	case "GET /v3/service_credential_bindings":
		return 200, with(one(r, binding), object{"apps": []any{app}})
	case "GET /v3/ingot/service_instances/si-guid/rotations":
		return 200, list(
			object{"guid": "r1", "state": "applying", "method": "restart", "grace_seconds": 600, "revoke_at": nil,
				"description": "", "relationships": object{"app": object{"data": object{"guid": "app-guid"}},
					"service_credential_binding": object{"data": object{"guid": "binding-guid"}}}},
			object{"guid": "r2", "state": "grace", "method": "none", "grace_seconds": 600, "revoke_at": "2026-11-16T10:20:00Z",
				"description": "", "relationships": object{"service_credential_binding": object{
					"data": object{"guid": "binding-guid"}}}})
	case "GET /v3/service_credential_bindings/binding-guid/details":
		return 200, object{"credentials": object{"host": "127.0.0.1", "port": 5432, "password": "s3cret"}}
	case "GET /notify/mail_state":
		return 200, mailState()
	case "GET /notify/sender_domain":
		return 200, object{"domain": "example.com", "findings": []object{
			{"check": "mx", "status": "ok", "message": "answers go to mx.example.com"},
			{"check": "reverse", "status": "warning", "message": "203.0.113.9 could not be looked up, try again later"},
			{"check": "dmarc", "status": "problem", "message": "no DMARC record",
				"record": object{"name": "_dmarc.example.com", "type": "TXT", "value": "v=DMARC1; p=none"}},
		}}
	case "GET /notify/notifications":
		kinds := object{"disk-full": object{"description": "A disk is nearly full", "critical": true, "template": "default"}}
		return 200, object{"sender": object{"name": "Disk watch", "template": "default", "notifications": kinds}}
	case "POST /notify/everyone", "POST /notify/spaces/space-guid", "POST /notify/emails":
		return 200, []any{object{"status": "queued", "recipient": "user-guid", "notification_id": "message-1"}}
	case "DELETE /notify/sends/send-1":
		return 200, object{"id": "send-1", "status": "canceled", "counts": object{"total": 20, "queued": 3, "canceled": 12}}
	case "GET /notify/recurring_sends":
		return 200, object{"recurring_sends": []any{recurringSend("active"), recurringSend("paused")}, "_links": object{}}
	case "GET /notify/recurring_sends/weekly", "PUT /notify/recurring_sends/weekly":
		return 200, recurringSend("active")
	case "POST /notify/recurring_sends/weekly/pause":
		return 200, recurringSend("paused")
	case "DELETE /notify/recurring_sends/weekly":
		return 204, nil
	case "POST /notify/sends":
		return 202, object{"id": "send-1", "status": "scheduled"}
	case "POST /notify/attachments":
		return 201, object{"id": "file-1", "type": "application/pdf", "bytes": 4}
	case "GET /notify/messages/message-1":
		return 200, object{"status": "delivered"}
	case "GET /notify/templates/template-1/variants":
		return 200, object{"variants": object{"de": object{"subject": "Platte voll", "text": "Hallo", "html": ""}}}
	case "PUT /notify/templates/template-1/variants/de", "DELETE /notify/templates/template-1/variants/fr":
		return 204, nil
	case "GET /notify/templates/template-1/versions":
		return 200, object{"versions": []any{
			object{"version": 2, "current": true, "updated_at": "2026-11-18T12:00:00Z", "changed_by": "ann"},
			object{"version": 1, "current": false, "updated_at": "2026-11-17T12:00:00Z", "changed_by": "shop"}}}
	case "GET /notify/templates/template-1/versions/2/difference":
		return 200, object{"from": 1, "to": 2, "parts": []any{
			object{"part": "text", "locale": "de", "lines": []any{" Hallo", "-Welt", "+alle"}}}}
	case "POST /notify/templates/template-1/rollback":
		return 200, object{"version": 3, "current": true, "updated_at": "2026-11-18T13:00:00Z", "changed_by": "ann"}
	case "GET /notify/partials":
		return 200, object{"partials": []any{object{"name": "footer", "shared": false, "blocks": []any{},
			"locales": []any{"de"}, "updated_at": "2026-11-18T12:00:00Z"},
			object{"name": "layout", "shared": true, "blocks": []any{"content"},
				"locales": []any{}, "updated_at": "2026-11-18T12:00:00Z"}}}
	case "GET /notify/partials/footer":
		return 200, object{"name": "footer", "shared": false, "blocks": []any{}, "locales": []any{"de"}, "text": "Bye",
			"html": "<p>Bye</p>", "variants": object{"de": object{"text": "Tschüss", "html": ""}},
			"used_by": []any{object{"template_id": "template-1", "name": "plain"},
				object{"partial": "layout", "name": "layout"}},
			"updated_at": "2026-11-18T12:00:00Z"}
	case "PUT /notify/partials/footer", "DELETE /notify/partials/footer":
		return 204, nil
	case "GET /notify/missing_variants":
		return 200, object{"locales": []any{"de", "fr"}, "templates": []any{object{"template_id": "template-1",
			"name": "plain", "kinds": []any{"disk-full"}, "missing": []any{"fr"}}}}
	case "GET /notify/kinds/disk-full/channels", "PUT /notify/kinds/disk-full/channels":
		return 200, object{"channels": []any{"email", "inbox"}}
	case "GET /notify/kinds/disk-full/workflow":
		return 200, object{"workflow": object{"steps": []any{object{"channel": "inbox"}, object{"channel": "email",
			"after": "1h", "if": object{"unread": "inbox"}}}},
			"description": []any{"inbox at once", "email after 1h, if not read in the inbox"}}
	case "PUT /notify/kinds/disk-full/workflow":
		return 200, object{"workflow": object{"steps": []any{object{"channel": "inbox"}}},
			"description": []any{"inbox at once"}}
	case "DELETE /notify/kinds/disk-full/workflow":
		return 204, nil
	case "GET /notify/kinds/comments/digest", "PUT /notify/kinds/comments/digest", "DELETE /notify/kinds/comments/digest":
		return digestAnswer(r.Method)
	case "GET /notify/kinds/comments/throttle", "PUT /notify/kinds/comments/throttle",
		"DELETE /notify/kinds/comments/throttle", "GET /notify/kinds/comments/retention",
		"PUT /notify/kinds/comments/retention",
		"DELETE /notify/kinds/comments/retention", "GET /notify/kinds/comments/tracking",
		"PUT /notify/kinds/comments/tracking", "DELETE /notify/kinds/comments/tracking":
		return ruleAnswer(r)
	case "GET /notify/messages/message-1/timeline":
		return 200, object{"send_id": "send-1", "subject": "Disk full", "workflow": nil, "events": []any{
			object{"at": "2026-11-18T12:00:00Z", "event": "accepted"},
			object{"at": "2026-11-18T12:00:01Z", "event": "attempt_failed", "channel": "email", "message_id": "message-1",
				"attempt": 1, "reason": "451 4.7.1 try again later"},
			object{"at": "2026-11-18T12:01:02Z", "event": "delivered", "channel": "email", "message_id": "message-1",
				"attempt": 2},
		}}
	case "GET /notify/inbox/origins", "PUT /notify/inbox/origins":
		return 200, object{"origins": []any{"https://app.example.com"}}
	case "POST /notify/inbox/tokens":
		return 201, object{"token": "inbox-token", "user_id": "user-guid", "expires_at": "2026-12-24T18:00:00Z"}
	case "GET /notify/messages":
		return 200, object{"messages": []any{message(), object{"id": "message-2", "send_id": "send-1", "status": "delivered",
			"user_id": "user-guid", "channel": "inbox", "attempts": 1, "updated_at": "2026-11-18T12:00:00Z"}}}
	case "GET /notify/recipient_data":
		return 200, recipientData()
	case "POST /notify/erasures":
		return 200, object{"id": "erasure-1", "status": "finished", "created_at": stamp, "finished_at": stamp,
			"erased": object{"messages": 3, "canceled": 1, "contents": 2, "list_entries": 1, "inbox_notifications": 4,
				"webhook_calls": 0, "push_subscriptions": 2, "topics": 1},
			"kept_as_hash": object{"unsubscribed": 1, "suppressions": 1}}
	case "GET /notify/figures":
		return 200, deliveryFigures(r.URL.Query().Get("kind_id") == "news")
	case "GET /notify/usage":
		return 200, object{"client_id": "sender", "sends": object{"bytes": 48211, "limit": 16 << 30},
			"definitions": object{"bytes": 2210, "limit": 64 << 20}}
	case "GET /notify/preferences", "PATCH /notify/preferences", "GET /notify/preferences/mailto:dora@example.org":
		other := strings.Contains(r.URL.Path, "mailto:")
		return 200, object{"user_id": "user-guid", "global_unsubscribe": other,
			"quiet_hours": object{"from": "22:00", "to": "07:00", "zone": "Europe/Berlin", "days": []any{"mon", "tue"}},
			"clients": object{"sender": object{"kinds": object{
				"news": object{"description": "What is new", "source_description": "Disk watch", "subscribed": true,
					"channels": object{"email": false, "inbox": true}, "digest": "daily",
					"digest_choices": []any{"default", "daily", "weekly"}},
				"offers": object{"description": "Offers", "source_description": "Disk watch", "subscribed": false,
					"channels": object{"email": false}}},
				"campaign_types": object{"type-1": object{"description": "Campaign", "source_description": "Sender",
					"subscribed": true, "channels": object{"email": true}}},
				"topics": topicPreferences()}}}
	case "PUT /notify/notifications", "PUT /notify/clients/sender/notifications/disk-full/template":
		return 204, nil
	}
	if jobs[call] {
		return 202, nil
	}
	if status, answer := everydayAnswer(call, r); status != 0 {
		return status, answer
	}
	if status, answer := adminAnswer(call, r); status != 0 {
		return status, answer
	}
	return refusal(404, 10000, "CF-NotFound", "Unknown request "+call)
}

func deployment(guid, value, reason string) object {
	d := object{
		"guid": guid, "strategy": "rolling", "options": object{"max_in_flight": 2},
		"status": object{"value": value, "reason": reason, "details": object{"last_status_change": stamp,
			"error": map[bool]any{
				true: "instance 0 of the new version has failed 2 times: exit status 7"}[reason == "DEPLOYING"]}},
	}
	if guid == "canary-guid" {
		d["strategy"] = "canary"
		d["status"].(object)["canary"] = object{"steps": object{"current": 1, "total": 2}}
	}
	return d
}

func (f *fake) body(call, text string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return strings.Contains(f.bodies[call], text)
}

// logBatch returns a few lines in the requested order.
func logBatch(r *http.Request) any {
	at, _ := time.Parse(time.RFC3339, stamp)
	batch := []any{}
	for i, l := range []struct{ source, kind, text string }{
		{"STG", "OUT", "-----> Binary Buildpack"}, {"APP/PROC/WEB", "OUT", "listening"},
		{"APP/PROC/WEB/SIDECAR/CONFIG SERVER", "ERR", "no config"}, {"RTR", "OUT", "shop.apps.test - GET /"},
		{"APP/TASK/migrate/SIDECAR/CONFIG SERVER", "OUT", "config of a task"},
	} {
		e := object{
			"timestamp": fmt.Sprint(at.Add(time.Duration(i) * time.Millisecond).UnixNano()), "source_id": guidApp,
			"instance_id": "0",
			"tags":        object{"source_type": l.source},
			"log": object{"payload": base64.StdEncoding.EncodeToString([]byte(l.text)),
				"type": l.kind},
		}
		if r.URL.Query().Get("descending") == "true" {
			batch = append([]any{e}, batch...)
		} else {
			batch = append(batch, e)
		}
	}
	return object{"envelopes": object{"batch": batch}}
}

// called reports whether the client made a call.
func (f *fake) called(call string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Contains(f.calls, call)
}
