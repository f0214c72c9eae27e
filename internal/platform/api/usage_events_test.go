package api_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"ingot/internal/base/db"
	"ingot/internal/base/db/dbtest"
	"ingot/internal/platform"
	"ingot/internal/platform/actions/metering"
	"ingot/internal/platform/services/brokertest"
)

// usage returns the app usage events after one, each as text.
func (w *world) usage(after string) (events []string, last string) {
	w.t.Helper()
	path := "/v3/app_usage_events?per_page=5000"
	if after != "" {
		path += "&after_guid=" + after
	}
	list := w.want(w.call(w.admin(), "GET", path, nil), 200)
	resources, _ := list.at("resources").([]any)
	last = after
	for _, r := range resources {
		e := r.(map[string]any)
		at := func(path string) any {
			var v any = e
			for name := range strings.SplitSeq(path, ".") {
				v = v.(map[string]any)[name]
			}
			return v
		}
		text := fmt.Sprintf("%v<%v %vx%v<%vx%v", at("state.current"), at("state.previous"),
			at("instance_count.current"), at("memory_in_mb_per_instance.current"), at("instance_count.previous"),
			at("memory_in_mb_per_instance.previous"))
		if process := at("process.type"); process != nil {
			text += fmt.Sprint(" ", process)
		}
		if task := at("task.name"); task != nil {
			text += fmt.Sprint(" ", task)
		}
		events, last = append(events, text), at("guid").(string)
	}
	return events, last
}

// TestAppUsageEvents: everything that changes what an app uses has an event, and
// nothing else.
func TestAppUsageEvents(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.staged()
	last := ""
	expect := func(what string, want ...string) {
		t.Helper()
		var got []string
		got, last = w.usage(last)
		if !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", what, got, want)
		}
	}
	do := func(as, what, body string, want int) *answer {
		t.Helper()
		return w.one(step{as: as, do: what, body: body, want: want})
	}
	const scale = "POST /v3/processes/$app/actions/scale"
	_, last = w.usage("")
	expect("nothing")
	do("dev", scale, `{"instances":2,"memory_in_mb":64}`, 202)
	expect("a stopped app was scaled")
	do("dev", "POST /v3/apps/$app/actions/start", "", 200)
	expect("started", "STARTED<STOPPED 2x64<2x64 web")
	do("dev", "POST /v3/apps/$app/actions/start", "", 200)
	do("dev", "POST /v3/apps/$app/actions/restart", "", 200)
	do("dev", "PATCH /v3/processes/$app", `{"command":"other"}`, 200)
	do("dev", "PATCH /v3/apps/$app", `{"name":"renamed"}`, 200)
	expect("no change of usage")
	do("dev", scale, `{"instances":3,"memory_in_mb":32}`, 202)
	expect("scaled", "STARTED<STARTED 3x32<2x64 web")
	do("dev", "POST /v3/apps/$app/tasks", `{"name":"job","command":"x","memory_in_mb":16}`, 202)
	expect("task", "TASK_STARTED<PENDING 1x16<1x16 job")
	task, _ := w.call(w.admin(), "GET", "/v3/tasks", nil).at("resources.0.guid").(string)
	w.setTask(task, func(t *platform.Task) { t.State = platform.TaskRunning })
	expect("a task runs")
	w.setTask(task, func(t *platform.Task) { t.State = platform.TaskSucceeded })
	expect("a task is over", "TASK_STOPPED<RUNNING 1x16<1x16 job")
	do("dev", "POST /v3/apps/$app/tasks", `{"name":"left","command":"x","memory_in_mb":16}`, 202)
	expect("another task", "TASK_STARTED<PENDING 1x16<1x16 left")
	do("dev", "POST /v3/apps/$app/actions/stop", "", 200)
	expect("stopped", "STOPPED<STARTED 3x32<3x32 web")
	do("dev", "POST /v3/apps/$app/actions/start", "", 200)
	expect("started again", "STARTED<STOPPED 3x32<3x32 web")
	// A refused change has no event.
	do("", "POST /v3/organization_quotas",
		`{"name":"q","apps":{"total_instances":3},"relationships":{"organizations":{"data":[{"guid":"$org"}]}}}`, 201)
	do("dev", scale, `{"instances":4}`, 422)
	expect("refused")
	do("orgmanager", "DELETE /v3/spaces/$space", "", 202)
	expect("deleted with its space", "STOPPED<STARTED 3x32<3x32 web", "TASK_STOPPED<PENDING 1x16<1x16 left")

	w.play([]step{
		{do: "GET /v3/app_usage_events/" + last, want: 200, has: []string{`"name":"renamed"`,
			`"space":{"guid":"$space","name":"s"}`, `"organization":{"guid":"$org"}`, `"process":{"guid":null,"type":null}`}},
		{as: "dev", do: "GET /v3/app_usage_events", want: 200, has: []string{`"total_results":0`}},
		{as: "dev", do: "GET /v3/app_usage_events/" + last, want: 404, has: []string{"App usage event not found"}},
		{do: "GET /v3/app_usage_events?after_guid=$none", want: 422,
			has: []string{"After guid filter must be a valid app usage event guid."}},
		{do: "GET /v3/app_usage_events?guids=" + last, want: 200, has: []string{`"total_results":1`}},
		{as: "dev", do: "POST /v3/app_usage_events/actions/destructively_purge_all_and_reseed", want: 403},
	})
}

// TestBuildUsageEvents: a build uses memory, and its end names the buildpack.
func TestBuildUsageEvents(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.one(step{as: "dev", do: "POST /v3/packages",
		body: `{"type":"bits","relationships":{"app":{"data":{"guid":"$app"}}}}`, want: 201, save: "package"})
	w.want(w.upload(w.as("dev"), "/v3/packages/"+w.vars["package"]+"/upload", "app.zip", "x", nil), 200)
	_, last := w.usage("")
	w.one(step{as: "dev", do: "POST /v3/builds", body: `{"package":{"guid":"$package"},"staging_memory_in_mb":100}`,
		want: 201, save: "build"})
	err := w.store.Update(t.Context(), func(tx platform.Tx) error {
		b, err := tx.Builds().Get(w.vars["build"])
		if err != nil {
			return err
		}
		d := &platform.Droplet{AppGUID: b.AppGUID, State: platform.DropletStaged,
			Buildpacks: []platform.DropletBuildpack{{Name: "go_buildpack"}}}
		if err := tx.Droplets().Insert(d); err != nil {
			return err
		}
		b.State, b.DropletGUID = platform.BuildStaged, d.GUID
		return tx.Builds().Update(b)
	})
	if err != nil {
		t.Fatal(err)
	}
	got, last := w.usage(last)
	if want := []string{"STAGING_STARTED<STAGING 1x100<1x100", "STAGING_STOPPED<STAGING 1x100<1x100",
		"BUILDPACK_SET<STAGING 1x100<1x100"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	w.one(step{do: "GET /v3/app_usage_events/" + last, want: 200, has: []string{`"name":"go_buildpack"`}})
}

// TestUsageReseed: the events of an installation begin with what it runs.
func TestUsageReseed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.staged()
	w.play([]step{
		{as: "dev", do: "POST /v3/processes/$app/actions/scale", body: `{"instances":2,"memory_in_mb":64}`, want: 202},
		{as: "dev", do: "POST /v3/apps/$app/actions/start", want: 200},
		{do: "POST /v3/app_usage_events/actions/destructively_purge_all_and_reseed", want: 200},
	})
	got, _ := w.usage("")
	if want := []string{"STARTED<STARTED 2x64<2x64 web"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	// Old events go, but not the last one of what still runs.
	w.play([]step{
		{as: "dev", do: "POST /v3/processes/$app/actions/scale", body: `{"instances":1}`, want: 202},
		{as: "dev", do: "POST /v3/apps/$app/tasks", body: `{"name":"job","command":"x","memory_in_mb":16}`, want: 202,
			save: "task"},
	})
	w.setTask(w.vars["task"], func(t *platform.Task) { t.State = platform.TaskFailed })
	later := time.Now().Add(32 * 24 * time.Hour)
	if err := w.store.Update(t.Context(), func(tx platform.Tx) error { return metering.Purge(tx, later) }); err != nil {
		t.Fatal(err)
	}
	got, _ = w.usage("")
	if want := []string{"STARTED<STARTED 1x64<2x64 web"}; !slices.Equal(got, want) {
		t.Errorf("after the purge: got %q, want %q", got, want)
	}
	for range 2 { // a second start adds nothing
		if err := w.store.Update(t.Context(), metering.Ensure); err != nil {
			t.Fatal(err)
		}
	}
	if again, _ := w.usage(""); !slices.Equal(again, got) {
		t.Errorf("after a start: got %q, want %q", again, got)
	}
}

func TestServiceUsageEvents(t *testing.T) {
	t.Parallel()
	m := newMarket(t, &brokertest.Broker{})
	m.create("db", "sync")
	m.play([]step{
		{as: "dev", do: "POST /v3/service_instances",
			body: `{"type":"user-provided","name":"ups","relationships":{"space":{"data":{"guid":"$space"}}}}`, want: 201,
			save: "ups"},
		{as: "dev", do: "PATCH /v3/service_instances/$ups", body: `{"tags":["a"]}`, want: 200},
		{as: "dev", do: "PATCH /v3/service_instances/$ups", body: `{"name":"mine"}`, want: 200},
		{as: "dev", do: "DELETE /v3/service_instances/$ups", want: 204},
		{do: "GET /v3/service_usage_events?service_instance_types=user_provided_service_instance", want: 200,
			has:  []string{`"total_results":3`, `"name":"mine"`, `"state":"CREATED"`, `"state":"UPDATED"`, `"state":"DELETED"`},
			save: "first"},
		{do: "GET /v3/service_usage_events?service_instance_types=user_provided_service_instance&after_guid=$first",
			want: 200, has: []string{`"total_results":2`}},
		{do: "GET /v3/service_usage_events?service_instance_types=managed_service_instance", want: 200,
			has: []string{`"total_results":1`, `"service_plan":{"guid":"$sync"`, `"service_broker":{"guid":`}},
		{do: "GET /v3/service_usage_events?service_offering_guids=$none", want: 200, has: []string{`"total_results":0`}},
		{do: "GET /v3/service_usage_events/$first", want: 200,
			has: []string{`"service_instance":{"guid":"$ups","name":"ups","type":"user_provided_service_instance"}`,
				`"service_plan":{"guid":null,"name":null}`}},
		{do: "GET /v3/service_usage_events?after_guid=$none", want: 422,
			has: []string{"After guid filter must be a valid service usage event guid."}},
		{as: "dev", do: "GET /v3/service_usage_events", want: 200, has: []string{`"total_results":0`}},
		{do: "POST /v3/service_usage_events/actions/destructively_purge_all_and_reseed", want: 200},
		{do: "GET /v3/service_usage_events", want: 200, has: []string{`"total_results":1`, `"state":"CREATED"`,
			`"name":"db"`}},
	})
}

// TestUsageOrder: a consumer that reads on from the last event it knows misses none,
// although many clients write at the same time.
func TestUsageOrder(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		const clients, rounds = 8, 5
		w := newWorldOn(t, d.Dialect())
		w.loose = true
		tok := w.as("dev")
		apps := make([]string, clients)
		for i := range apps {
			apps[i] = w.app(w.vars["space"], fmt.Sprint("app-", i))
			w.want(w.call(tok, "PATCH", "/v3/apps/"+apps[i]+"/relationships/current_droplet",
				rel("x", w.droplet(apps[i], &platform.Droplet{}))["x"]), 200)
		}
		var all sync.WaitGroup
		for _, app := range apps {
			all.Go(func() {
				for range rounds {
					for _, action := range []string{"start", "stop"} {
						if a := w.call(tok, "POST", "/v3/apps/"+app+"/actions/"+action, nil); a.status != 200 {
							t.Errorf("%s: %d %s", action, a.status, a.body)
						}
					}
				}
			})
		}
		done := make(chan struct{})
		var seen []string
		last := ""
		read := func() {
			var more []string
			more, last = w.usage(last)
			seen = append(seen, more...)
		}
		var end sync.WaitGroup
		end.Go(func() { all.Wait(); close(done) })
		for running := true; running; {
			select {
			case <-done:
				running = false
			default:
			}
			read()
		}
		if want := clients * rounds * 2; len(seen) != want {
			t.Errorf("the consumer saw %d events, want %d", len(seen), want)
		}
	})
}
