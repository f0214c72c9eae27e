package api_test

import (
	"testing"

	"ingot/internal/base/testkit"
	"ingot/internal/platform/services/brokertest"
)

// TestRotateCredentials rotates a binding and a key through the API: who may, what is refused,
// and what is shown.
func TestRotateCredentials(t *testing.T) {
	t.Parallel()
	m := newMarket(t, &brokertest.Broker{})
	m.create("db", "sync")
	const rotate, list = "POST /v3/ingot/service_instances/$db/rotate", "GET /v3/ingot/service_instances/$db/rotations"
	m.one(step{as: "dev", do: rotate, body: `{}`, want: 422, has: []string{"no bindings to rotate"}})
	m.vars["binding"] = m.done(step{as: "dev", do: "POST /v3/service_credential_bindings", body: bindApp, want: 202})
	m.vars["key"] = m.done(step{as: "dev", do: "POST /v3/service_credential_bindings",
		body: `{"type":"key","name":"k","relationships":{"service_instance":{"data":{"guid":"$db"}}}}`, want: 202})
	password := func(guid string) any {
		t.Helper()
		return m.one(step{as: "dev", do: "GET /v3/service_credential_bindings/$" + guid + "/details", want: 200,
			has: []string{"credentials"}}).json["credentials"].(map[string]any)["password"]
	}
	app, key := password("binding"), password("key")

	m.one(step{as: "auditor", do: rotate, body: `{}`, want: 403})
	m.one(step{as: "stranger", do: rotate, body: `{}`, want: 404})
	m.one(step{as: "dev", do: rotate, body: `{"grace_seconds":-1}`, want: 422, has: []string{"between 0 and 604800"}})
	m.one(step{as: "dev", do: rotate, body: `{"grace":1}`, want: 422})
	m.one(step{as: "dev", do: rotate, body: `{"apps":["none"]}`, want: 422,
		has: []string{"is not bound to the app 'none'"}})
	m.one(step{as: "dev", do: "POST /v3/ingot/service_instances/none/rotate", body: `{}`, want: 404})

	m.done(step{as: "dev", do: rotate, body: `{"grace_seconds":0,"apps":["$app"]}`, want: 202})
	if password("binding") == app || password("key") != key {
		t.Error("want new credentials of the app, and the old ones of the key")
	}
	testkit.Eventually(t, "the old credentials are revoked", func() bool { return m.broker.Bindings() == 2 })
	m.done(step{as: "dev", do: rotate, body: `{"keys":true,"apps":[]}`, want: 202})
	if password("key") == key {
		t.Error("the key has its old credentials")
	}
	m.one(step{as: "auditor", do: list, want: 200, has: []string{`"state":"revoked"`, `"method":"none"`,
		`"total_results":2`, "$binding", "$key"}, not: []string{"secret-"}})
	m.one(step{as: "stranger", do: list, want: 404})
	m.one(step{as: "dev", do: list + "?states=failed", want: 200, has: []string{`"total_results":0`}})
	m.one(step{as: "dev", do: "GET /v3/service_credential_bindings/$binding", want: 200, has: []string{`"type":"create"`,
		`"state":"succeeded"`}})
	m.one(step{do: "GET /v3/audit_events?types=audit.service_binding.rotate,audit.service_binding.revoke,audit.service_key.rotate", want: 200, has: []string{`"total_results":3`}})
	m.one(step{as: "dev", do: "PATCH /v3/apps/$app/processes/web", body: `{"on_credentials":"SIGHUP"}`, want: 200,
		has: []string{`"on_credentials":"SIGHUP"`}})
	m.one(step{as: "dev", do: "PATCH /v3/apps/$app/processes/web", body: `{"on_credentials":"SIGKILL"}`, want: 422,
		has: []string{"On credentials must be restart, none"}})
}
