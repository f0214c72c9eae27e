package api_test

import (
	"slices"
	"strings"
	"testing"

	"ingot/internal/platform"
)

// TestStackStates: a stack is phased out step by step, as Cloud Foundry does it.
func TestStackStates(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	newApp := func(name string, want int, has ...string) step {
		return step{as: "dev", do: "POST /v3/apps", body: `{"name":"` + name +
			`","relationships":{"space":{"data":{"guid":"$space"}}}}`, want: want, has: has}
	}
	set := func(state, reason string) step {
		return step{do: "PATCH /v3/stacks/$stack", body: `{"state":"` + state + `","state_reason":"` + reason + `"}`,
			want: 200, has: []string{`"state":"` + state + `"`, `"state_reason":"` + reason + `"`}}
	}
	build := func(name string, want int, has ...string) *answer {
		t.Helper()
		w.one(step{as: "dev", do: "POST /v3/packages", body: `{"type":"bits","relationships":{"app":{"data":{"guid":"$` +
			name + `"}}}}`, want: 201, save: "package"})
		w.want(w.upload(w.as("dev"), "/v3/packages/"+w.vars["package"]+"/upload", "app.zip", "x", nil), 200)
		return w.one(step{as: "dev", do: "POST /v3/builds", body: `{"package":{"guid":"$package"}}`, want: want, has: has})
	}
	w.play([]step{
		{do: "GET /v3/stacks?names=cflinuxfs4", want: 200, save: "stack", has: []string{`"state":"ACTIVE"`,
			`"state_reason":null`}},
		{do: "PATCH /v3/stacks/$stack", body: `{"state":"GONE"}`, want: 422,
			has: []string{"State must be one of ACTIVE, RESTRICTED, DEPRECATED, DISABLED"}},
		{as: "dev", do: "PATCH /v3/stacks/$stack", body: `{"state":"DISABLED"}`, want: 403},
	})
	w.staged() // the app of the world
	fresh := newApp("fresh", 201)
	fresh.save = "fresh"
	w.play([]step{fresh, set("DEPRECATED", "Use another."), newApp("second", 201)})
	const warning = "WARNING%3A+The+stack+%27cflinuxfs4%27+is+%27DEPRECATED%27+and+will+be+removed+in+the+future.+Use+another."
	if a := build("app", 201); !slices.Contains(a.header.Values("X-Cf-Warnings"), warning) {
		t.Errorf("got the warnings %q, want %q", a.header.Values("X-Cf-Warnings"), warning)
	}
	const refused = "ERROR: Staging failed. The stack 'cflinuxfs4' is 'RESTRICTED' and cannot be used for staging. Soon."
	w.play([]step{set("RESTRICTED", "Soon."), newApp("third", 422, refused)})
	build("fresh", 422, refused)
	w.one(set("DISABLED", "Gone."))
	disabled := strings.NewReplacer("RESTRICTED", "DISABLED", "Soon", "Gone").Replace(refused)
	w.one(newApp("fourth", 422, disabled))
	if err := w.store.Update(t.Context(), func(tx platform.Tx) error {
		_, err := tx.Builds().
			DeleteAll(platform.Query{})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	build("app", 422, disabled)
	// What is staged still starts.
	w.play([]step{{as: "dev", do: "POST /v3/apps/$app/actions/start", want: 200}, {do: "PATCH /v3/stacks/$stack",
		body: `{"metadata":{"labels":{"a":"b"}}}`, want: 200, has: []string{`"state":"DISABLED"`, `"a":"b"`}}})
}

// TestCreateStack: an administrator adds a name that apps and buildpacks can ask for.
func TestCreateStack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const own = `{"name":"own","lifecycle":{"type":"buildpack","data":{"stack":"mine"}},"relationships":{"space":{"data":{"guid":"$space"}}}}`
	w.play([]step{
		{as: "dev", do: "POST /v3/stacks", body: `{"name":"mine"}`, want: 403},
		{do: "POST /v3/stacks", body: `{}`, want: 422, has: []string{"Name can't be blank"}},
		{do: "POST /v3/stacks", body: `{"name":"mine","state":"GONE"}`, want: 422, has: []string{"State must be one of"}},
		{do: "POST /v3/stacks", body: `{"name":"` + strings.Repeat("n", 251) + `"}`, want: 422,
			has: []string{"Name is too long"}},
		{do: "POST /v3/stacks", body: `{"name":"cflinuxfs4"}`, want: 422, has: []string{"Name must be unique"}},
		{as: "dev", do: "POST /v3/apps", body: own, want: 422, has: []string{"Stack must be an existing stack"}},
		{do: "POST /v3/stacks", body: `{"name":"mine","description":"Another name","metadata":{"labels":{"a":"b"}}}`,
			want: 201, save: "mine",
			has: []string{`"name":"mine"`, `"description":"Another name"`, `"default":false`, `"state":"ACTIVE"`, `"a":"b"`}},
		{as: "stranger", do: "GET /v3/stacks?names=mine", want: 200, has: []string{`"total_results":1`}},
		{as: "dev", do: "POST /v3/apps", body: own, want: 201, save: "own"},
		{as: "dev", do: "DELETE /v3/stacks/$mine", want: 403},
		{do: "DELETE /v3/stacks/$mine", want: 422,
			has: []string{"Cannot delete stack 'mine' because apps are currently using the stack."}},
		{as: "dev", do: "PATCH /v3/apps/$own", body: `{"lifecycle":{"type":"buildpack","data":{"stack":"cflinuxfs4"}}}`,
			want: 200},
		{do: "DELETE /v3/stacks/$mine", want: 204},
		{do: "GET /v3/stacks/$mine", want: 404},
		{do: "GET /v3/audit_events?target_guids=$mine&types=audit.stack.create,audit.stack.delete", want: 200,
			has: []string{`"total_results":2`}},
	})
}

func TestClearBuildpackCache(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.play([]step{
		{as: "dev", do: "POST /v3/admin/actions/clear_buildpack_cache", want: 403},
		{as: "auditor", do: "POST /v3/apps/$app/actions/clear_buildpack_cache", want: 403},
		{as: "dev", do: "POST /v3/apps/$app2/actions/clear_buildpack_cache", want: 404, has: []string{"App not found"}},
	})
	for do, operation := range map[string]string{
		"POST /v3/apps/$app/actions/clear_buildpack_cache": "app.clear_buildpack_cache",
		"POST /v3/admin/actions/clear_buildpack_cache":     "admin.clear_buildpack_cache",
	} {
		if job := w.job(step{do: do, want: 202}); job.at("state") != "COMPLETE" || job.at("operation") != operation {
			t.Errorf("%s: job %s, want a complete %s", do, job.body, operation)
		}
	}
	if got, want := slices.Sorted(slices.Values(w.blobs.cleared)), []string{"", w.vars["app"]}; !slices.Equal(got, want) {
		t.Errorf("the caches %q were cleared, want %q", got, want)
	}
}
