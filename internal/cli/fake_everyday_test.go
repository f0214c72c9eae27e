package cli_test

import (
	"fmt"
	"net/http"
	"strings"
)

// rawFile is a response that is not JSON.
type rawFile string

// everydayAnswer is the fake's response to the commands of everyday_test.go; status 0
// means none.
func everydayAnswer(call string, r *http.Request) (int, any) {
	broker := object{"guid": "broker-guid", "name": "local", "url": "https://broker.test"}
	user := object{"guid": "user-guid", "username": "admin", "presentation_name": "admin", "origin": "uaa"}
	role := func(kind string) object {
		return object{"guid": "role-guid", "type": kind, "relationships": object{"user": to("user-guid")}}
	}
	metadata := object{"metadata": object{"labels": object{"team": "blue", "tier": "1"}}}
	droplet := object{"guid": "droplet-guid", "state": "STAGED", "created_at": stamp}
	switch call {
	case "GET /v3/apps/app-guid/features/revisions":
		return 200, object{"name": "revisions", "enabled": true}
	case "GET /v3/apps/app-guid/revisions":
		switch r.URL.Query().Get("versions") {
		case "":
			return 200, list(revision(2), revision(1))
		case "1":
			return 200, list(revision(1))
		case "2":
			return 200, list(revision(2))
		}
		return 200, list()
	case "GET /v3/apps/app-guid/revisions/deployed":
		return 200, list(revision(2))
	case "GET /v3/revisions/revision-1/environment_variables":
		return 200, object{"var": object{"GREETING": "hello", "OLD": "x"}}
	case "GET /v3/revisions/revision-2/environment_variables":
		return 200, object{"var": object{"GREETING": "good day"}}
	case "GET /oauth/clients":
		return 200, object{"resources": []any{sender(), object{"client_id": "admin",
			"authorized_grant_types": []string{"client_credentials"}, "scope": []string{"uaa.none"},
			"authorities": []string{"clients.admin", "scim.read", "scim.write", "uaa.admin"}}}, "totalResults": 2}
	case "GET /oauth/clients/sender", "PUT /oauth/clients/sender", "DELETE /oauth/clients/sender":
		return 200, sender()
	case "GET /oauth/clients/sendr", "DELETE /oauth/clients/nothing":
		return 404, object{"error": "not_found", "error_description": "No client with requested id"}
	case "PUT /oauth/clients/sender/secret":
		return 200, object{"status": "ok", "message": "Secret is updated"}
	case "POST /v3/droplets":
		return 201, object{"guid": "droplet-guid", "state": "AWAITING_UPLOAD"}
	case "GET /v3/droplets/droplet-1", "GET /v3/droplets/droplet-2":
		n := strings.TrimPrefix(call, "GET /v3/droplets/droplet-")
		return 200, object{"guid": "droplet-" + n, "state": "STAGED", "stack": "cflinuxfs4", "created_at": "2026-01-0" + n +
			"T03:04:05Z", "image": nil,
			"buildpacks":    []any{object{"name": "nodejs_buildpack", "version": "1." + n}},
			"process_types": object{"web": "node app.js"},
			"checksum":      object{"type": "sha256", "value": strings.Repeat(n+"abc", 16)}}
	case "POST /v3/ingot/apps/app-guid/deploy":
		return 202, object{"app": object{"guid": "app-guid"}, "build": object{"guid": "build-guid"},
			"job": object{"guid": "job-guid"}}
	case "GET /v3/ingot/apps/app-guid/git-source", "POST /v3/ingot/apps/app-guid/git-source/secret":
		hook := object{"url": "https://api.test/v3/ingot/git-hooks/source-guid", "enabled": true}
		if r.Method == http.MethodPost {
			hook["secret"] = "the-secret"
		}
		return 200, object{"url": "https://git.example.com/shop.git", "branch": "main", "folder": nil, "username": nil,
			"has_password": true, "owner": "anna", "commit": "0123456789012345678901234567890123456789",
			"subject": "A shop", "deployed_at": stamp, "error": nil, "webhook": hook}
	case "DELETE /v3/ingot/apps/app-guid/git-source":
		return 204, nil
	case "GET /v3/droplets":
		return 200, list(droplet, object{"guid": "older-guid", "state": "EXPIRED", "created_at": stamp})
	case "GET /v3/droplets/droplet-guid/download":
		return 200, rawFile("\x1f\x8bdroplet")
	case "DELETE /v3/apps/app-guid/processes/web/instances/0", "DELETE /Users/user-guid":
		return 204, nil
	case "GET /v3/apps/app-guid/ssh_enabled":
		return 200, object{"enabled": false, "reason": "Disabled for space dev"}
	case "PATCH /v3/apps/app-guid/features/ssh":
		return 200, object{"name": "ssh", "enabled": true}
	case "GET /v3/apps/app-guid":
		return 200, metadata
	case "GET /v3/organizations/org-guid/domains":
		return 200, list(
			object{"guid": "domain-guid", "name": "apps.test", "supported_protocols": []string{"http"},
				"relationships": object{"organization": object{"data": nil}}},
			object{"guid": "own-guid", "name": "shop.test", "supported_protocols": []string{"http"},
				"relationships": object{"organization": to(guidOrg)}})
	case "GET /v3/service_plans/plan-guid":
		return 200, object{"guid": "plan-guid", "name": "small", "maintenance_info": object{"version": "2.0.0"},
			"relationships": object{"service_offering": to("offering-guid")}}
	case "PATCH /v3/service_instances/si-guid":
		return 200, object{"guid": "si-guid", "name": "db"}
	case "GET /Users":
		if r.URL.Query().Get("filter") == `userName eq "admin" and origin eq "uaa"` {
			return 200, object{"resources": []any{object{"id": "user-guid"}}}
		}
		return 200, object{"resources": []any{}}
	case "POST /Users":
		return 201, object{"id": "new-user"}
	case "POST /v3/users":
		return 201, object{"guid": "new-user"}
	case "GET /v3/roles":
		l := list(role("organization_manager"), role("organization_user"), role("space_developer"))
		l["included"] = object{"users": []any{user}}
		return 200, l
	case "GET /v3/feature_flags":
		return 200, list(object{"name": "user_org_creation", "enabled": false},
			object{"name": "app_scaling", "enabled": true})
	case "PATCH /v3/feature_flags/user_org_creation":
		return 200, object{"name": "user_org_creation", "enabled": true}
	case "GET /v3/service_brokers":
		return 200, one(r, broker)
	case "GET /v3/service_offerings":
		return 200, one(r, object{"guid": "offering-guid", "name": "postgres"})
	case "POST /v3/service_plans/plan-guid/visibility":
		return 200, object{"type": "public"}
	}
	return 0, nil
}

// revision is one of two of the app.
func revision(n int) object {
	return object{
		"guid": fmt.Sprintf("revision-%d", n), "version": n, "droplet": object{"guid": fmt.Sprintf("droplet-%d", n)},
		"created_at":  stamp,
		"description": []string{"Initial revision.", "New droplet deployed."}[n-1], "deployable": n == 2,
		"processes": object{"web": object{"command": nil}},
		"sidecars": []any{object{"name": "config", "command": "./config", "process_types": []string{"web"},
			"memory_in_mb": nil}},
		"ingot": object{
			"processes": object{"web": object{"memory_in_mb": 64 * n,
				"health_check": object{"type": "port", "data": object{"timeout": nil}}}},
			"sidecars": object{},
		},
		"metadata": object{"labels": object{"by": "ci"}, "annotations": object{}},
	}
}

// message is one that the notification service could not deliver.
func message() object {
	return object{"id": "message-1", "send_id": "send-1", "status": "failed", "email": "dora@example.org", "attempts": 3,
		"updated_at": "2026-11-18T12:00:00Z", "reason": "550 5.1.1 no such user"}
}

func sender() object {
	return object{
		"client_id": "sender", "name": "Disk watch", "authorized_grant_types": []string{"client_credentials"},
		"scope":       []string{"uaa.none"},
		"authorities": []string{"notifications.write"}, "autoapprove": []string{}, "resource_ids": []string{},
		"lastModified": 1767323045000, "token_salt": "kept",
	}
}

func init() { //nolint:gochecknoinits // more rows of the table in fake_test.go
	for _, call := range []string{
		"POST /v3/droplets/droplet-guid/upload", "DELETE /v3/organizations/org-guid", "DELETE /v3/spaces/space-guid",
		"DELETE /v3/users/user-guid",
		"DELETE /v3/roles/role-guid", "POST /v3/service_brokers", "DELETE /v3/service_brokers/broker-guid",
	} {
		jobs[call] = true
	}
}
