package apps

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// editWorld is a started app whose resources are answered from a table, and which records what is changed.
type editWorld struct {
	*world
	answers map[string]string // by method and path
	status  map[string]int
	calls   []string // changes: method, path and body
}

const (
	appAnswer = `{"guid":"the-app","name":"shop","state":"STARTED",
		"relationships":{"space":{"data":{"guid":"the-space"}}},
		"included":{"spaces":[{"guid":"the-space","name":"dev"}],"organizations":[{"guid":"o","name":"demo"}]}}`
	developerAnswer = `{"resources":[{"type":"space_developer"}]}`
	noResources     = `{"pagination":{"total_results":0},"resources":[]}`
)

func newEditWorld(t *testing.T, answers map[string]string) *editWorld {
	t.Helper()
	w := &editWorld{world: newWorld(t), status: map[string]int{}, answers: map[string]string{
		"GET /v3/apps/the-app": appAnswer, "GET /v3/roles": developerAnswer,
		"GET /api/v1/read/the-app": `{"envelopes":{"batch":[]}}`,
	}}
	for path, answer := range answers {
		w.answers[path] = answer
	}
	w.API.HandleFunc("/", func(rw http.ResponseWriter, r *http.Request) {
		key := r.Method + " " + r.URL.Path
		raw, _ := io.ReadAll(r.Body)
		if r.Method != http.MethodGet && !strings.HasSuffix(key, "/manifest_diff") {
			w.calls = append(w.calls, key+" "+strings.TrimSpace(string(raw)))
		}
		if strings.HasSuffix(key, "/apply_manifest") {
			rw.Header().Set("Location", "https://api.example.com/v3/jobs/the-job")
		}
		if status := w.status[key]; status != 0 {
			rw.WriteHeader(status)
		}
		answer, ok := w.answers[key]
		if !ok {
			answer = noResources
		}
		fmt.Fprint(rw, answer)
	})
	return w
}

// called returns the changes since the last call.
func (w *editWorld) called() string {
	calls := strings.Join(w.calls, "\n")
	w.calls = nil
	return calls
}

// wants compares a text with what it has to contain, and must not.
func wants(t *testing.T, what, text string, has, lacks []string) {
	t.Helper()
	for _, one := range has {
		if !strings.Contains(text, one) {
			t.Errorf("%s lacks %q:\n%s", what, one, text)
		}
	}
	for _, one := range lacks {
		if strings.Contains(text, one) {
			t.Errorf("%s has %q:\n%s", what, one, text)
		}
	}
}

const shopManifest = "applications:\n- name: shop\n  env:\n    KEY: secret-value\n" +
	"  processes:\n  - type: web\n    memory: 64M\n"

// TestManifest: a manifest is shown, reviewed without a change, and applied.
func TestManifest(t *testing.T) {
	t.Parallel()
	w := newEditWorld(t, map[string]string{
		"GET /v3/apps/the-app/manifest": shopManifest,
		"POST /v3/spaces/the-space/manifest_diff": `{"diff":[
			{"op":"replace","path":"/applications/0/processes/0/memory","was":"32M","value":"64M"},
			{"op":"replace","path":"/applications/0/processes/0/instances","was":1,"value":2},
			{"op":"add","path":"/applications/0/env/KEY","value":"secret-value"},
			{"op":"add","path":"/applications/0/sidecars/0","value":{"name":"s","env":{"A":"hush"}}},
			{"op":"replace","path":"/applications/0/stack","was":"a","value":"b"}]}`,
		"GET /v3/jobs/the-job": `{"guid":"the-job","state":"COMPLETE"}`,
	})
	status, text := w.Get("/console/apps/the-app/manifest")
	if status != http.StatusOK {
		t.Fatalf("%d %s", status, text)
	}
	wants(t, "the page", text, []string{"type: web", "cf create-app-manifest shop"}, nil)
	status, _, text = w.postFields("/console/apps/the-app/manifest/review", [][2]string{{"text", shopManifest}})
	if status != http.StatusOK || w.called() != "" {
		t.Fatalf("the review: %d %s", status, text)
	}
	table := text[strings.Index(text, "<table"):strings.Index(text, "</table>")]
	wants(t, "the difference", table, []string{"processes › web › memory", "32M", "64M", "after a restart", "at once",
		"after a restage", "env › KEY", "(hidden)"}, []string{"secret-value", "hush"})
	status, to, _ := w.postFields("/console/apps/the-app/manifest/apply", [][2]string{{"text", shopManifest}})
	if status != http.StatusSeeOther || to != "/console/apps/the-app/manifest?said=manifest-restage" ||
		w.called() != "POST /v3/spaces/the-space/actions/apply_manifest "+strings.TrimSpace(shopManifest) {
		t.Errorf("applying: %d %s %s", status, to, w.calls)
	}
	_, text = w.Get(to)
	wants(t, "the page after it", text, []string{"Some changes take effect after a restage.",
		`action="/console/apps/the-app/restage"`}, nil)
	w.answers["GET /v3/jobs/the-job"] = `{"state":"FAILED","errors":[{"detail":"For application 'shop': memory quota_exceeded"}]}`
	status, _, text = w.postFields("/console/apps/the-app/manifest/apply", [][2]string{{"text", shopManifest}})
	if status != http.StatusUnprocessableEntity {
		t.Errorf("a job that failed: %d", status)
	}
	wants(t, "a job that failed", text, []string{"memory quota_exceeded", "Line 7, column 5"}, nil)
}

// TestManifestInProgress: the page follows a job whose services are still being bound.
func TestManifestInProgress(t *testing.T) {
	t.Parallel()
	answer := func(state, errors string) string {
		return fmt.Sprintf(`{"guid":"the-job","state":%q,"errors":[%s],"links":{"space":{"href":
			"https://api.example.com/v3/spaces/the-space"}}}`, state, errors)
	}
	w := newEditWorld(t, map[string]string{
		"POST /v3/spaces/the-space/manifest_diff": `{"diff":[{"op":"add","path":"/applications/0/services/0","value":"db"}]}`,
		"GET /v3/jobs/the-job":                    answer("PROCESSING", ""),
		"GET /v3/jobs/another":                    `{"guid":"another","state":"COMPLETE"}`,
	})
	status, to, text := w.postFields("/console/apps/the-app/manifest/apply", [][2]string{{"text", shopManifest}})
	if status != http.StatusSeeOther || to != "/console/apps/the-app/applying/the-job?after=restart" {
		t.Fatalf("%d %s %s", status, to, text)
	}
	for _, c := range []struct {
		state, errors string
		has, lacks    []string
	}{
		{"PROCESSING", "", []string{"The services are being bound", `data-live="/console/live/apps/the-app/applying/the-job?`},
			[]string{"was applied", "/restart"}},
		{"POLLING", "", []string{"The services are being bound"}, []string{"was applied"}},
		{"COMPLETE", "", []string{"The manifest was applied.", `action="/console/apps/the-app/restart"`},
			[]string{"being bound", "data-live"}},
		{"FAILED", `{"detail":"For application 'shop': <the broker> is away"}`,
			[]string{"not all services were bound", "&lt;the broker&gt; is away", "/console/apps/the-app/services"},
			[]string{"The manifest was applied.", "data-live"}},
	} {
		w.answers["GET /v3/jobs/the-job"] = answer(c.state, c.errors)
		status, text := w.Get(to)
		if status != http.StatusOK {
			t.Errorf("%s: %d", c.state, status)
		}
		wants(t, c.state, text, c.has, c.lacks)
	}
	for _, path := range []string{"another", "unknown"} {
		if status, text := w.Get("/console/apps/the-app/applying/" + path); status != http.StatusNotFound {
			t.Errorf("the job %s, which is not of the space: %d %s", path, status, text)
		}
	}
	_, text = w.Get("/console/apps/the-app/applying/the-job?after=%22%3E%3Cscript%3E")
	wants(t, "a hostile query", text, nil, []string{`"><script>`, "%3Cscript"})
}

// TestManifestRefused: problems have their positions, and what was typed is kept.
func TestManifestRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text, answer string
		has          []string
	}{
		"another app": {"applications:\n- name: other\n", "",
			[]string{"This page changes the app shop only", "- name: other"}},
		"two apps": {"applications:\n- name: shop\n- name: shop\n", "", []string{"lists the app shop 2 times"}},
		"not YAML": {"applications: [\n", "Request invalid due to parse error: invalid request body: the manifest is not " +
			"valid YAML: line 1: did not find expected node content", []string{"Line 1, column 1:", "did not find"}},
		"a value": {shopManifest, `For application 'shop': Process \"web\": Memory must use a unit ` +
			`For application 'shop': Env cannot set KEY`, []string{"Line 7, column 5:", "Line 4, column 5:", "must use a unit"}},
		"a key": {"applications:\n- name: shop\n  memoryy: 1G\n", "For application 'shop': no", []string{
			"Line 3, column 3:", "did you mean &#39;memory&#39;?", "(warning)"}},
		"a variable": {"applications:\n- name: shop\n  stack: ((stack))\n", "For application 'shop': no", []string{
			"Line 3, column 10:", "((stack)) is not replaced here"}},
		"markup": {"applications:\n- name: </textarea><script>\n", "", []string{"&lt;/textarea&gt;"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEditWorld(t, map[string]string{
				"POST /v3/spaces/the-space/manifest_diff": `{"errors":[{"detail":"` + c.answer + `"}]}`})
			w.status["POST /v3/spaces/the-space/manifest_diff"] = http.StatusUnprocessableEntity
			for _, action := range []string{"review", "apply"} {
				status, _, text := w.postFields("/console/apps/the-app/manifest/"+action, [][2]string{{"text", c.text}})
				if status != http.StatusUnprocessableEntity || w.called() != "" {
					t.Errorf("%s: %d", action, status)
				}
				wants(t, action, text, append(c.has, "The manifest was not applied."), []string{"<script>\n"})
			}
		})
	}
	// Someone who may not see secrets.
	w := newEditWorld(t, map[string]string{"GET /v3/roles": `{"resources":[{"type":"space_supporter"}]}`})
	if status, _ := w.Get("/console/apps/the-app/manifest"); status != http.StatusForbidden {
		t.Errorf("a supporter: %d", status)
	}
}

// TestLocate finds what a problem is about, or nothing.
func TestLocate(t *testing.T) {
	t.Parallel()
	lines := strings.Split(`applications:
- name: a
  memory: x
  processes:
  - memory: 1G
    type: web
    health-check-type: magic
  - type: worker
    memory: 2G
  sidecars:
  - name: proxy
    command: ""
  timeout: 0
  routes: []`, "\n")
	for problem, want := range map[string][2]int{
		`Process "web": Health check type must be "port"`: {7, 5}, `Process "worker": Memory must be`: {9, 5},
		`Process "web": Memory must be`: {5, 5}, `Sidecar "proxy": Command can't be blank`: {12, 5},
		`Process "worker": Instances must be`: {8, 5}, `Process "x": Timeout must be`: {13, 3},
		`Memory must be`: {}, `Routes must be a list`: {14, 3}, `nonsense`: {}, ``: {}, `Process "`: {},
	} {
		if line, column := locate(lines, problem); line != want[0] || column != want[1] {
			t.Errorf("%s is at %d:%d, want %v", problem, line, column, want)
		}
	}
}

// TestSidecarForms adds, changes and removes sidecars.
func TestSidecarForms(t *testing.T) {
	t.Parallel()
	w := newEditWorld(t, map[string]string{"GET /v3/apps/the-app/sidecars": `{"pagination":{"total_results":1},"resources":[
		{"guid":"s1","name":"proxy","command":"./proxy","process_types":["web","worker"],"memory_in_mb":32,
		"options":{"restart":"always"},"origin":"user"}]}`})
	status, text := w.Get("/console/apps/the-app/sidecars")
	if status != http.StatusOK {
		t.Fatalf("%d %s", status, text)
	}
	wants(t, "the page", text, []string{`value="web, worker"`, "restart&#34;: &#34;always", `value="32"`, "Remove proxy",
		"Add a sidecar", "cf apply-manifest"}, nil)
	save := func(want int, to, calls string, has []string, fields ...[2]string) {
		t.Helper()
		status, at, text := w.postFields("/console/apps/the-app/sidecars/save", fields)
		if got := w.called(); status != want || at != to || got != calls {
			t.Errorf("%v: %d %s\n%s\nwant %s", fields, status, at, got, calls)
		}
		wants(t, "the answer", text, has, nil)
	}
	const saved = "/console/apps/the-app/sidecars?said=sidecar-saved"
	save(303, saved, `POST /v3/apps/the-app/sidecars {"command":"./run","memory_in_mb":null,"name":"new","options":{},`+
		`"process_types":["web"]}`, nil, [2]string{"name", "new"}, [2]string{"command", "./run"}, [2]string{"types", "web"})
	save(303, saved, `PATCH /v3/sidecars/s1 {"command":"./p","memory_in_mb":64,"name":"proxy","options":{"restart":"never"},`+
		`"process_types":["web","w"]}`, nil, [2]string{"sidecar", "s1"}, [2]string{"name", "proxy"}, [2]string{"command", "./p"},
		[2]string{"types", "web, w"}, [2]string{"memory_in_mb", "64"}, [2]string{"options", `{"restart":"never"}`})
	save(422, "", "", []string{"See line 2, column 8.", "typed-name", "./typed"}, [2]string{"sidecar", "s1"},
		[2]string{"name", "typed-name"}, [2]string{"command", "./typed"}, [2]string{"options", "{\n  \"a: 1}"})
	save(422, "", "", []string{"a JSON object"}, [2]string{"options", "[]"})
	save(422, "", "", []string{"number of MB"}, [2]string{"memory_in_mb", "-1"})
	_, text = w.Get(saved)
	wants(t, "the page after it", text, []string{"Restart the app so that they get it", "cf restart shop"}, nil)
	status, to, _ := w.postFields("/console/apps/the-app/sidecars/s1/delete", nil)
	if calls := w.called(); status != 303 || calls != "DELETE /v3/sidecars/s1 " ||
		!strings.HasSuffix(to, "sidecar-removed") {
		t.Errorf("removing: %d %s %s", status, to, calls)
	}
}

// TestRollbackDifference shows what would change, and no value of a variable.
func TestRollbackDifference(t *testing.T) {
	t.Parallel()
	const revision = `"guid":"r1","version":1,"deployable":true,"droplet":{"guid":"d1"},
		"relationships":{"app":{"data":{"guid":"%s"}}},"processes":{"web":{"command":"./old"}},
		"sidecars":[{"name":"proxy","command":"./proxy","process_types":["web"]},{"name":"gone","command":"g","process_types":["web"]}],
		"ingot":{"processes":{"web":{"memory_in_mb":64,"disk_in_mb":10,"log_rate_limit_in_bytes_per_second":-1,
			"health_check":{"type":"port"},"user":null,"on_credentials":null,"new_setting":{"b":1,"a":2}}},"sidecars":{"proxy":{"restart":"always"}}}`
	w := newEditWorld(t, map[string]string{
		"GET /v3/revisions/r1": "{" + fmt.Sprintf(revision, "the-app") + "}", "GET /v3/revisions/r2": "{" +
			fmt.Sprintf(revision, "another") + "}",
		"GET /v3/revisions/r1/environment_variables": `{"var":{"A":"old-a","B":"same","C":"old-c"}}`,
		"GET /v3/apps/the-app/environment_variables": `{"var":{"A":"new-a","B":"same","D":"new-d"}}`,
		"GET /v3/apps/the-app/droplets/current":      `{"guid":"d2"}`,
		"GET /v3/apps/the-app/processes": `{"resources":[{"type":"web","command":"./new","memory_in_mb":128,"disk_in_mb":10,
			"log_rate_limit_in_bytes_per_second":-1,"health_check":{"type":"port"},"user":"vcap","on_credentials":"none"},{"type":"worker","command":"w"}]}`,
		"GET /v3/apps/the-app/sidecars": `{"resources":[{"name":"proxy","command":"./proxy","process_types":["web"],
			"options":{"restart":"always"}},{"name":"late","command":"l","process_types":["web"]}]}`,
	})
	status, text := w.Get("/console/apps/the-app/revisions/r1")
	if status != http.StatusOK {
		t.Fatalf("%d %s", status, text)
	}
	wants(t, "the difference", text, []string{"Variable A", "Variable C", "Variable D", "another value", "web: command",
		"./old",
		"web: memory", "128 MB", "64 MB", "web: user", "web: on credentials", "web: new setting",
		"Sidecar late", "Sidecar gone", "d1", "d2", "Roll back to 1",
		"cf rollback shop --version 1"},
		[]string{"old-a", "new-a", "old-c", "new-d", "Variable B", "web: disk", "health check", "Sidecar proxy", "worker"})
	if status, text := w.Get("/console/apps/the-app/revisions/r2"); status != http.StatusNotFound {
		t.Errorf("a revision of another app: %d %s", status, text)
	}
	w.answers["GET /v3/roles"] = `{"resources":[{"type":"space_supporter"}]}`
	_, text = w.Get("/console/apps/the-app/revisions/r1")
	wants(t, "what a supporter sees", text, []string{"web: memory", "for space developers only"}, []string{"Variable A"})
}

// TestScale changes everything with one call, and restarts the app only if that is needed and wanted.
func TestScale(t *testing.T) {
	t.Parallel()
	const path = "/v3/apps/the-app/processes/worker"
	sizes := [][2]string{{"instances", "3"}, {"memory_in_mb", "128"}, {"disk_in_mb", "256"}}
	const scaled = `POST /v3/apps/the-app/processes/worker/actions/scale {"disk_in_mb":256,"instances":3,"memory_in_mb":128}`
	for name, c := range map[string]struct {
		after  string
		fields [][2]string
		said   string
		calls  string
	}{
		"instances only": {`{"memory_in_mb":64,"disk_in_mb":10}`, append(sizes, [2]string{"restart", "1"}), "scale", scaled},
		"later":          {`{"memory_in_mb":128,"disk_in_mb":10}`, sizes, "scale-later", scaled},
		"memory": {`{"memory_in_mb":128,"disk_in_mb":10}`, append(sizes, [2]string{"restart", "1"}), "scale-restart",
			scaled + "\nPOST /v3/apps/the-app/actions/restart "},
		"disk": {`{"memory_in_mb":64,"disk_in_mb":11}`, append(sizes, [2]string{"restart", "1"}), "scale-restart",
			scaled + "\nPOST /v3/apps/the-app/actions/restart "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEditWorld(t, map[string]string{"GET " + path: `{"memory_in_mb":64,"disk_in_mb":10}`,
				"POST " + path + "/actions/scale": c.after})
			status, to, text := w.postFields("/console/apps/the-app/processes/worker/scale", c.fields)
			if calls := w.called(); status != 303 || to != "/console/apps/the-app?said="+c.said || calls != c.calls {
				t.Errorf("%d %s %s\n%s\nwant %s", status, to, text, calls, c.calls)
			}
		})
	}
}

// TestTaskPage starts a task and shows its result and its lines, without those of others.
func TestTaskPage(t *testing.T) {
	t.Parallel()
	const task = `{"guid":"t1","name":"greet","sequence_id":4,"state":"FAILED","command":"exit 3","created_at":"2026-01-01T00:00:00Z",
		"updated_at":"2026-01-01T00:00:05Z","result":{"failure_reason":"Exited with status 3"},
		"relationships":{"app":{"data":{"guid":"%s"}}}}`
	line := func(source, text string) string {
		return fmt.Sprintf(`{"timestamp":"1","tags":{"source_type":%q},"log":{"payload":%q,"type":"OUT"}}`, source, text)
	}
	w := newEditWorld(t, map[string]string{
		"POST /v3/apps/the-app/tasks": `{"guid":"t1"}`, "GET /v3/tasks/t1": fmt.Sprintf(task, "the-app"),
		"GET /v3/tasks/t2": fmt.Sprintf(task, "another"),
		"GET /api/v1/read/the-app": `{"envelopes":{"batch":[` + line("APP/TASK/greet", "aGVsbG8=") + `,` +
			line("APP/TASK/other", "b3RoZXI=") + `]}}`,
	})
	status, to, _ := w.postFields("/console/apps/the-app/tasks/run", [][2]string{{"command", "exit 3"}})
	if status != 303 || to != "/console/apps/the-app/tasks/t1?said=task" {
		t.Fatalf("starting: %d %s", status, to)
	}
	_, text := w.Get(to)
	wants(t, "the page", text, []string{"Exited with status 3", "hello", "took 5", `data-live="/console/live/apps/the-app/tasks/t1"`},
		[]string{"other", "terminate-task"})
	w.answers["GET /v3/tasks/t1"] = strings.Replace(fmt.Sprintf(task, "the-app"), "FAILED", "RUNNING", 1)
	_, text = w.Get(to)
	wants(t, "a task in progress", text, []string{"cf terminate-task shop 4", "tasks/t1/cancel"}, []string{"took"})
	if status, _ := w.Get("/console/apps/the-app/tasks/t2"); status != http.StatusNotFound {
		t.Errorf("a task of another app: %d", status)
	}
}

// TestDomains creates and deletes domains, with the forms that a user may use.
func TestDomains(t *testing.T) {
	t.Parallel()
	w := newEditWorld(t, map[string]string{
		"GET /v3/domains": `{"resources":[{"guid":"d1","name":"apps.example.com","supported_protocols":["http"]},
			{"guid":"d2","name":"mine.example.com","relationships":{"organization":{"data":{"guid":"o"}}}}]}`,
		"GET /v3/organizations": `{"resources":[{"guid":"o","name":"demo"},{"guid":"p","name":"other"}]}`,
		"GET /v3/roles":         `{"resources":[{"relationships":{"organization":{"data":{"guid":"o"}}}}]}`,
		"GET /v3/domains/d2":    `{"guid":"d2","name":"mine.example.com"}`,
	})
	_, text := w.Get("/console/domains")
	wants(t, "the page", text, []string{"apps.example.com", "cf delete-private-domain mine.example.com", ">demo</option>",
		"cf create-private-domain"}, []string{"delete-shared-domain", ">other</option>", "all organizations"})
	status, to, _ := w.postFields("/console/domains/create", [][2]string{{"name", " new.example.com "}, {"org", "o"}})
	if calls := w.called(); status != 303 || to != "/console/domains?said=domain" || calls !=
		`POST /v3/domains {"name":"new.example.com","relationships":{"organization":{"data":{"guid":"o"}}}}` {
		t.Errorf("creating: %d %s %s", status, to, calls)
	}
	if status, _, text := w.postFields("/console/domains/d2/delete", [][2]string{{"confirm", "x"}}); status != 422 ||
		w.called() != "" || !strings.Contains(text, "Type the name mine.example.com to confirm.") {
		t.Errorf("deleting without confirmation: %d %s", status, text)
	}
	status, _, _ = w.postFields("/console/domains/d2/delete", [][2]string{{"confirm", "mine.example.com"}})
	if calls := w.called(); status != 303 || calls != "DELETE /v3/domains/d2 " {
		t.Errorf("deleting: %d %s", status, calls)
	}
	w.answers["GET /v3/roles"] = noResources
	_, text = w.Get("/console/domains")
	wants(t, "what a developer sees", text, []string{"Managers of an organization can create domains"},
		[]string{"domains/create", "/delete"})
	w.status["POST /v3/domains"], w.answers["POST /v3/domains"] = 422, `{"errors":[{"detail":"The name is <taken>."}]}`
	if status, _, text := w.postFields("/console/domains/create", [][2]string{{"name", "x"}}); status != 422 ||
		!strings.Contains(text, "The name is &lt;taken&gt;.") {
		t.Errorf("a refused domain: %d %s", status, text)
	}
}
