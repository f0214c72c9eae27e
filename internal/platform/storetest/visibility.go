package storetest

import (
	"slices"

	"ingot/internal/platform"
)

// seen is what a reader sees of the world, each by its kind: "a1" of spaces is
// "space-a1".
type seen struct {
	orgs, spaces, domains, events []string
	users                         []string
	roles                         []string // their guids
}

// testVisibility is the matrix of all roles and all nouns. Everybody in it has
// one role: in org-a, in space-a1, or somewhere else.
func testVisibility(k *kit) {
	build(k)
	var all, ofA []string
	hire := func(name string, r platform.Role) {
		r.GUID, r.UserGUID = "role-"+name, "user-"+name
		users.insert(k, &platform.User{Resource: platform.Resource{GUID: r.UserGUID}})
		if r.Type != "" {
			roles.insert(k, &r)
		}
		all = append(all, name)
	}
	for _, r := range platform.OrganizationRoles {
		hire(string(r), platform.Role{Type: r, OrgGUID: "org-a"})
		ofA = append(ofA, "role-"+string(r))
	}
	rolesOfA1 := []string{}
	for _, r := range platform.SpaceRoles {
		hire(string(r), platform.Role{Type: r, SpaceGUID: "space-a1"})
		rolesOfA1 = append(rolesOfA1, "role-"+string(r))
	}
	colleagues := slices.Clone(all)
	hire("neighbour", platform.Role{Type: platform.SpaceDeveloper, SpaceGUID: "space-a2"})
	colleagues = append(colleagues, "neighbour")
	hire("stranger", platform.Role{Type: platform.OrgManager, OrgGUID: "org-b"})
	hire("nobody", platform.Role{})

	for _, name := range append(all, "unknown", "", "a\x00b", "user-' OR '1'='1") {
		want := seen{domains: []string{"all"}}
		switch r := platform.RoleType(name); {
		case slices.Contains(platform.OrganizationRoles, r):
			want = seen{orgs: []string{"org-a"}, domains: []string{"all", "org-a"}, users: colleagues, roles: ofA}
			if r == platform.OrgManager {
				want.spaces = []string{"a1", "a2"}
				want.roles = slices.Concat(ofA, rolesOfA1, []string{"role-neighbour"})
			}
			if r == platform.OrgAuditor {
				want.events = []string{"a1", "a2", "org-a"}
			}
		case slices.Contains(platform.SpaceRoles, r):
			want = seen{orgs: []string{"org-a"}, spaces: []string{"a1"}, domains: []string{"all", "org-a"},
				users: colleagues, roles: slices.Concat(ofA, rolesOfA1)}
			if r != platform.SpaceManager {
				want.events = []string{"a1"}
			}
		case name == "neighbour":
			want = seen{orgs: []string{"org-a"}, spaces: []string{"a2"}, domains: []string{"all", "org-a"},
				events: []string{"a2"}, users: colleagues, roles: slices.Concat(ofA, []string{"role-neighbour"})}
		case name == "stranger":
			want = seen{orgs: []string{"org-b"}, spaces: []string{"b1"}, domains: []string{"all", "org-b"},
				users: []string{"stranger"}, roles: []string{"role-stranger"}}
		case name == "nobody":
			want.users = []string{"nobody"}
		}
		k.within(func(k *kit) { checkSeen(k, name, "user-"+name, want) })
	}

	// Without a reader everything is seen.
	spaces.expect(k, platform.Query{}, "spaces for no reader", "space-a1", "space-a2", "space-b1")
	// What a reader sees is narrowed by conditions, never widened.
	reader := &platform.Reader{UserGUID: "user-space_developer"}
	apps.expect(k, platform.Query{Reader: reader, Where: []platform.Cond{platform.In("guid", "app-a1", "app-b1")}},
		"apps by guid", "app-a1")
	domains.expect(k, platform.Query{Reader: reader, Where: []platform.Cond{platform.In("name", "org-b.example")}},
		"a domain by name")
	users.expect(k, platform.Query{Reader: reader, Where: []platform.Cond{platform.In("guid", "user-stranger")}},
		"a user by guid")
	// A role that is taken back shows nothing any more.
	k.update(func(tx platform.Tx) error { return tx.Roles().Delete("role-space_developer") })
	checkSeen(k, "dismissed", reader.UserGUID, seen{domains: []string{"all"}, users: []string{"space_developer"}})
	// What belongs to an app is seen where the app is.
	k.update(func(tx platform.Tx) error {
		app, err := tx.Apps().Get("app-a1")
		if err != nil {
			return err
		}
		app.SpaceGUID, app.Name = "space-b1", "moved"
		return tx.Apps().Update(app)
	})
	for who, want := range map[string][]string{"user-stranger": {"a1", "b1"}, "user-space_auditor": nil} {
		q, of := platform.Query{Reader: &platform.Reader{UserGUID: who}}, func(kind string) (guids []string) {
			for _, space := range want {
				guids = append(guids, kind+"-"+space)
			}
			return guids
		}
		processes.expect(k, q, "processes of a moved app", of("process")...)
		revisions.expect(k, q, "revisions of a moved app", of("revision")...)
		packages.expect(k, q, "packages of a moved app", of("package")...)
		tasks.expect(k, q, "tasks of a moved app", of("task")...)
	}
}

func checkSeen(k *kit, who, guid string, want seen) {
	k.Helper()
	q := platform.Query{Reader: &platform.Reader{UserGUID: guid}}
	of := func(kind string, names []string) (guids []string) {
		for _, name := range names {
			guids = append(guids, kind+"-"+name)
		}
		return guids
	}
	organizations.expect(k, q, who+": organizations", slices.Clone(want.orgs)...)
	spaces.expect(k, q, who+": spaces", of("space", want.spaces)...)
	users.expect(k, q, who+": users", of("user", want.users)...)
	roles.expect(k, q, who+": roles", slices.Clone(want.roles)...)
	domains.expect(k, q, who+": domains", of("domain", want.domains)...)
	routes.expect(k, q, who+": routes", of("route", want.spaces)...)
	destinations.expect(k, q, who+": destinations", of("destination", want.spaces)...)
	apps.expect(k, q, who+": apps", of("app", want.spaces)...)
	processes.expect(k, q, who+": processes", of("process", want.spaces)...)
	sidecars.expect(k, q, who+": sidecars", of("sidecar", want.spaces)...)
	packages.expect(k, q, who+": packages", of("package", want.spaces)...)
	builds.expect(k, q, who+": builds", of("build", want.spaces)...)
	droplets.expect(k, q, who+": droplets", append(of("droplet", want.spaces), of("older", want.spaces)...)...)
	deployments.expect(k, q, who+": deployments", of("deployment", want.spaces)...)
	tasks.expect(k, q, who+": tasks", of("task", want.spaces)...)
	instances.expect(k, q, who+": instances", of("instance", want.spaces)...)
	auditEvents.expect(k, q, who+": audit events", of("event", want.events)...)
	buildpacks.expect(k, q, who+": buildpacks", "buildpack-all")
	stacks.expect(k, q, who+": stacks", "stack-all")
	jobs.expect(k, q, who+": jobs", "job-all")
}

// testSharedVisibility sees that what is shared with an organization or space
// is seen there.
func testSharedVisibility(k *kit) {
	build(k)
	roles.insert(k,
		&platform.Role{Type: platform.SpaceAuditor, UserGUID: "auditor", SpaceGUID: "space-b1"},
		&platform.Role{Type: platform.OrgManager, UserGUID: "manager", OrgGUID: "org-b"},
		&platform.Role{Type: platform.OrgUser, UserGUID: "user", OrgGUID: "org-b"})
	routes.insert(k, &platform.Route{Resource: platform.Resource{GUID: "shared"}, SpaceGUID: "space-a1", Host: "s",
		SharedSpaces: []string{"space-a2", "space-b1"}})
	destinations.insert(k, &platform.Destination{Resource: platform.Resource{GUID: "to"}, RouteGUID: "shared",
		AppGUID: "app-a1"})
	domains.insert(k, &platform.Domain{Resource: platform.Resource{GUID: "of-a"}, Name: "s", OrgGUID: "org-a",
		SharedOrgs: []string{"org-b"}})
	check := func(when string, route, destination, domain []string) {
		k.Helper()
		for _, who := range []string{"auditor", "manager"} {
			q := platform.Query{Reader: &platform.Reader{UserGUID: who}}
			routes.expect(k, q, when+": routes for the "+who, append([]string{"route-b1"}, route...)...)
			destinations.expect(k, q, when+": destinations for the "+who, append([]string{"destination-b1"}, destination...)...)
			domains.expect(k, q, when+": domains for the "+who, append([]string{"domain-all", "domain-org-b"}, domain...)...)
		}
		q := platform.Query{Reader: &platform.Reader{UserGUID: "user"}}
		routes.expect(k, q, when+": routes for the user")
		domains.expect(k, q, when+": domains for the user", append([]string{"domain-all", "domain-org-b"}, domain...)...)
	}
	check("shared", []string{"shared"}, []string{"to"}, []string{"of-a"})
	k.update(func(tx platform.Tx) error {
		r, err := tx.Routes().Get("shared")
		if err != nil {
			return err
		}
		r.SharedSpaces = nil
		if err := tx.Routes().Update(r); err != nil {
			return err
		}
		return tx.Domains().Delete("of-a")
	})
	check("no longer shared", nil, nil, nil)
	// One of the same guid starts with nothing shared.
	domains.insert(k, &platform.Domain{Resource: platform.Resource{GUID: "of-a"}, Name: "s", OrgGUID: "org-a"})
	check("made anew", nil, nil, nil)
}
