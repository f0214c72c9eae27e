package api_test

import (
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"ingot/internal/platform/services/brokertest"
)

// TestDeleteBoundService deletes instances that are bound and shared: the broker
// is asked to unbind first, and when it refuses that is what the user is told.
func TestDeleteBoundService(t *testing.T) {
	t.Parallel()
	var refuse atomic.Bool
	var mu sync.Mutex
	var order []string
	m := newMarket(t, &brokertest.Broker{Polls: 1, Hook: func(r *brokertest.Request) (*brokertest.Reply, bool) {
		mu.Lock()
		defer mu.Unlock()
		if op := r.Operation(); op == "unbind" || op == "deprovision" {
			order = append(order, op)
		}
		if refuse.Load() && r.Operation() == "unbind" {
			return &brokertest.Reply{Status: 422, Body: map[string]any{"description": "it is in use"}}, false
		}
		return nil, false
	}})
	bind := func() {
		t.Helper()
		m.vars["bound"] = m.done(step{as: "dev", do: "POST /v3/service_credential_bindings", body: bindApp, want: 202})
		m.vars["key"] = m.done(step{as: "dev", do: "POST /v3/service_credential_bindings",
			body: `{"type":"key","name":"k","relationships":{"service_instance":{"data":{"guid":"$db"}}}}`, want: 202})
	}
	remove := step{as: "dev", do: "DELETE /v3/service_instances/$db", want: 202}
	for _, plan := range []string{"sync", "async"} {
		m.create("db", plan)
		bind()
		// Another app uses it, too.
		m.play([]step{
			{do: "PATCH /v3/feature_flags/service_instance_sharing", body: `{"enabled":true}`, want: 200},
			{do: "POST /v3/service_instances/$db/relationships/shared_spaces", body: `{"data":[{"guid":"$space2"}]}`, want: 200},
		})
		m.vars["across"] = m.done(step{do: "POST /v3/service_credential_bindings", want: 202,
			body: `{"type":"app","relationships":{"app":{"data":{"guid":"$app2"}},"service_instance":{"data":{"guid":"$db"}}}}`})

		refuse.Store(true)
		m.fails(remove, "Unbinding of 'db' failed: ")
		m.play([]step{
			{as: "dev", do: "GET /v3/service_instances/$db", want: 200, has: []string{`"type":"delete"`, `"state":"failed"`,
				"it is in use"}},
			{as: "dev", do: "GET /v3/service_credential_bindings/$bound", want: 200},
			{as: "dev", do: "GET /v3/apps/$app/env", want: 200, has: []string{"secret-$bound"}},
		})
		refuse.Store(false)
		if j := m.job(remove); j.at("state") != "COMPLETE" || j.at("operation") != "service_instance.delete" {
			t.Errorf("job %s", j.body)
		}
		m.play([]step{
			{as: "dev", do: "GET /v3/service_instances/$db", want: 404},
			{as: "dev", do: "GET /v3/service_credential_bindings/$bound", want: 404},
			{as: "dev", do: "GET /v3/service_credential_bindings/$key", want: 404},
			{do: "GET /v3/service_credential_bindings/$across", want: 404},
		})
		if b, i := m.broker.Bindings(), len(m.broker.Instances()); b != 0 || i != 0 {
			t.Errorf("%d bindings of %d instances are left at the broker", b, i)
		}
	}
	mu.Lock()
	// Three bindings of each: refused, and asked for again.
	if i := slices.Index(order, "deprovision"); i != 6 || order[len(order)-1] != "deprovision" || len(order) != 14 {
		t.Errorf("the broker was asked for %v", order)
	}
	mu.Unlock()
	// What a user provides goes at once, with what is bound to it.
	m.play([]step{
		{as: "dev", do: "POST /v3/service_instances",
			body: `{"type":"user-provided","name":"ups","credentials":{"a":"b"},"relationships":{"space":{"data":{"guid":"$space"}}}}`, want: 201, save: "db"},
		{as: "dev", do: "POST /v3/service_credential_bindings", body: bindApp, want: 201, save: "bound"},
		{as: "auditor", do: "DELETE /v3/service_instances/$db", want: 403},
		{as: "dev", do: "DELETE /v3/service_instances/$db", want: 204},
		{as: "dev", do: "GET /v3/service_credential_bindings/$bound", want: 404},
	})
}
