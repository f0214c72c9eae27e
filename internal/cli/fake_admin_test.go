package cli_test

import (
	"net/http"
	"strings"
)

// adminAnswer is the fake's response to the commands of administrators; status 0 means none.
func adminAnswer(call string, r *http.Request) (int, any) {
	quota := object{
		"guid": "quota-guid", "name": "large",
		"apps": object{"total_memory_in_mb": 10240, "per_process_memory_in_mb": nil, "total_instances": 50,
			"log_rate_limit_in_bytes_per_second": 1 << 20},
		"services": object{"paid_services_allowed": true, "total_service_instances": 10},
		"routes":   object{"total_routes": 100, "total_reserved_ports": 0},
	}
	group := object{
		"guid": "group-guid", "name": "database", "rules": []any{object{"protocol": "tcp", "destination": "10.0.0.0/8",
			"ports": "5432"}},
		"globally_enabled": object{"running": false, "staging": true},
		"relationships": object{"running_spaces": object{"data": []any{object{"guid": guidSpace}}},
			"staging_spaces": object{"data": []any{}}},
	}
	policy := object{"source": object{"id": guidApp}, "destination": object{"id": guidApp, "protocol": "tcp",
		"ports": object{"start": 8080, "end": 8090}}}
	stack := object{"guid": "stack-guid", "name": "cflinuxfs4", "description": "this machine", "state": "DEPRECATED",
		"state_reason": "Use a newer one."}
	switch call {
	case "GET /v3/organization_quotas", "GET /v3/space_quotas":
		return 200, one(r, quota)
	case "GET /v3/security_groups":
		return 200, one(r, group)
	case "GET /v3/isolation_segments":
		return 200, one(r, object{"guid": "segment-guid", "name": "gpu"})
	case "GET /v3/isolation_segments/segment-guid/organizations":
		return 200, list(object{"guid": guidOrg, "name": "acme"})
	case "GET /v3/organizations/org-guid/relationships/default_isolation_segment",
		"GET /v3/spaces/space-guid/relationships/isolation_segment":
		return 200, to("segment-guid")
	case "GET /v3/isolation_segments/segment-guid":
		return 200, object{"guid": "segment-guid", "name": "gpu"}
	case "GET /v3/spaces/space-guid/running_security_groups", "GET /v3/spaces/space-guid/staging_security_groups":
		return 200, list(group)
	case "GET /v3/spaces/space-guid/features/ssh":
		return 200, object{"name": "ssh", "enabled": true}
	case "GET /networking/policies":
		return 200, object{"total_policies": 1, "policies": []any{policy}}
	case "GET /routing/v1/router_groups":
		return 200, []any{object{"guid": "router-group-guid", "name": "default-tcp", "type": "tcp",
			"reservable_ports": "1024-1123"}}
	case "GET /v3/environment_variable_groups/running", "GET /v3/environment_variable_groups/staging":
		return 200, object{"var": object{"REGION": "north"}}
	case "GET /v3/feature_flags/task_creation":
		return 200, object{"name": "task_creation", "enabled": true}
	case "GET /v3/stacks":
		return 200, one(r, stack)
	case "PATCH /v3/stacks/stack-guid":
		return 200, stack
	case "GET /v3/routes/route-guid":
		return 200, object{
			"guid": "route-guid", "url": "shop.apps.test", "host": "shop", "protocol": "http",
			"options": object{"loadbalancing": "least-connection"},
			"destinations": []any{object{"guid": "dest-guid", "app": object{"guid": guidApp, "process": object{"type": "web"}},
				"port": 8080, "protocol": "http1"}},
		}
	case "GET /v3/domains/domain-guid/route_reservations":
		return 200, object{"matching_route": r.URL.Query().Get("host") == "shop"}
	case "GET /v3/buildpacks":
		return 200, one(r, object{"guid": "pack-guid", "name": "binary_buildpack", "position": 1, "stack": "cflinuxfs4",
			"enabled": true, "state": "READY"})
	case "GET /v3/packages/package-guid":
		return 200, object{"guid": "package-guid", "state": "READY"}
	case "GET /v3/apps/app-guid/manifest":
		return 200, rawFile("applications:\n- name: shop\n")
	case "GET /v3/service_route_bindings":
		return 200, list(object{"guid": "route-binding-guid"})
	case "GET /v3/service_plans/plan-guid/visibility":
		return 200, object{"type": "organization", "organizations": []any{object{"guid": guidOrg, "name": "acme"}}}
	case "GET /oauth/authorize":
		return 200, object{}
	}
	method, path, _ := strings.Cut(call, " ")
	for _, changed := range adminChanges {
		if method != http.MethodGet && strings.HasPrefix(path, changed) {
			return map[bool]int{true: 201, false: 200}[method == http.MethodPost], object{"guid": "new-guid", "name": "new",
				"state": "READY"}
		}
	}
	return 0, nil
}

// adminChanges are the beginnings of the paths at which the fake accepts changes.
var adminChanges = []string{
	"/v3/organization_quotas", "/v3/space_quotas", "/v3/security_groups", "/v3/isolation_segments",
	"/v3/organizations/org-guid", "/v3/spaces/space-guid",
	"/networking/policies", "/v3/environment_variable_groups", "/v3/domains", "/v3/routes/route-guid", "/v3/buildpacks",
	"/v3/packages", "/v3/processes/app-guid",
	"/v3/service_brokers/broker-guid", "/v3/service_offerings/offering-guid", "/v3/service_instances/si-guid",
	"/v3/service_route_bindings",
}
