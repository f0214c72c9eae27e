package platformdb

import "ingot/internal/platform"

var domains = define(table[platform.Domain]{
	name: "platform_domains",
	base: (*platform.Domain).Base, meta: (*platform.Domain).Meta,
	columns: []column[platform.Domain]{
		name("name", func(d *platform.Domain) *string { return &d.Name }),
		flag("internal", func(d *platform.Domain) *bool { return &d.Internal }),
		text("organization_guid", func(d *platform.Domain) *string { return &d.OrgGUID }),
		text("router_group", func(d *platform.Domain) *string { return &d.RouterGroup }),
		linked("shared_organizations", members{"platform_domain_organizations", "domain_guid", "organization_guid"},
			func(d *platform.Domain) *[]string { return &d.SharedOrgs }),
	},
	virtual: map[string]field{
		"shared_organization_guid": through("guid", "x.organization_guid",
			"x.domain_guid FROM platform_domain_organizations x"),
		// Those that its routes can use: for all, its own, and shared with it. The
		// name is meant to be t's in the first place and x's in the second.
		"visible_in_organization_guid": {
			kind: exact, sql: "organization_guid",
			within: `(t.organization_guid = '' OR {} OR t.guid IN (SELECT x.domain_guid FROM platform_domain_organizations x WHERE {}))`,
		},
	},
	visible: `t.organization_guid = '' OR t.organization_guid IN (` + visibleOrganizations + `)
		OR t.guid IN (SELECT x.domain_guid FROM platform_domain_organizations x WHERE x.organization_guid IN (` + visibleOrganizations + `))`,
})

var routes = define(table[platform.Route]{
	name: "platform_routes",
	base: (*platform.Route).Base, meta: (*platform.Route).Meta,
	columns: []column[platform.Route]{
		text("space_guid", func(r *platform.Route) *string { return &r.SpaceGUID }),
		text("domain_guid", func(r *platform.Route) *string { return &r.DomainGUID }),
		name("host", func(r *platform.Route) *string { return &r.Host }),
		text("path", func(r *platform.Route) *string { return &r.Path }),
		integer("port", func(r *platform.Route) *int { return &r.Port }),
		text("protocol", func(r *platform.Route) *string { return &r.Protocol }),
		object("options", func(r *platform.Route) *map[string]string { return &r.Options }),
		linked("shared_spaces", members{"platform_route_spaces", "route_guid", "space_guid"},
			func(r *platform.Route) *[]string { return &r.SharedSpaces }),
	},
	virtual: map[string]field{
		"organization_guid": orgOfSpace,
		"shared_space_guid": through("guid", "x.space_guid", "x.route_guid FROM platform_route_spaces x"),
		"app_guid":          through("guid", "d.app_guid", "d.route_guid FROM platform_destinations d"),
		"unmapped": {
			kind: boolean, sql: "NOT EXISTS (SELECT 1 FROM platform_destinations d WHERE d.route_guid = t.guid)",
		},
	},
	seenBy: []lookup{{"space_guid", visibleSpaces}, {"guid", routesSharedVisible}},
})

var destinations = define(table[platform.Destination]{
	name: "platform_destinations",
	base: (*platform.Destination).Base,
	columns: []column[platform.Destination]{
		text("route_guid", func(d *platform.Destination) *string { return &d.RouteGUID }),
		text("app_guid", func(d *platform.Destination) *string { return &d.AppGUID }),
		text("process_type", func(d *platform.Destination) *string { return &d.ProcessType }),
		integer("port", func(d *platform.Destination) *int { return &d.Port }),
		integer("weight", func(d *platform.Destination) *int { return &d.Weight }),
		text("protocol", func(d *platform.Destination) *string { return &d.Protocol }),
	},
	virtual: map[string]field{
		// Of the route, not of the app.
		"space_guid": through("route_guid", "rt.space_guid", "rt.guid FROM platform_routes rt"),
		"organization_guid": through("route_guid", "s.organization_guid",
			"rt.guid FROM platform_spaces s JOIN platform_routes rt ON rt.space_guid = s.guid"),
		"domain_guid": through("route_guid", "rt.domain_guid", "rt.guid FROM platform_routes rt"),
	},
	visible: "t.route_guid IN (" + routesInVisible + ") OR t.route_guid IN (" + routesSharedVisible + ")",
})
