package api_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"ingot/internal/base/db"
	"ingot/internal/base/db/dbtest"
	"ingot/internal/platform"
)

// A sidecar of the user takes precedence over one of a buildpack with the same name, over all
// builds, until the user deletes it.
func TestBuildpackSidecars(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		w := newWorldOn(t, d.Dialect())
		droplet := w.droplet(w.vars["app"], &platform.Droplet{Sidecars: []platform.DropletSidecar{
			{Name: "agent", Command: "./its", ProcessTypes: []string{"web"}, MemoryMB: 8,
				Options: &platform.SidecarOptions{Restart: "always", RunIn: []string{"tasks"}}},
			{Name: "proxy", Command: "./its-proxy", ProcessTypes: []string{"web"}},
		}})
		assign := step{as: "dev", do: "PATCH /v3/apps/$app/relationships/current_droplet", body: `{"data":{"guid":"` +
			droplet + `"}}`, want: 200}
		create := step{as: "dev", do: "POST /v3/apps/$app/sidecars",
			body: `{"name":"agent","command":"./mine","process_types":["web"]}`, want: 201, has: []string{`"origin":"user"`},
			save: "mine"}
		list := func(has ...string) step {
			return step{as: "dev", do: "GET /v3/apps/$app/sidecars", want: 200, has: append(has, `"total_results":2`,
				"./its-proxy")}
		}
		w.play([]step{
			create, assign,
			list(`"origin":"user"`, "./mine"),
			{as: "dev", do: "POST /v3/apps/$app/sidecars", body: `{"name":"agent","command":"./mine","process_types":["web"]}`,
				want: 422, has: []string{"already exists for given app"}},
			{as: "dev", do: "DELETE /v3/sidecars/$mine", want: 204},
			assign,
			list("./its\"", `"memory_in_mb":8`, `"restart":"always"`, `"run_in":["tasks"]`),
			// One that exists is replaced.
			create, list("./mine"), assign, list("./mine"),
			{as: "dev", do: "DELETE /v3/sidecars/$mine", want: 204},
			assign,
			{as: "dev", do: "GET /v3/apps/$app/sidecars?order_by=-created_at", want: 200, has: []string{`"origin":"buildpack"`},
				not: []string{`"origin":"user"`}, save: "its"},
			// One that is changed becomes the user's.
			{as: "dev", do: "PATCH /v3/sidecars/$its", body: `{"command":"./changed"}`, want: 200,
				has: []string{`"origin":"user"`}},
			assign,
			{as: "dev", do: "GET /v3/sidecars/$its", want: 200, has: []string{"./changed", `"origin":"user"`}},
		})
		// What the buildpack asks for must fit what the user has.
		cycle := w.droplet(w.vars["app"], &platform.Droplet{Sidecars: []platform.DropletSidecar{
			{Name: "a", Command: "x", ProcessTypes: []string{"web"},
				Options: &platform.SidecarOptions{DependsOn: []string{"user"}}},
		}})
		w.play([]step{
			{as: "dev", do: "POST /v3/apps/$app/sidecars",
				body: `{"name":"user","command":"x","process_types":["web"],"options":{"ports":[9090]}}`, want: 201, save: "user"},
			{as: "dev", do: "PATCH /v3/apps/$app/relationships/current_droplet", body: `{"data":{"guid":"` + cycle +
				`"}}`, want: 200},
			{as: "dev", do: "PATCH /v3/sidecars/$user", body: `{"options":{"depends_on":["a"]}}`, want: 422,
				has: []string{"Sidecars wait for each other to start: a → user → a"}},
		})
	})
}

// Two sidecars that are made to wait for each other at the same time: one of the changes is
// refused, and no cycle is stored.
func TestSidecarCycleRace(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		w := newWorldOn(t, d.Dialect())
		var guids []string
		for _, name := range []string{"a", "b", "c"} {
			w.one(step{as: "dev", do: "POST /v3/apps/$app/sidecars", body: `{"name":"` + name +
				`","command":"x","process_types":["web"]}`, want: 201, save: name})
			guids = append(guids, w.vars[name])
		}
		tok := w.as("dev")
		for range 5 {
			statuses := make([]int, len(guids))
			var all sync.WaitGroup
			for i, guid := range guids {
				other := string(rune('a' + (i+1)%len(guids)))
				all.Go(func() {
					statuses[i] = w.call(tok, "PATCH", "/v3/sidecars/"+guid,
						map[string]any{"options": map[string]any{"depends_on": []string{other}}}).status
				})
			}
			all.Wait()
			counts := map[int]int{}
			for _, s := range statuses {
				counts[s]++
			}
			if counts[http.StatusOK] != 2 || counts[http.StatusUnprocessableEntity] != 1 {
				t.Errorf("the answers are %v, want two of 200 and one of 422", statuses)
			}
			for _, guid := range guids {
				w.one(step{as: "dev", do: "PATCH /v3/sidecars/" + guid, body: `{"options":{}}`, want: 200})
			}
		}
	})
}

// A destination can name a sidecar, and shows which one declares its port.
func TestSidecarDestinations(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	to := func(app, rest string, want int, has ...string) step {
		return step{as: "dev", do: "POST /v3/routes/$route/destinations", body: `{"destinations":[{"app":{"guid":"$app"` +
			app + `}` + rest + `}]}`, want: want, has: has}
	}
	w.play([]step{
		{as: "dev", do: "POST /v3/routes",
			body: `{"host":"side","relationships":{"space":{"data":{"guid":"$space"}},"domain":{"data":{"guid":"$domain"}}}}`,
			want: 201, save: "route"},
		{as: "dev", do: "POST /v3/apps/$app/sidecars",
			body: `{"name":"proxy","command":"x","process_types":["web"],"options":{"ports":[9090,9091]}}`, want: 201,
			save: "proxy"},
		{as: "dev", do: "POST /v3/apps/$app/sidecars", body: `{"name":"quiet","command":"x","process_types":["web"]}`,
			want: 201},
		to(`,"sidecar":{"name":"proxi"}`, ``, 422,
			`Destinations[0]: the process web of the app has no sidecar \"proxi\"; sidecar proxy declares 9090, 9091`),
		to(`,"sidecar":{"name":"proxy"},"process":{"type":"worker"}`, ``, 422,
			`the process worker of the app has no sidecar \"proxy\"`),
		to(`,"sidecar":{"name":"quiet"}`, ``, 422, `the sidecar \"quiet\" declares no port: set`),
		to(`,"sidecar":{"name":"proxy"}`, `,"port":9092`, 422,
			`the sidecar \"proxy\" does not declare port 9092, but 9090, 9091`),
		to(`,"sidecar":{"name":"proxy","port":1}`, ``, 422, "Unknown field(s): 'port'"),
		to(`,"sidecar":{"name":"proxy"}`, ``, 200, `"sidecar":{"name":"proxy"}`, `"port":9090`),
		to(`,"sidecar":{"name":"proxy"}`, `,"port":9091`, 200, `"port":9091`),
		to(``, `,"port":9091`, 200),
		to(``, ``, 200, `"process":{"type":"web"}}`),
		{as: "dev", do: "GET /v3/routes/$route", want: 200, has: []string{`"sidecar":{"name":"proxy"}`}},
		{as: "member", do: "POST /v3/routes/$route/destinations",
			body: `{"destinations":[{"app":{"guid":"$app","sidecar":{"name":"proxy"}}}]}`, want: 404},
	})
	// A port that no sidecar declares may be a mistake.
	path := "/v3/routes/" + w.vars["route"] + "/destinations"
	body := map[string]any{"destinations": []any{map[string]any{"app": map[string]any{"guid": w.vars["app"]},
		"port": 9099}}}
	answer := w.call(w.as("dev"), "POST", path, body)
	if got, want := answer.header.Get("X-Cf-Warnings"),
		"No+sidecar+of+the+process+web+declares+port+9099"; answer.status != http.StatusOK || !strings.HasPrefix(got, want) {
		t.Errorf("%d with the warning %q, want %q", answer.status, got, want)
	}
}

// Sidecars of tasks, and the ports that sidecars declare.
func TestSidecarRunInAndPorts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	create := func(name, rest string, want int, has ...string) step {
		return step{as: "dev", do: "POST /v3/apps/$app/sidecars", body: fmt.Sprintf(`{"name":%q,"command":"x",%s}`, name,
			rest), want: want, has: has}
	}
	w.staged()
	w.play([]step{
		create("a", `"options":{"run_in":["tasks"]},"memory_in_mb":64`, 201, `"process_types":[]`, `"run_in":["tasks"]`),
		{as: "dev", do: runTask, body: `{"command":"x","memory_in_mb":64}`, want: 422, has: []string{
			"The requested memory allocation is not large enough to run all of your sidecar processes: the task has 64 MB, " +
				"and its sidecars need a (64 MB)."}},
		{as: "dev", do: runTask, body: `{"command":"x","memory_in_mb":65}`, want: 202},
		create("b", `"options":{"run_in":["processes"]}`, 422, "Run in must be [tasks]"),
		create("b", `"options":{"run_in":["tasks","tasks"]}`, 422, "Run in must be [tasks]"),
		create("b", `"options":{}`, 422, "at least 1 process_type"),
		create("p", `"process_types":["web"],"options":{"ports":[9090,9091]}`, 201),
		create("q", `"process_types":["web","worker"],"options":{"ports":[9092,9091]}`, 422,
			`The sidecars \"p\" and \"q\" of the process web declare the same port 9091`),
		create("q", `"process_types":["worker"],"options":{"ports":[9091],"run_in":["tasks"]}`, 201),
		create("r", `"process_types":["web"],"options":{"run_in":["tasks"],"ports":[9091]}`, 422,
			`declare the same port 9091`),
		create("r", `"options":{"run_in":["tasks"],"ports":[9091]}`, 422, `of the tasks declare the same port 9091`),
		create("r", `"process_types":["web"],"options":{"ports":[8080]}`, 422,
			`The sidecar \"r\" declares port 8080, which is that of the main process of web (PORT)`),
		create("r", `"process_types":["worker"],"options":{"ports":[8080]}`, 201),
	})
}
