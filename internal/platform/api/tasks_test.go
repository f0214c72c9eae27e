package api_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"ingot/internal/base/db"
	"ingot/internal/base/db/dbtest"
	"ingot/internal/platform"
	"ingot/internal/platform/actions"
	"ingot/internal/platform/platformdb"
)

const runTask = "POST /v3/apps/$app/tasks"

// staged gives the app of the world a droplet.
func (w *world) staged() {
	w.t.Helper()
	w.vars["droplet"] = w.droplet(w.vars["app"], &platform.Droplet{})
	w.one(step{do: "PATCH /v3/apps/$app/relationships/current_droplet", body: `{"data":{"guid":"$droplet"}}`, want: 200})
}

// setTask changes a task as the controller does.
func (w *world) setTask(guid string, change func(*platform.Task)) {
	w.t.Helper()
	err := w.store.Update(w.t.Context(), func(tx platform.Tx) error {
		t, err := tx.Tasks().Get(guid)
		if err != nil {
			return err
		}
		change(t)
		return tx.Tasks().Update(t)
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

func TestTaskScenarios(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.one(step{as: "dev", do: runTask, body: `{"command":"x"}`, want: 422,
		has: []string{"Task must have a droplet. Specify droplet or assign current droplet to app."}})
	w.staged()
	w.vars["droplet2"] = w.droplet(w.vars["app2"], &platform.Droplet{})
	w.vars["older"] = w.droplet(w.vars["app"], &platform.Droplet{})
	w.play([]step{
		{as: "dev", do: runTask,
			body: `{"command":"migrate --password hunter4","name":"migrate","memory_in_mb":64,"disk_in_mb":128,"log_rate_limit_in_bytes_per_second":1000,"metadata":{"labels":{"tier":"db"}}}`, want: 202,
			has: []string{`"sequence_id":1`, `"name":"migrate"`, `"command":"migrate --password hunter4"`, `"state":"PENDING"`,
				`"memory_in_mb":64`, `"disk_in_mb":128`, `"log_rate_limit_in_bytes_per_second":1000`,
				`"result":{"failure_reason":null}`, `"droplet_guid":"$droplet"`, `"app":{"data":{"guid":"$app"}}`, `"tier":"db"`,
				"/actions/cancel", `"user":null`}, save: "task"},
		// What is not said is the default, or the template's.
		{as: "dev", do: runTask, body: `{"command":"x","droplet_guid":"$older"}`, want: 202,
			has: []string{`"sequence_id":2`, `"memory_in_mb":1024`, `"disk_in_mb":1024`,
				`"log_rate_limit_in_bytes_per_second":-1`, `"droplet_guid":"$older"`}, save: "task2"},
		{as: "dev", do: "POST /v3/processes/$app/actions/scale", body: `{"memory_in_mb":77,"disk_in_mb":99}`, want: 202},
		{as: "dev", do: runTask, body: `{"template":{"process":{"guid":"$app"}}}`, want: 202,
			has: []string{`"command":"./secret-command"`, `"memory_in_mb":77`, `"disk_in_mb":99`}, save: "task3"},
		{as: "dev", do: runTask, body: `{"template":{"process":{"guid":"$app"}},"command":"other","memory_in_mb":5}`,
			want: 202, has: []string{`"command":"other"`, `"memory_in_mb":5,`, `"disk_in_mb":99`}},

		// What cannot be.
		{as: "dev", do: runTask, body: `{}`, want: 422, has: []string{"Command can't be blank"}},
		{as: "dev", do: runTask,
			body: `{"command":" ","name":"","memory_in_mb":0,"disk_in_mb":-1,"log_rate_limit_in_bytes_per_second":-2}`,
			want: 422,
			has: []string{"Name can't be blank", "Command can't be blank", "Memory in mb must be greater than 0",
				"Disk in mb must be greater than 0", "Log rate limit"}},
		{as: "dev", do: runTask, body: `{"command":"` + strings.Repeat("x", 4097) + `"}`, want: 422,
			has: []string{"Command must be shorter than 4097 characters"}},
		{as: "dev", do: runTask, body: `{"command":"x","name":"a\nb"}`, want: 422,
			has: []string{"Name must not contain control characters"}},
		{as: "dev", do: runTask, body: `{"command":"x","name":"a\u0085b"}`, want: 422,
			has: []string{"Name must not contain control characters"}},
		{as: "dev", do: runTask, body: `{"command":"x","name":"` + strings.Repeat("é", 128) + `"}`, want: 422,
			has: []string{"Name is too long (maximum is 255 bytes)"}},
		{as: "dev", do: runTask, body: `{"command":"x","template":{}}`, want: 422,
			has: []string{"Template must have a process with a guid"}},
		{as: "dev", do: runTask, body: `{"template":{"process":{"guid":"$app2"}}}`, want: 404,
			has: []string{"Process not found"}},
		{as: "dev", do: runTask, body: `{"command":"x","droplet_guid":"$droplet2"}`, want: 422,
			has: []string{"Unable to use the droplet"}},
		{as: "dev", do: runTask, body: `{"command":"x","droplet_guid":"$none"}`, want: 422,
			has: []string{"Unable to use the droplet"}},
		{as: "dev", do: runTask, body: `{"command":"x","metadata":{"labels":{"-":"y"}}}`, want: 422},
		{as: "dev", do: "POST /v3/apps/$app2/tasks", body: `{"command":"x"}`, want: 404, has: []string{"App not found"}},

		// Lists.
		{as: "dev", do: "GET /v3/apps/$app/tasks?per_page=5000", want: 200, has: []string{"hunter4", `"total_results":4`}},
		{as: "dev", do: "GET /v3/apps/$app/tasks?sequence_ids=2&page=1&per_page=1", want: 200,
			has: []string{`"total_results":1`, "$task2"}},
		{as: "dev", do: "GET /v3/apps/$app/tasks?sequence_ids=two", want: 400},
		{as: "dev", do: "GET /v3/apps/$app/tasks?app_guids=$app", want: 400,
			has: []string{"Unknown query parameter(s): 'app_guids'"}},
		{as: "dev", do: "GET /v3/tasks?names=migrate&states=PENDING,RUNNING&app_guids=$app&space_guids=$space&organization_guids=$org&label_selector=tier=db&sequence_ids=1", want: 200, has: []string{`"total_results":1`, "$task"}, not: []string{"hunter4", "command"}},
		{as: "dev", do: "GET /v3/tasks?states=FAILED", want: 200, has: []string{`"total_results":0`}},
		{as: "dev", do: "GET /v3/tasks?guids=$task,$task3&order_by=-created_at", want: 200,
			has: []string{`"total_results":2`}},
		{as: "dev", do: "GET /v3/tasks/$task", want: 200, has: []string{"hunter4"}},
		{as: "dev", do: "GET /v3/apps/$app", want: 200, has: []string{"/v3/apps/$app/tasks"}},

		// Metadata, and nothing else, can be changed.
		{as: "dev", do: "PATCH /v3/tasks/$task", body: `{"metadata":{"labels":{"tier":null,"a":"b"}}}`, want: 200,
			has: []string{`"labels":{"a":"b"}`, "hunter4"}},
		{as: "dev", do: "PATCH /v3/tasks/$task", body: `{"command":"y"}`, want: 422,
			has: []string{"Unknown field(s): 'command'"}},
	})
	if w.signals.tasks != 4 {
		t.Errorf("told %d times, want 4", w.signals.tasks)
	}
	name, _ := w.call(w.admin(), "GET", w.expand("/v3/tasks/$task2"), nil).at("name").(string)
	if len(name) != 8 || strings.Trim(name, "0123456789abcdef") != "" {
		t.Errorf("a task without a name is called %q", name)
	}
	w.setTask(w.vars["task"], func(t *platform.Task) {
		t.State, t.Reason = platform.TaskFailed, "APP/TASK/migrate: Exited with status 3"
	})
	w.setTask(w.vars["task3"], func(t *platform.Task) { t.State = platform.TaskSucceeded })
	w.play([]step{
		{as: "dev", do: "GET /v3/tasks/$task", want: 200, has: []string{`"state":"FAILED"`,
			`"failure_reason":"APP/TASK/migrate: Exited with status 3"`}},
		{as: "dev", do: "PUT /v3/tasks/$task/cancel", want: 422,
			has: []string{"Task state is FAILED and therefore cannot be canceled"}},
		{as: "dev", do: "POST /v3/tasks/$task3/actions/cancel", want: 422,
			has: []string{"Task state is SUCCEEDED and therefore cannot be canceled"}},
		{as: "supporter", do: "POST /v3/tasks/$task2/actions/cancel", want: 202, has: []string{`"state":"CANCELING"`}},
		{as: "dev", do: "PUT /v3/tasks/$task2/cancel", want: 202, has: []string{`"state":"CANCELING"`}},
		{as: "dev", do: "PUT /v3/tasks/$task2/actions/cancel", want: 202},
		{do: "GET /v3/audit_events?types=audit.app.task.create", want: 200, has: []string{`"total_results":4`, "$task",
			`"memory_in_mb":64`, `"type":"app"`}, not: []string{"hunter4"}},
		{do: "GET /v3/audit_events?types=audit.app.task.cancel", want: 200, has: []string{`"total_results":1`,
			`"task_guid":"$task2"`, `"name":"supporter"`}},
	})
	// They go with their app.
	w.job(step{as: "dev", do: "DELETE /v3/apps/$app", want: 202})
	w.play([]step{
		{do: "GET /v3/tasks/$task", want: 404, has: []string{"Task not found"}},
		{do: "GET /v3/tasks", want: 200, has: []string{`"total_results":0`}},
	})
}

// Who may do what to tasks: the roles of Cloud Foundry.
func TestTaskRoles(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.staged()
	w.one(step{as: "dev", do: runTask, body: `{"command":"hunter4","name":"n"}`, want: 202, save: "task"})
	for _, user := range []string{"supporter", "auditor", "manager", "orgmanager"} {
		w.play([]step{
			{as: user, do: runTask, body: `{"command":"x"}`, want: 403},
			{as: user, do: "PATCH /v3/tasks/$task", body: `{"metadata":{"labels":{"a":"b"}}}`, want: 403},
			{as: user, do: "GET /v3/tasks/$task", want: 200, not: []string{"hunter4", "command"}},
			{as: user, do: "GET /v3/tasks", want: 200, has: []string{"$task"}, not: []string{"hunter4"}},
			{as: user, do: "GET /v3/apps/$app/tasks", want: 200, has: []string{"$task"}, not: []string{"hunter4"}},
		})
		if user != "supporter" {
			w.one(step{as: user, do: "PUT /v3/tasks/$task/cancel", want: 403})
		}
	}
	for _, user := range []string{"member", "orgauditor"} {
		w.play([]step{
			{as: user, do: runTask, body: `{"command":"x"}`, want: 404},
			{as: user, do: "GET /v3/tasks/$task", want: 404, has: []string{"Task not found"}},
			{as: user, do: "PUT /v3/tasks/$task/cancel", want: 404},
			{as: user, do: "GET /v3/tasks", want: 200, has: []string{`"total_results":0`}},
		})
	}
	w.play([]step{
		{do: "PATCH /v3/feature_flags/task_creation", body: `{"enabled":false}`, want: 200},
		{as: "dev", do: runTask, body: `{"command":"x"}`, want: 403, has: []string{"Feature Disabled: task_creation",
			"CF-FeatureDisabled"}},
		{do: runTask, body: `{"command":"x"}`, want: 202},
		{do: "PATCH /v3/feature_flags/task_creation", body: `{"enabled":true}`, want: 200},
		{do: "PATCH /v3/organizations/$org", body: `{"suspended":true}`, want: 200},
		{as: "dev", do: runTask, body: `{"command":"x"}`, want: 403, has: []string{"suspended"}},
	})
}

// Numbers are given out once, also when many ask at the same time and when old
// tasks are deleted.
func TestTaskNumbers(t *testing.T) {
	t.Parallel()
	for _, dialect := range dbtest.Dialects {
		t.Run(dialect.String(), func(t *testing.T) {
			t.Parallel()
			taskNumbers(t, newWorldOn(t, dialect))
		})
	}
}

func taskNumbers(t *testing.T, w *world) {
	t.Helper()
	w.staged()
	const many = 24
	numbers := make([]int, many)
	var all sync.WaitGroup
	dev, path := w.as("dev"), w.expand("/v3/apps/$app/tasks")
	for i := range many {
		all.Go(func() {
			a := w.call(dev, "POST", path, map[string]any{"command": "x"})
			n, _ := a.at("sequence_id").(float64)
			numbers[i] = int(n)
		})
	}
	all.Wait()
	slices.Sort(numbers)
	for i, n := range numbers {
		if n != i+1 {
			t.Fatalf("the numbers are %v", numbers)
		}
	}
	err := w.store.Update(t.Context(), func(tx platform.Tx) error {
		list, _, err := tx.Tasks().List(platform.Query{})
		for _, task := range list {
			task.State = platform.TaskSucceeded
			if err := tx.Tasks().Update(task); err != nil {
				return err
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	later := actions.New()
	later.Now = func() time.Time { return time.Now().Add(40 * 24 * time.Hour) }
	if err := w.store.Update(t.Context(), later.PurgeTasks); err != nil {
		t.Fatal(err)
	}
	w.play([]step{
		{do: "GET /v3/apps/$app/tasks", want: 200, has: []string{`"total_results":1`, fmt.Sprintf(`"sequence_id":%d`, many)}},
		{do: runTask, body: `{"command":"x"}`, want: 202, has: []string{fmt.Sprintf(`"sequence_id":%d`, many+1)}},
	})
}

// When too many wait, no more are taken.
func TestTooManyTasks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.staged()
	err := w.store.Update(t.Context(), func(tx platform.Tx) error {
		for i := range 1000 {
			if err := tx.Tasks().Insert(&platform.Task{AppGUID: w.vars["app2"], Sequence: i + 1,
				State: platform.TaskPending}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	w.one(step{as: "dev", do: runTask, body: `{"command":"x"}`, want: 503, has: []string{"CF-TaskWorkersUnavailable",
		"170020", "Try again later"}})
}

// One organization cannot use up what all have to wait in.
func TestTooManyTasksOfAnOrganization(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.staged()
	w.vars["droplet2"] = w.droplet(w.vars["app2"], &platform.Droplet{})
	err := w.store.Update(t.Context(), func(tx platform.Tx) error {
		for i := range 749 {
			if err := tx.Tasks().Insert(&platform.Task{AppGUID: w.vars["app"], Sequence: i + 1,
				State: platform.TaskPending}); err != nil {
				return err
			}
		}
		// These do not wait.
		return tx.Tasks().Insert(&platform.Task{AppGUID: w.vars["app"], Sequence: 750, State: platform.TaskRunning})
	})
	if err != nil {
		t.Fatal(err)
	}
	w.play([]step{
		{as: "dev", do: runTask, body: `{"command":"x"}`, want: 202, save: "task"},
		{as: "dev", do: runTask, body: `{"command":"x"}`, want: 503,
			has: []string{"CF-TaskWorkersUnavailable", "170020", "750 tasks of this organization",
				"its share is 750 of the 1000", "Try again later"}},
		{do: "POST /v3/apps/$app2/tasks", body: `{"command":"x","droplet_guid":"$droplet2"}`, want: 202},
		{as: "dev", do: "POST /v3/tasks/$task/actions/cancel", want: 202},
		{as: "dev", do: runTask, body: `{"command":"x"}`, want: 202},
	})
}

// Apps whose only task is old do not keep the old tasks of others.
func TestPurgeTasks(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		if err := d.Migrate(t.Context(), platformdb.Migrations); err != nil {
			t.Fatal(err)
		}
		store, now := platformdb.New(d), time.Now()
		err := store.Update(t.Context(), func(tx platform.Tx) error {
			add := func(app string, sequence int, state platform.TaskState, days int) error {
				at := now.Add(-time.Duration(days) * 24 * time.Hour)
				return tx.Tasks().Insert(&platform.Task{
					Resource: platform.Resource{GUID: fmt.Sprint(app, "-", sequence), Created: at, Updated: at}, AppGUID: app,
					Sequence: sequence, State: state,
				})
			}
			for i := range 600 {
				if err := add(fmt.Sprint("lone", i), 1, platform.TaskSucceeded, 50); err != nil {
					return err
				}
			}
			return errors.Join(
				add("busy", 1, platform.TaskSucceeded, 40), add("busy", 2, platform.TaskFailed, 39),
				add("busy", 3, platform.TaskRunning, 38),
				add("busy", 4, platform.TaskSucceeded, 30), add("busy", 5, platform.TaskSucceeded, 2),
				add("quiet", 1, platform.TaskSucceeded, 45), add("quiet", 2, platform.TaskSucceeded, 44),
			)
		})
		if err != nil {
			t.Fatal(err)
		}
		p := actions.New()
		if err := store.Update(t.Context(), p.PurgeTasks); err != nil {
			t.Fatal(err)
		}
		err = store.View(t.Context(), func(tx platform.Tx) error {
			var left []string
			list, total, err := tx.Tasks().List(platform.Where("app_guid", "busy", "quiet"))
			for _, task := range list {
				left = append(left, task.GUID)
			}
			slices.Sort(left)
			if !slices.Equal(left, []string{"busy-3", "busy-4", "busy-5", "quiet-2"}) {
				t.Errorf("left are %v of %d", left, total)
			}
			if err != nil {
				return err
			}
			all, err := tx.Tasks().Count(platform.Query{})
			if all != 604 {
				t.Errorf("%d are left, want 604", all)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	})
}
