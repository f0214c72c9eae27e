package services

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	"ingot/internal/base/cfapi"
	"ingot/internal/base/plural"
	"ingot/internal/cli/client"
	"ingot/internal/cli/core"
	"ingot/internal/cli/routes"
)

// purge removes a resource without its broker. err is why it was not found, if it was not.
func purge(ctx context.Context, s *core.Session, what, kind, name, path string, err error) (core.Result, error) {
	if core.IsNotFound(err) {
		s.Say("%s %s does not exist.", what, name)
		s.OK()
		return &core.Removed{Kind: kind, Name: name}, nil
	}
	if err == nil {
		err = s.API.Delete(ctx, path+"?purge=true")
	}
	if err != nil {
		return nil, core.NoServices(s, err)
	}
	s.OK()
	return &core.Removed{Kind: kind, Name: name, Gone: true}, nil
}

func purgeInstance(ctx context.Context, s *core.Session, w core.Words, f *core.ForceFlag) (core.Result, error) {
	if err := s.Confirm(ctx, f.Force, "This removes the service instance "+w["SERVICE"]+
		" without telling its broker, which may keep its resources. Continue"); err != nil {
		return nil, err
	}
	s.Doing("Purging service instance %s", w["SERVICE"])
	i, err := s.ServiceInstance(ctx, w["SERVICE"])
	return purge(ctx, s, "Service instance", "service", w["SERVICE"], "/v3/service_instances/"+i.GUID, err)
}

// sharing

type shareFlags struct {
	Space string `short:"s" value-name:"SPACE" required:"yes" description:"Space to share with"`
	Org   string `short:"o" value-name:"ORG" description:"Org of that space (default: the targeted org)"`
}

type unshareFlags struct {
	shareFlags
	core.ForceFlag
}

func sharedInstance(ctx context.Context, s *core.Session, w core.Words, f *shareFlags) (i cfapi.ServiceInstance,
	space cfapi.Thing, err error) {
	if i, err = s.ServiceInstance(ctx, w["SERVICE"]); err != nil {
		return i, space, core.NoServices(s, err)
	}
	_, space, err = s.TargetSpace(ctx, f.Org, f.Space)
	return i, space, err
}

func shareService(ctx context.Context, s *core.Session, w core.Words, f *shareFlags) (core.Result, error) {
	s.Doing("Sharing service instance %s with space %s", w["SERVICE"], f.Space)
	i, space, err := sharedInstance(ctx, s, w, f)
	if err != nil {
		return nil, err
	}
	return s.Change(ctx, http.MethodPost, "/v3/service_instances/"+i.GUID+"/relationships/shared_spaces",
		cfapi.RelateAll(space.GUID), "service", i.Name, "space", space.Name)
}

func unshareService(ctx context.Context, s *core.Session, w core.Words, f *unshareFlags) (core.Result, error) {
	if err := s.Confirm(ctx, f.Force, "Apps of the space "+f.Space+" that are bound to "+w["SERVICE"]+
		" are unbound. Continue"); err != nil {
		return nil, err
	}
	s.Doing("Unsharing service instance %s from space %s", w["SERVICE"], f.Space)
	i, space, err := sharedInstance(ctx, s, w, &f.shareFlags)
	if err != nil {
		return nil, err
	}
	return s.Change(ctx, http.MethodDelete, "/v3/service_instances/"+i.GUID+"/relationships/shared_spaces/"+space.GUID,
		nil, "service", i.Name, "space", space.Name)
}

// route services

type routeServiceFlags struct {
	Host       string `short:"n" long:"hostname" value-name:"HOST" description:"Host name"`
	Path       string `long:"path" value-name:"PATH" description:"Path, such as /api"`
	Parameters string `short:"c" value-name:"JSON" description:"Broker parameters: JSON, or a path to a JSON file"`
	Wait       bool   `short:"w" long:"wait" description:"Wait for the operation to complete"`
}

type unbindRouteFlags struct {
	core.ForceFlag
	Host string `short:"n" long:"hostname" value-name:"HOST" description:"Host name"`
	Path string `long:"path" value-name:"PATH" description:"Path, such as /api"`
	Wait bool   `short:"w" long:"wait" description:"Wait for the operation to complete"`
}

func bindRouteService(ctx context.Context, s *core.Session, w core.Words, f *routeServiceFlags) (core.Result, error) {
	parameters, err := parametersOf(s, f.Parameters)
	if err != nil {
		return nil, err
	}
	flags := routes.RouteFlags{Host: f.Host, Path: f.Path}
	s.Doing("Binding route %s to service instance %s", flags.Address(w["DOMAIN"]), w["SERVICE"])
	route, _, err := flags.Existing(ctx, s, w["DOMAIN"])
	if err != nil {
		return nil, err
	}
	i, err := s.ServiceInstance(ctx, w["SERVICE"])
	if err != nil {
		return nil, err
	}
	body := map[string]any{"relationships": map[string]any{"route": cfapi.Relate(route.GUID),
		"service_instance": cfapi.Relate(i.GUID)}}
	cfapi.Add(body, "parameters", parameters)
	reply, err := s.API.Post(ctx, "/v3/service_route_bindings", body, nil)
	if client.Says(err, "already bound") {
		s.Say("Route %s is already bound to service instance %s.", route.URL, i.Name)
		return s.Done("route", route.URL, "service", i.Name)
	}
	if err != nil {
		return nil, err
	}
	return operate(ctx, s, reply, f.Wait, "route binding", i.Name, "Binding of route "+route.URL)
}

func unbindRouteService(ctx context.Context, s *core.Session, w core.Words, f *unbindRouteFlags) (core.Result, error) {
	flags := routes.RouteFlags{Host: f.Host, Path: f.Path}
	address := flags.Address(w["DOMAIN"])
	if err := s.Confirm(ctx, f.Force, "Requests to "+address+" no longer go through "+w["SERVICE"]+
		". Continue"); err != nil {
		return nil, err
	}
	s.Doing("Unbinding route %s from service instance %s", address, w["SERVICE"])
	route, _, err := flags.Existing(ctx, s, w["DOMAIN"])
	if err != nil {
		return nil, err
	}
	i, err := s.ServiceInstance(ctx, w["SERVICE"])
	if err != nil {
		return nil, err
	}
	found, err := client.List[cfapi.Thing](ctx, s.API, "/v3/service_route_bindings",
		url.Values{"route_guids": {route.GUID}, "service_instance_guids": {i.GUID}})
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		s.Say("Route %s was not bound to service instance %s.", route.URL, i.Name)
		return s.Done("route", route.URL, "service", i.Name)
	}
	return start(ctx, s, http.MethodDelete, "/v3/service_route_bindings/"+found[0].GUID, nil,
		f.Wait, "route binding", i.Name, "Unbinding of route "+route.URL)
}

// upgrade-service

type upgradeFlags struct {
	core.ForceFlag
	Wait bool `short:"w" long:"wait" description:"Wait for the operation to complete"`
}

func upgradeService(ctx context.Context, s *core.Session, w core.Words, f *upgradeFlags) (core.Result, error) {
	if err := s.Confirm(ctx, f.Force, "Really upgrade the service instance "+w["SERVICE"]+
		"? It may be unavailable meanwhile. Continue"); err != nil {
		return nil, err
	}
	s.Doing("Upgrading service instance %s", w["SERVICE"])
	i, err := s.ServiceInstance(ctx, w["SERVICE"])
	if err != nil {
		return nil, err
	}
	if !i.UpgradeAvailable {
		s.Say("No upgrade is available.")
		return s.Done("service", i.Name, "upgraded", false)
	}
	var plan cfapi.Plan
	if err := s.API.Get(ctx, "/v3/service_plans/"+i.Relationships.Plan.GUID(), nil, &plan); err != nil {
		return nil, err
	}
	body := map[string]any{"maintenance_info": map[string]string{"version": plan.Maintenance.Version}}
	return start(ctx, s, http.MethodPatch, "/v3/service_instances/"+i.GUID, body,
		f.Wait, "service", i.Name, "Upgrade of service instance "+i.Name)
}

// cleanup-outdated-service-bindings

type cleanupFlags struct {
	core.ForceFlag
	Keep     int    `long:"keep-last" value-name:"N" default:"1" description:"Number of bindings to keep for each service instance"`
	Instance string `long:"service-instance" value-name:"SERVICE" description:"Only bindings of this service instance"`
	Wait     bool   `short:"w" long:"wait" description:"Wait for the operations to complete"`
}

func cleanupBindings(ctx context.Context, s *core.Session, w core.Words, f *cleanupFlags) (core.Result, error) {
	if f.Keep < 1 {
		return nil, core.UsageError("--keep-last must be at least 1")
	}
	s.Doing("Cleaning up outdated service bindings for app %s", w["APP"])
	app, err := s.App(ctx, w["APP"])
	if err != nil {
		return nil, err
	}
	q := url.Values{"type": {"app"}, "app_guids": {app.GUID}, "order_by": {"-created_at"}, "per_page": {"5000"}}
	if f.Instance != "" {
		i, err := s.ServiceInstance(ctx, f.Instance)
		if err != nil {
			return nil, err
		}
		q.Set("service_instance_guids", i.GUID)
	}
	all, err := client.List[cfapi.Binding](ctx, s.API, "/v3/service_credential_bindings", q)
	if err != nil {
		return nil, core.NoServices(s, err)
	}
	kept, old := map[string]int{}, []cfapi.Binding{}
	for _, b := range all {
		at := b.Relationships.Instance.GUID()
		if kept[at]++; kept[at] > f.Keep {
			old = append(old, b)
		}
	}
	if len(old) == 0 {
		s.Say("No outdated service bindings found.")
		return s.Done("app", app.Name, "removed", 0)
	}
	s.Say("Found %s.", plural.Count(len(old), "outdated service binding"))
	if err := s.Confirm(ctx, f.Force, "Really delete them"); err != nil {
		return nil, err
	}
	for i, b := range old {
		_, err := start(ctx, s, http.MethodDelete, "/v3/service_credential_bindings/"+b.GUID, nil,
			f.Wait, "binding", b.GUID, fmt.Sprintf("Deleting service binding %d of %d", i+1, len(old)))
		if err != nil {
			return nil, err
		}
	}
	return s.JSONOnly(&core.JSONAs{JSON: map[string]any{"app": app.Name, "removed": len(old)}}), nil
}

func serviceAdminCommands() []*core.Command {
	const routed = "DOMAIN SERVICE [-n HOST] [--path PATH]"
	return core.InGroup(core.GroupServices,
		core.Entry("upgrade-service", "SERVICE [-f] [--wait]", "Upgrade a service instance to its plan's newest version",
			core.NeedsSpace, upgradeService, "my-db -f").Slow(),
		core.Entry("cleanup-outdated-service-bindings", "APP [--service-instance SERVICE] [--keep-last N] [-f]",
			"Delete all but the newest bindings of an app", core.NeedsSpace, cleanupBindings, "my-app -f").Slow(),
		core.Entry("share-service", "SERVICE -s SPACE [-o ORG]", "Share a service instance with another space",
			core.NeedsSpace, shareService, "my-db -s other"),
		core.Entry("unshare-service", "SERVICE -s SPACE [-o ORG] [-f]", "Unshare a service instance from a space",
			core.NeedsSpace, unshareService, "my-db -s other -f"),
		core.Entry("bind-route-service", routed+" [-c JSON]", "Bind a service instance to a route", core.NeedsSpace,
			bindRouteService, "apps.localhost my-proxy -n blue").Alias("brs").Slow(),
		core.Entry("unbind-route-service", routed+" [-f]", "Unbind a service instance from a route", core.NeedsSpace,
			unbindRouteService, "apps.localhost my-proxy -n blue -f").Alias("urs").Slow(),
		core.Entry("purge-service-instance", "SERVICE [-f]", "Delete a service instance without telling its broker",
			core.NeedsSpace, purgeInstance, "my-db -f").Slow(),
	)
}
