package storetest

import (
	"errors"
	"fmt"

	"ingot/internal/platform"
)

// world is two organizations with spaces, and an app with everything that
// belongs to it in each space. Everything is called by its kind and its space:
// "app-a1" is in "space-a1" of "org-a".
var world = map[string]string{"a1": "org-a", "a2": "org-a", "b1": "org-b"}

func build(k *kit) {
	k.Helper()
	id := func(kind, space string) platform.Resource { return platform.Resource{GUID: kind + "-" + space} }
	k.update(func(tx platform.Tx) error {
		var failed error
		check := func(err error) {
			if failed == nil {
				failed = err
			}
		}
		for _, org := range []string{"org-a", "org-b"} {
			check(tx.Organizations().Insert(&platform.Organization{Resource: platform.Resource{GUID: org}, Name: org}))
			check(tx.Domains().Insert(&platform.Domain{Resource: id("domain", org), Name: org + ".example", OrgGUID: org}))
			check(tx.AuditEvents().Insert(&platform.AuditEvent{Resource: id("event", org), OrgGUID: org}))
		}
		check(tx.Domains().Insert(&platform.Domain{Resource: id("domain", "all"), Name: "all.example"}))
		check(tx.AuditEvents().Insert(&platform.AuditEvent{Resource: id("event", "all")}))
		check(tx.Buildpacks().Insert(&platform.Buildpack{Resource: id("buildpack", "all"), Name: "go"}))
		check(tx.Stacks().Insert(&platform.Stack{Resource: id("stack", "all"), Name: "linux"}))
		check(tx.Jobs().Insert(&platform.Job{Resource: id("job", "all")}))
		for s, org := range world {
			space, app, route := "space-"+s, "app-"+s, "route-"+s
			check(tx.Spaces().Insert(&platform.Space{Resource: id("space", s), Name: s, OrgGUID: org}))
			check(tx.Apps().Insert(&platform.App{Resource: id("app", s), Name: "app", SpaceGUID: space,
				DropletGUID: "droplet-" + s}))
			check(tx.Processes().Insert(&platform.Process{Resource: id("process", s), AppGUID: app, Type: "web"}))
			check(tx.Sidecars().Insert(&platform.Sidecar{Resource: id("sidecar", s), AppGUID: app, Name: "helper"}))
			check(tx.Packages().Insert(&platform.Package{Resource: id("package", s), AppGUID: app}))
			check(tx.Builds().Insert(&platform.Build{Resource: id("build", s), AppGUID: app}))
			check(tx.Droplets().Insert(&platform.Droplet{Resource: id("droplet", s), AppGUID: app, PackageGUID: "package-" + s}))
			check(tx.Droplets().Insert(&platform.Droplet{Resource: id("older", s), AppGUID: app, PackageGUID: "package-" + s}))
			check(tx.Deployments().Insert(&platform.Deployment{Resource: id("deployment", s), AppGUID: app}))
			check(tx.Revisions().Insert(&platform.Revision{Resource: id("revision", s), AppGUID: app, Version: 1,
				DropletGUID: "droplet-" + s}))
			check(tx.Tasks().Insert(&platform.Task{Resource: id("task", s), AppGUID: app, Sequence: 1}))
			check(tx.Instances().Insert(&platform.Instance{Resource: id("instance", s), AppGUID: app,
				ProcessGUID: "process-" + s}))
			check(tx.Routes().Insert(&platform.Route{Resource: id("route", s), SpaceGUID: space,
				DomainGUID: "domain-all", Host: s}))
			check(tx.Destinations().Insert(&platform.Destination{Resource: id("destination", s), RouteGUID: route,
				AppGUID: app}))
			check(tx.AuditEvents().Insert(&platform.AuditEvent{Resource: id("event", s), SpaceGUID: space, OrgGUID: org}))
		}
		return failed
	})
}

// testVirtualFields asks by what is not a field of the noun but of what it
// belongs to.
func testVirtualFields(k *kit) {
	build(k)
	inSpace := func(what, kind string, also []string, expect func(q platform.Query, what string, want ...string)) {
		named := func(spaces ...string) (guids []string) {
			for _, s := range spaces {
				guids = append(guids, kind+"-"+s)
				for _, other := range also {
					guids = append(guids, other+"-"+s)
				}
			}
			return guids
		}
		expect(platform.Where("space_guid", "space-a1"), what+" by space", named("a1")...)
		expect(platform.Where("space_guid", "space-a2", "space-b1", "none"), what+" by spaces", named("a2", "b1")...)
		expect(platform.Where("organization_guid", "org-a"), what+" by organization", named("a1", "a2")...)
		expect(platform.Where("organization_guid", "org-a", "org-b"), what+" by organizations", named("a1", "a2", "b1")...)
		expect(platform.Where("organization_guid", "none"), what+" by no organization")
		expect(platform.Query{Where: []platform.Cond{{Field: "organization_guid", Op: platform.OpNotIn,
			Values: []any{"org-a"}}}}, what+" by others", named("b1")...)
		expect(platform.Where("organization_guid", "org-a").And(platform.In("space_guid", "space-a2", "space-b1")),
			what+" by both", named("a2")...)
	}
	inSpace("apps", "app", nil, func(q platform.Query, what string, want ...string) { apps.expect(k, q, what, want...) })
	inSpace("processes", "process", nil, func(q platform.Query, what string,
		want ...string) {
		processes.expect(k, q, what, want...)
	})
	inSpace("sidecars", "sidecar", nil, func(q platform.Query, what string,
		want ...string) {
		sidecars.expect(k, q, what, want...)
	})
	inSpace("packages", "package", nil, func(q platform.Query, what string,
		want ...string) {
		packages.expect(k, q, what, want...)
	})
	inSpace("builds", "build", nil, func(q platform.Query, what string,
		want ...string) {
		builds.expect(k, q, what, want...)
	})
	inSpace("droplets", "droplet", []string{"older"}, func(q platform.Query, what string,
		want ...string) {
		droplets.expect(k, q, what, want...)
	})
	inSpace("deployments", "deployment", nil, func(q platform.Query, what string,
		want ...string) {
		deployments.expect(k, q, what, want...)
	})
	inSpace("revisions", "revision", nil, func(q platform.Query, what string,
		want ...string) {
		revisions.expect(k, q, what, want...)
	})
	inSpace("tasks", "task", nil, func(q platform.Query, what string,
		want ...string) {
		tasks.expect(k, q, what, want...)
	})
	inSpace("instances", "instance", nil, func(q platform.Query, what string,
		want ...string) {
		instances.expect(k, q, what, want...)
	})
	inSpace("routes", "route", nil, func(q platform.Query, what string,
		want ...string) {
		routes.expect(k, q, what, want...)
	})
	inSpace("destinations", "destination", nil, func(q platform.Query, what string,
		want ...string) {
		destinations.expect(k, q, what, want...)
	})

	k.update(func(tx platform.Tx) error {
		return tx.Tasks().Insert(&platform.Task{Resource: platform.Resource{GUID: "newer-a1"}, AppGUID: "app-a1",
			Sequence: 3})
	})
	k.update(func(tx platform.Tx) error {
		// One is staged and started, one is staged and stopped, one is neither.
		for space, state := range map[string]platform.AppState{"a1": platform.AppStarted, "a2": platform.AppStopped} {
			app, err := tx.Apps().Get("app-" + space)
			if err != nil {
				return err
			}
			process, err := tx.Processes().Get("process-" + space)
			if err != nil {
				return err
			}
			droplet, err := tx.Droplets().Get("droplet-" + space)
			if err != nil {
				return err
			}
			app.State, process.RevisionGUID, droplet.State = state, "revision-"+space, platform.DropletStaged
			if err := errors.Join(tx.Apps().Update(app), tx.Processes().Update(process), tx.Droplets().
				Update(droplet)); err != nil {
				return err
			}
		}
		return nil
	})
	revisions.expect(k, platform.Where("deployable", true), "revisions with a staged droplet", "revision-a1",
		"revision-a2")
	revisions.expect(k, platform.Where("deployable", false), "revisions without a droplet", "revision-b1")
	revisions.expect(k, platform.Where("deployed", true), "revisions that a process of a started app runs", "revision-a1")

	tasks.expect(k, platform.Where("superseded", true), "tasks with a newer one of their app", "task-a1")
	tasks.expect(k, platform.Where("superseded", false), "the newest tasks of apps", "newer-a1", "task-a2", "task-b1")

	droplets.expect(k, platform.Where("current", true), "current droplets", "droplet-a1", "droplet-a2", "droplet-b1")
	droplets.expect(k, platform.Where("current", false).And(platform.In("app_guid", "app-a1")),
		"older droplets", "older-a1")
	droplets.expect(k, platform.Where("current", true, false).And(platform.In("package_guid", "package-a1")),
		"all droplets", "droplet-a1", "older-a1")

	k.update(func(tx platform.Tx) error {
		for i, app := range []string{"app-a2", "app-a2", "app-b1"} {
			port := platform.Destination{Resource: platform.Resource{GUID: fmt.Sprint("more-", i)}, RouteGUID: "route-a1",
				AppGUID: app, Port: i}
			if err := tx.Destinations().Insert(&port); err != nil {
				return err
			}
		}
		return tx.Routes().Insert(&platform.Route{Resource: platform.Resource{GUID: "bare"}, SpaceGUID: "space-a1",
			Host: "bare", SharedSpaces: []string{"space-a2"}})
	})
	routes.expect(k, platform.Where("app_guid", "app-a2"), "routes of an app", "route-a1", "route-a2")
	routes.expect(k, platform.Where("app_guid", "app-a1", "app-b1"), "routes of apps", "route-a1", "route-b1")
	routes.expect(k, platform.Query{Where: []platform.Cond{{Field: "app_guid", Op: platform.OpNotIn,
		Values: []any{"app-a2"}}}}, "routes not of an app", "bare", "route-b1")
	routes.expect(k, platform.Query{Where: []platform.Cond{{Field: "app_guid", Op: platform.OpNull}}},
		"routes of no app", "bare")
	routes.expect(k, platform.Where("unmapped", true), "unmapped routes", "bare")
	routes.expect(k, platform.Where("unmapped", false), "mapped routes", "route-a1", "route-a2", "route-b1")
	routes.expect(k, platform.Where("shared_space_guid", "space-a2"), "shared routes", "bare")

	k.update(func(tx platform.Tx) error {
		return tx.Domains().Insert(&platform.Domain{
			Resource: platform.Resource{GUID: "shared"}, Name: "shared.example", OrgGUID: "org-b",
			SharedOrgs: []string{"org-a", "org-c", "org-a"},
		})
	})
	domains.expect(k, platform.Where("organization_guid", "org-b"), "domains of an organization", "domain-org-b", "shared")
	domains.expect(k, platform.Where("organization_guid", ""), "domains without organization", "domain-all")
	domains.expect(k, platform.Where("shared_organization_guid", "org-a"), "domains shared with an organization", "shared")
	for org, want := range map[string][]string{
		"org-a": {"domain-all", "domain-org-a", "shared"}, "org-b": {"domain-all", "domain-org-b", "shared"},
		"org-c": {"domain-all", "shared"}, "none": {"domain-all"},
	} {
		domains.expect(k, platform.Where("visible_in_organization_guid", org), "domains for "+org, want...)
	}
	// Sharing ends.
	k.update(func(tx platform.Tx) error {
		d, err := tx.Domains().Get("shared")
		if err != nil {
			return err
		}
		d.SharedOrgs = []string{"org-c"}
		return tx.Domains().Update(d)
	})
	domains.expect(k, platform.Where("visible_in_organization_guid", "org-a"), "domains after sharing", "domain-all",
		"domain-org-a")
	domains.expect(k, platform.Where("visible_in_organization_guid", "org-c"), "domains still shared",
		"domain-all", "shared")
}
