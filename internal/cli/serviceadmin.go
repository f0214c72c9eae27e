package cli

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"ingot/internal/base/plural"
	"ingot/internal/cli/client"
)

// update-service-broker

func updateBroker(ctx context.Context, s *session, w words, _ *noFlags) (result, error) {
	s.acting("Updating service broker %s", w["BROKER"])
	return s.patchBroker(ctx, w["BROKER"], w["BROKER"], map[string]any{"url": w["URL"], "authentication": map[string]any{
		"type": "basic", "credentials": map[string]string{"username": w["USER"], "password": w["PASSWORD"]},
	}})
}

func renameBroker(ctx context.Context, s *session, w words, _ *noFlags) (result, error) {
	s.acting("Renaming service broker %s to %s", w["BROKER"], w["NEW_NAME"])
	return s.patchBroker(ctx, w["BROKER"], w["NEW_NAME"], map[string]any{"name": w["NEW_NAME"]})
}

func (s *session) patchBroker(ctx context.Context, name, now string, body map[string]any) (result, error) {
	t, err := s.thing(ctx, "Service broker", "/v3/service_brokers", name, nil)
	if err != nil {
		return nil, noServices(s, err)
	}
	if err := s.send(ctx, http.MethodPatch, "/v3/service_brokers/"+t.GUID, body); err != nil {
		return nil, err
	}
	return s.done("name", now, "guid", t.GUID)
}

type purgeFlags struct {
	forceFlag
	Broker string `short:"b" value-name:"BROKER" description:"Broker to use when several offer this service"`
}

func purgeOffering(ctx context.Context, s *session, w words, f *purgeFlags) (result, error) {
	if !f.Force {
		if err := s.confirm(ctx, "This removes the offering "+w["OFFERING"]+" and its instances without telling the broker, which may keep their resources. Continue"); err != nil {
			return nil, err
		}
	}
	s.acting("Purging service offering %s", w["OFFERING"])
	q := url.Values{}
	if f.Broker != "" {
		q.Set("service_broker_names", f.Broker)
	}
	t, err := s.thing(ctx, "Service offering", "/v3/service_offerings", w["OFFERING"], q)
	return s.purge(ctx, "Service offering", "service offering", w["OFFERING"], "/v3/service_offerings/"+t.GUID, err)
}

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

// service-access

type accessFlags struct {
	Broker   string `short:"b" value-name:"BROKER" description:"Only offerings of this broker"`
	Offering string `short:"e" value-name:"OFFERING" description:"Only this offering"`
	Org      string `short:"o" value-name:"ORG" description:"Only plans that this org can use"`
}

type accessRow struct {
	Broker   string   `json:"broker"`
	Offering string   `json:"offering"`
	Plan     string   `json:"plan"`
	Access   string   `json:"access"`
	Orgs     []string `json:"orgs"`
}

type seenPlan struct {
	client.Plan
	Visibility string `json:"visibility_type"`
}

func serviceAccess(ctx context.Context, s *session, _ words, f *accessFlags) (result, error) {
	s.acting("Getting service access")
	q := url.Values{"include": {"service_offering"}, "fields[service_offering.service_broker]": {"name,guid"}, "per_page": {"5000"}}
	for key, value := range map[string]string{"service_broker_names": f.Broker, "service_offering_names": f.Offering} {
		if value != "" {
			q.Set(key, value)
		}
	}
	if f.Org != "" {
		org, err := s.org(ctx, f.Org)
		if err != nil {
			return nil, err
		}
		q.Set("organization_guids", org.GUID)
	}
	plans, included, err := client.ListWith[seenPlan](ctx, s.api, "/v3/service_plans", q)
	if err != nil {
		return nil, noServices(s, err)
	}
	offerings, brokers := client.Of[client.Offering](included, "service_offerings"), client.Of[client.Thing](included, "service_brokers")
	out := &listing[accessRow]{key: "service plans", heading: []string{"broker", "offering", "plan", "access", "orgs"}, cells: func(r accessRow) []string {
		return []string{r.Broker, r.Offering, r.Plan, r.Access, strings.Join(r.Orgs, ",")}
	}}
	for _, p := range plans {
		offering := offerings[p.Relationships.Offering.GUID()]
		row := accessRow{brokers[offering.Relationships.Broker.GUID()].Name, offering.Name, p.Name, map[string]string{"public": "all", "admin": "none", "organization": "limited", "space": "limited"}[p.Visibility], []string{}}
		if p.Visibility == "organization" {
			var v struct {
				Orgs []client.Thing `json:"organizations"`
			}
			if err := s.api.Get(ctx, "/v3/service_plans/"+p.GUID+"/visibility", nil, &v); err != nil {
				return nil, err
			}
			for _, o := range v.Orgs {
				row.Orgs = append(row.Orgs, o.Name)
			}
		}
		out.rows = append(out.rows, row)
	}
	slices.SortStableFunc(out.rows, func(a, b accessRow) int { return strings.Compare(a.Broker+" "+a.Offering, b.Broker+" "+b.Offering) })
	return out, nil
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
