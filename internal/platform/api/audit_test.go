package api_test

import (
	"testing"

	"ingot/internal/platform"
	"ingot/internal/platform/services/brokertest"
)

// TestAuditEventsOfWrites checks that each write records its audit event, once
// and about its target.
func TestAuditEventsOfWrites(t *testing.T) {
	t.Parallel()
	m := newMarket(t, &brokertest.Broker{})
	m.create("db", "sync")
	m.vars["binding"] = m.done(step{as: "dev", do: "POST /v3/service_credential_bindings", want: 202, body: bindApp})
	m.vars["key"] = m.done(step{as: "dev", do: "POST /v3/service_credential_bindings", want: 202,
		body: `{"type":"key","name":"k","relationships":{"service_instance":{"data":{"guid":"$db"}}}}`})
	ofApp := `{"relationships":{"app":{"data":{"guid":"$app"}}}}`
	label := `{"metadata":{"labels":{"k":"v"}}}`
	m.play([]step{
		{do: "POST /v3/buildpacks", body: `{"name":"mine"}`, want: 201, save: "buildpack"},
		{do: "PATCH /v3/buildpacks/$buildpack", body: `{"position":2}`, want: 200},
		{do: "GET /v3/stacks", want: 200, save: "stack"},
		{do: "PATCH /v3/stacks/$stack", body: label, want: 200},
		{do: "GET /v3/service_brokers?names=b", want: 200, save: "broker"},
		{do: "PATCH /v3/service_brokers/$broker", body: label, want: 200},
		{as: "dev", do: "PATCH /v3/service_credential_bindings/$binding", body: label, want: 200},
		{as: "dev", do: "PATCH /v3/service_credential_bindings/$key", body: label, want: 200},
		{as: "dev", do: "POST /v3/routes",
			body: `{"host":"h","relationships":{"space":{"data":{"guid":"$space"}},"domain":{"data":{"guid":"$domain"}}}}`,
			want: 201, save: "route"},
		{as: "dev", do: "PATCH /v3/routes/$route", body: `{"options":{"loadbalancing":"round-robin"}}`, want: 200},
		{as: "dev", do: "POST /v3/apps/$app/sidecars", body: `{"name":"sc","command":"run","process_types":["web"]}`,
			want: 201, save: "sidecar"},
		{as: "dev", do: "DELETE /v3/sidecars/$sidecar", want: 204},
		{as: "dev", do: "POST /v3/droplets", body: ofApp, want: 201, save: "droplet"},
		{do: "GET /v3/service_offerings?names=fake", want: 200, save: "offering"},
		{do: "DELETE /v3/service_plans/$garbage", want: 204},
		{do: "PATCH /v3/service_plans/$paid/visibility", body: `{"type":"organization","organizations":[{"guid":"$org"}]}`,
			want: 200},
		{do: "DELETE /v3/service_plans/$paid/visibility/$org", want: 204},
		{do: "POST /v3/organization_quotas",
			body: `{"name":"oq","relationships":{"organizations":{"data":[{"guid":"$org"}]}}}`, want: 201, save: "orgquota"},
		{do: "PATCH /v3/organization_quotas/$orgquota", body: `{"routes":{"total_routes":77}}`, want: 200},
		{do: "POST /v3/organization_quotas", body: `{"name":"unused"}`, want: 201, save: "oldorgquota"},
		{do: "DELETE /v3/organization_quotas/$oldorgquota", want: 202},
		{do: "POST /v3/space_quotas", body: `{"name":"sq","relationships":{"organization":{"data":{"guid":"$org"}}}}`,
			want: 201, save: "spacequota"},
		{do: "POST /v3/space_quotas/$spacequota/relationships/spaces", body: `{"data":[{"guid":"$space"}]}`, want: 200},
		{do: "PATCH /v3/space_quotas/$spacequota", body: `{"routes":{"total_routes":78}}`, want: 200},
		{do: "DELETE /v3/space_quotas/$spacequota/relationships/spaces/$space", want: 204},
		{do: "DELETE /v3/space_quotas/$spacequota", want: 202},
		{do: "DELETE /v3/service_offerings/$offering?purge=true", want: 204},
	})
	m.file("", "/v3/buildpacks/$buildpack/upload", "b.zip", "zip", nil, step{want: 202})
	m.one(step{do: "DELETE /v3/buildpacks/$buildpack", want: 202})
	m.file("dev", "/v3/droplets/$droplet/upload", "d.tgz", "droplet", nil, step{want: 202})
	m.one(step{as: "dev", do: "GET /v3/droplets/$droplet/download", want: 302})
	m.one(step{as: "dev", do: "POST /v3/packages",
		body: `{"type":"bits","relationships":{"app":{"data":{"guid":"$app"}}}}`, want: 201, save: "package"})
	m.file("dev", "/v3/packages/$package/upload", "p.zip", "zip", nil, step{want: 200})
	m.one(step{as: "dev", do: "GET /v3/packages/$package/download", want: 302})
	m.vars["old"] = m.droplet(m.vars["app"], &platform.Droplet{})
	m.one(step{as: "dev", do: "DELETE /v3/droplets/$old", want: 202})

	for _, want := range []struct{ kind, target, data string }{
		{"audit.buildpack.create", "$buildpack", ""},
		{"audit.buildpack.update", "$buildpack", ""},
		{"audit.buildpack.upload", "$buildpack", ""},
		{"audit.buildpack.delete", "$buildpack", ""},
		{"audit.stack.update", "$stack", ""},
		{"audit.service_broker.update", "$broker", ""},
		{"audit.service_binding.update", "$binding", "$app"},
		{"audit.service_key.update", "$key", "$db"},
		{"audit.service.delete", "$offering", `"purge":true`},
		{"audit.service_plan.delete", "$garbage", ""},
		{"audit.service_instance.purge", "$db", ""},
		{"audit.route.update", "$route", "round-robin"},
		{"audit.app.droplet.upload", "$app", "$droplet"},
		{"audit.app.droplet.delete", "$app", "$old"},
		{"audit.app.droplet.download", "$app", "$droplet"},
		{"audit.app.package.download", "$app", "$package"},
		{"audit.service_plan_visibility.delete", "$paid", `"organization":{"guid":"$org"}`},
		{"audit.organization_quota.create", "$orgquota", `"name":"oq"`},
		{"audit.organization_quota.apply", "$orgquota", `"organization_guid":"$org"`},
		{"audit.organization_quota.update", "$orgquota", `"routes":77`},
		{"audit.organization_quota.delete", "$oldorgquota", ""},
		{"audit.space_quota.create", "$spacequota", `"name":"sq"`},
		{"audit.space_quota.apply", "$spacequota", `"space_guid":"$space"`},
		{"audit.space_quota.update", "$spacequota", `"routes":78`},
		{"audit.space_quota.remove", "$spacequota", `"space_guid":"$space"`},
		{"audit.space_quota.delete", "$spacequota", ""},
	} {
		m.one(step{do: "GET /v3/audit_events?types=" + want.kind + "&target_guids=" + want.target, want: 200,
			has: []string{`"total_results":1`, want.data}})
	}
	// One of its creation, one of its deletion.
	m.one(step{do: "GET /v3/audit_events?types=audit.app.update&target_guids=$app", want: 200,
		has: []string{`"total_results":2`, `"sidecar":"sc"`}})
}
