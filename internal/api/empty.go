package api

import (
	"net/http"

	"ingot/internal/cf"
	"ingot/internal/web"
)

// emptyRoutes answer for what there is none of yet and clients list on their
// way to something else: `cf routes` asks for route services, `cf space` for
// service instances, quotas and security groups. The lists are true.
func (a *API) emptyRoutes(g *web.Group) {
	for path, filters := range map[string][]string{
		"/v3/service_route_bindings":      {"include", "route_guids", "service_instance_guids"},
		"/v3/service_instances":           {"names", "space_guids", "type", "organization_guids", "service_plan_guids", "fields[service_plan]", "fields[service_plan.service_offering]", "fields[service_plan.service_offering.service_broker]", "fields[space]", "fields[space.organization]"},
		"/v3/service_credential_bindings": {"include", "names", "type", "app_guids", "app_names", "service_instance_guids", "service_instance_names"},
		"/v3/security_groups":             {"names", "globally_enabled_running", "globally_enabled_staging", "running_space_guids", "staging_space_guids"},
		"/v3/organization_quotas":         {"names", "organization_guids"},
		"/v3/space_quotas":                {"names", "organization_guids", "space_guids"},
	} {
		g.Handle(http.MethodGet, path, web.Scope(readers...), emptyList(filters))
	}
	for _, path := range []string{"/v3/spaces/{guid}/running_security_groups", "/v3/spaces/{guid}/staging_security_groups"} {
		g.Handle(http.MethodGet, path, web.Scope(readers...), func(w http.ResponseWriter, r *http.Request) error {
			err := a.store.View(r.Context(), func(tx cf.Tx) error { return spaceExists(newPresenter(tx, r)) })
			if err != nil {
				return err
			}
			return emptyList([]string{"names"})(w, r)
		})
	}
}

func emptyList(filters []string) web.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		l, err := listing{orders: []string{"name"}, extra: filters}.parse(r)
		if err != nil {
			return err
		}
		l.write(w, 0, []any{}, nil)
		return nil
	}
}
