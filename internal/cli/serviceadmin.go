package cli

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	"ingot/internal/base/plural"
	"ingot/internal/cli/client"
)

// purge removes a resource without its broker. err is why it was not found, if it was not.
func (s *session) purge(ctx context.Context, what, kind, name, path string, err error) (result, error) {
	if isNotFound(err) {
		s.say("%s %s does not exist.", what, name)
		s.ok()
		return &removed{Kind: kind, Name: name}, nil
	}
	if err == nil {
		err = s.api.Delete(ctx, path+"?purge=true")
	}
	if err != nil {
		return nil, noServices(s, err)
	}
	s.ok()
	return &removed{Kind: kind, Name: name, Gone: true}, nil
}

func purgeInstance(ctx context.Context, s *session, w words, f *forceFlag) (result, error) {
	if !f.Force {
		if err := s.confirm(ctx, "This removes the service instance "+w["SERVICE"]+" without telling its broker, which may keep its resources. Continue"); err != nil {
			return nil, err
		}
	}
	s.doing("Purging service instance %s", w["SERVICE"])
	i, err := s.instance(ctx, w["SERVICE"])
	return s.purge(ctx, "Service instance", "service", w["SERVICE"], "/v3/service_instances/"+i.GUID, err)
}

// sharing

type shareFlags struct {
	Space string `short:"s" value-name:"SPACE" required:"yes" description:"Space to share with"`
	Org   string `short:"o" value-name:"ORG" description:"Org of that space (default: the targeted org)"`
}

type unshareFlags struct {
	shareFlags
	forceFlag
}

func (s *session) sharedInstance(ctx context.Context, w words, f *shareFlags) (i client.ServiceInstance, space client.Thing, err error) {
	if i, err = s.instance(ctx, w["SERVICE"]); err != nil {
		return i, space, noServices(s, err)
	}
	_, space, err = s.targetSpace(ctx, f.Org, f.Space)
	return i, space, err
}

func shareService(ctx context.Context, s *session, w words, f *shareFlags) (result, error) {
	s.doing("Sharing service instance %s with space %s", w["SERVICE"], f.Space)
	i, space, err := s.sharedInstance(ctx, w, f)
	if err != nil {
		return nil, err
	}
	if err := s.send(ctx, http.MethodPost, "/v3/service_instances/"+i.GUID+"/relationships/shared_spaces", relateAll(space.GUID)); err != nil {
		return nil, err
	}
	return s.done("service", i.Name, "space", space.Name)
}

func unshareService(ctx context.Context, s *session, w words, f *unshareFlags) (result, error) {
	if !f.Force {
		if err := s.confirm(ctx, "Apps of the space "+f.Space+" that are bound to "+w["SERVICE"]+" are unbound. Continue"); err != nil {
			return nil, err
		}
	}
	s.doing("Unsharing service instance %s from space %s", w["SERVICE"], f.Space)
	i, space, err := s.sharedInstance(ctx, w, &f.shareFlags)
	if err != nil {
		return nil, err
	}
	if err := s.send(ctx, http.MethodDelete, "/v3/service_instances/"+i.GUID+"/relationships/shared_spaces/"+space.GUID, nil); err != nil {
		return nil, err
	}
	return s.done("service", i.Name, "space", space.Name)
}

// route services

type routeServiceFlags struct {
	Host       string `short:"n" long:"hostname" value-name:"HOST" description:"Host name"`
	Path       string `long:"path" value-name:"PATH" description:"Path, such as /api"`
	Parameters string `short:"c" value-name:"JSON" description:"Broker parameters: JSON, or a path to a JSON file"`
	Wait       bool   `short:"w" long:"wait" description:"Wait for the operation to complete"`
}

type unbindRouteFlags struct {
	forceFlag
	Host string `short:"n" long:"hostname" value-name:"HOST" description:"Host name"`
	Path string `long:"path" value-name:"PATH" description:"Path, such as /api"`
	Wait bool   `short:"w" long:"wait" description:"Wait for the operation to complete"`
}

func bindRouteService(ctx context.Context, s *session, w words, f *routeServiceFlags) (result, error) {
	parameters, err := s.parameters(f.Parameters)
	if err != nil {
		return nil, err
	}
	flags := routeFlags{Host: f.Host, Path: f.Path}
	s.doing("Binding route %s to service instance %s", flags.address(w["DOMAIN"]), w["SERVICE"])
	route, _, err := flags.existing(ctx, s, w["DOMAIN"])
	if err != nil {
		return nil, err
	}
	i, err := s.instance(ctx, w["SERVICE"])
	if err != nil {
		return nil, noServices(s, err)
	}
	body := map[string]any{"relationships": map[string]any{"route": client.Relate(route.GUID), "service_instance": client.Relate(i.GUID)}}
	if len(parameters) > 0 {
		body["parameters"] = parameters
	}
	reply, err := s.api.Post(ctx, "/v3/service_route_bindings", body, nil)
	if client.Says(err, "already bound") {
		s.say("Route %s is already bound to service instance %s.", route.URL, i.Name)
		return s.done("route", route.URL, "service", i.Name)
	}
	if err != nil {
		return nil, err
	}
	return s.operate(ctx, reply, f.Wait, "route binding", i.Name, "Binding of route "+route.URL)
}

func unbindRouteService(ctx context.Context, s *session, w words, f *unbindRouteFlags) (result, error) {
	flags := routeFlags{Host: f.Host, Path: f.Path}
	address := flags.address(w["DOMAIN"])
	if !f.Force {
		if err := s.confirm(ctx, "Requests to "+address+" no longer go through "+w["SERVICE"]+". Continue"); err != nil {
			return nil, err
		}
	}
	s.doing("Unbinding route %s from service instance %s", address, w["SERVICE"])
	route, _, err := flags.existing(ctx, s, w["DOMAIN"])
	if err != nil {
		return nil, err
	}
	i, err := s.instance(ctx, w["SERVICE"])
	if err != nil {
		return nil, noServices(s, err)
	}
	found, err := client.List[client.Thing](ctx, s.api, "/v3/service_route_bindings", url.Values{"route_guids": {route.GUID}, "service_instance_guids": {i.GUID}})
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		s.say("Route %s was not bound to service instance %s.", route.URL, i.Name)
		return s.done("route", route.URL, "service", i.Name)
	}
	reply, err := s.api.Do(ctx, client.Call{Method: http.MethodDelete, URL: "/v3/service_route_bindings/" + found[0].GUID})
	if err != nil {
		return nil, err
	}
	return s.operate(ctx, reply, f.Wait, "route binding", i.Name, "Unbinding of route "+route.URL)
}

// upgrade-service

type upgradeFlags struct {
	forceFlag
	Wait bool `short:"w" long:"wait" description:"Wait for the operation to complete"`
}

func upgradeService(ctx context.Context, s *session, w words, f *upgradeFlags) (result, error) {
	if !f.Force {
		if err := s.confirm(ctx, "Really upgrade the service instance "+w["SERVICE"]+"? It may be unavailable meanwhile. Continue"); err != nil {
			return nil, err
		}
	}
	s.doing("Upgrading service instance %s", w["SERVICE"])
	type upgradable struct {
		client.ServiceInstance
		Upgrade bool `json:"upgrade_available"`
	}
	i, err := named(ctx, s, "Service instance", "/v3/service_instances", w["SERVICE"], s.in(), func(i upgradable) string { return i.Name })
	if err != nil {
		return nil, noServices(s, err)
	}
	if !i.Upgrade {
		s.say("No upgrade is available.")
		return s.done("service", i.Name, "upgraded", false)
	}
	var plan struct {
		Maintenance struct {
			Version string `json:"version"`
		} `json:"maintenance_info"`
	}
	if err := s.api.Get(ctx, "/v3/service_plans/"+i.Relationships.Plan.GUID(), nil, &plan); err != nil {
		return nil, err
	}
	reply, err := s.api.Patch(ctx, "/v3/service_instances/"+i.GUID, map[string]any{"maintenance_info": map[string]string{"version": plan.Maintenance.Version}}, nil)
	if err != nil {
		return nil, err
	}
	return s.operate(ctx, reply, f.Wait, "service", i.Name, "Upgrade of service instance "+i.Name)
}

// cleanup-outdated-service-bindings

type cleanupFlags struct {
	forceFlag
	Keep     int    `long:"keep-last" value-name:"N" default:"1" description:"Number of bindings to keep for each service instance"`
	Instance string `long:"service-instance" value-name:"SERVICE" description:"Only bindings of this service instance"`
	Wait     bool   `short:"w" long:"wait" description:"Wait for the operations to complete"`
}

func cleanupBindings(ctx context.Context, s *session, w words, f *cleanupFlags) (result, error) {
	if f.Keep < 1 {
		return nil, &usage{"--keep-last must be at least 1", "cleanup-outdated-service-bindings"}
	}
	s.doing("Cleaning up outdated service bindings for app %s", w["APP"])
	app, err := s.app(ctx, w["APP"])
	if err != nil {
		return nil, err
	}
	q := url.Values{"type": {"app"}, "app_guids": {app.GUID}, "order_by": {"-created_at"}, "per_page": {"5000"}}
	if f.Instance != "" {
		i, err := s.instance(ctx, f.Instance)
		if err != nil {
			return nil, noServices(s, err)
		}
		q.Set("service_instance_guids", i.GUID)
	}
	all, err := client.List[client.Binding](ctx, s.api, "/v3/service_credential_bindings", q)
	if err != nil {
		return nil, noServices(s, err)
	}
	kept, old := map[string]int{}, []client.Binding{}
	for _, b := range all {
		at := b.Relationships.Instance.GUID()
		if kept[at]++; kept[at] > f.Keep {
			old = append(old, b)
		}
	}
	if len(old) == 0 {
		s.say("No outdated service bindings found.")
		return s.done("app", app.Name, "removed", 0)
	}
	s.say("Found %s.", plural.Count(len(old), "outdated service binding"))
	if !f.Force {
		if err := s.confirm(ctx, "Really delete them"); err != nil {
			return nil, err
		}
	}
	for i, b := range old {
		reply, err := s.api.Do(ctx, client.Call{Method: http.MethodDelete, URL: "/v3/service_credential_bindings/" + b.GUID})
		if err == nil {
			_, err = s.operate(ctx, reply, f.Wait, "binding", b.GUID, fmt.Sprintf("Deleting service binding %d of %d", i+1, len(old)))
		}
		if err != nil {
			return nil, err
		}
	}
	return s.jsonOnly(&jsonAs{nil, map[string]any{"app": app.Name, "removed": len(old)}}), nil
}

func serviceAdminCommands() []*command {
	const routed = "DOMAIN SERVICE [-n HOST] [--path PATH]"
	return append(inGroup(groupServices,
		entry("upgrade-service", "SERVICE [-f] [--wait]", "Upgrade a service instance to its plan's newest version", aSpace, upgradeService, "my-db -f").slow(),
		entry("cleanup-outdated-service-bindings", "APP [--service-instance SERVICE] [--keep-last N] [-f]", "Delete all but the newest bindings of an app", aSpace, cleanupBindings, "my-app -f").slow(),
		entry("share-service", "SERVICE -s SPACE [-o ORG]", "Share a service instance with another space", aSpace, shareService, "my-db -s other"),
		entry("unshare-service", "SERVICE -s SPACE [-o ORG] [-f]", "Unshare a service instance from a space", aSpace, unshareService, "my-db -s other -f"),
		entry("bind-route-service", routed+" [-c JSON]", "Bind a service instance to a route", aSpace, bindRouteService, "apps.localhost my-proxy -n blue").alias("brs").slow(),
		entry("unbind-route-service", routed+" [-f]", "Unbind a service instance from a route", aSpace, unbindRouteService, "apps.localhost my-proxy -n blue -f").alias("urs").slow(),
		entry("purge-service-instance", "SERVICE [-f]", "Delete a service instance without telling its broker", aSpace, purgeInstance, "my-db -f").slow(),
	), inGroup(groupOperate,
		entry("update-service-broker", "BROKER USER PASSWORD URL", "Update a service broker and read its catalog", aLogin, updateBroker, "my-broker user password https://broker.example.com").slow(),
		entry("rename-service-broker", "BROKER NEW_NAME", "Rename a service broker", aLogin, renameBroker, "my-broker your-broker"),
		entry("purge-service-offering", "OFFERING [-b BROKER] [-f]", "Remove an offering without telling its broker", aLogin, purgeOffering, "postgres -f").slow(),
		entry("service-access", "[-b BROKER] [-e OFFERING] [-o ORG]", "List access to service plans by org", aLogin, serviceAccess, "", "-e postgres"),
	)...)
}
