package platformdb

import "ingot/internal/platform"

// inGroups is the condition under which a group is bound to a space, of the rows
// x of one of its two tables.
const (
	runningIn = "t.guid IN (SELECT x.group_guid FROM platform_security_group_running_spaces x WHERE {})"
	stagingIn = "t.guid IN (SELECT x.group_guid FROM platform_security_group_staging_spaces x WHERE {})"
)

var securityGroups = define(table[platform.SecurityGroup]{
	name: "platform_security_groups",
	base: (*platform.SecurityGroup).Base,
	columns: []column[platform.SecurityGroup]{
		name("name", func(g *platform.SecurityGroup) *string { return &g.Name }),
		object("rules", func(g *platform.SecurityGroup) *[]platform.SecurityRule { return &g.Rules }),
		flag("globally_running", func(g *platform.SecurityGroup) *bool { return &g.Running }),
		flag("globally_staging", func(g *platform.SecurityGroup) *bool { return &g.Staging }),
		linked("running_spaces", members{"platform_security_group_running_spaces", "group_guid", "space_guid"},
			func(g *platform.SecurityGroup) *[]string { return &g.RunningSpaces }),
		linked("staging_spaces", members{"platform_security_group_staging_spaces", "group_guid", "space_guid"},
			func(g *platform.SecurityGroup) *[]string { return &g.StagingSpaces }),
	},
	virtual: map[string]field{
		"running_space_guid": {kind: exact, sql: "x.space_guid", within: runningIn},
		"staging_space_guid": {kind: exact, sql: "x.space_guid", within: stagingIn},
		// Those that count in a space: bound to it, or to all.
		"running_in_space_guid": {kind: exact, sql: "x.space_guid", within: "(t.globally_running OR " + runningIn + ")"},
		"staging_in_space_guid": {kind: exact, sql: "x.space_guid", within: "(t.globally_staging OR " + stagingIn + ")"},
	},
	visible: `t.globally_running OR t.globally_staging
		OR t.guid IN (SELECT x.group_guid FROM platform_security_group_running_spaces x WHERE x.space_guid IN (` + visibleSpaces + `))
		OR t.guid IN (SELECT x.group_guid FROM platform_security_group_staging_spaces x WHERE x.space_guid IN (` + visibleSpaces + `))`,
})

// Once implements platform.Tx.
func (x *transaction) Once(name string) (bool, error) {
	n, err := x.Exec("INSERT INTO platform_done (name) VALUES (?) ON CONFLICT (name) DO NOTHING", name)
	if err != nil {
		return false, written(err)
	}
	return n > 0, nil
}

// developedApps are the apps in spaces of which the reader is a developer.
var developedApps = "SELECT a.guid FROM platform_apps a WHERE a.space_guid IN (" + spacesFor(platform.Develop) + ")"

var networkPolicies = define(table[platform.NetworkPolicy]{
	name: "platform_network_policies",
	base: (*platform.NetworkPolicy).Base,
	columns: []column[platform.NetworkPolicy]{
		text("source_guid", func(p *platform.NetworkPolicy) *string { return &p.SourceApp }),
		text("dest_guid", func(p *platform.NetworkPolicy) *string { return &p.DestApp }),
		text("protocol", func(p *platform.NetworkPolicy) *string { return &p.Protocol }),
		integer("first_port", func(p *platform.NetworkPolicy) *int { return &p.FirstPort }),
		integer("last_port", func(p *platform.NetworkPolicy) *int { return &p.LastPort }),
	},
	virtual: map[string]field{
		// Those of an app, as source or destination.
		"app_guid": {
			kind: exact, sql: "x.app",
			within: `t.guid IN (SELECT x.guid FROM (SELECT p.guid, p.source_guid AS app FROM platform_network_policies p
				UNION ALL SELECT p.guid, p.dest_guid AS app FROM platform_network_policies p) x WHERE {})`,
		},
	},
	visible: "t.source_guid IN (" + developedApps + ") AND t.dest_guid IN (" + developedApps + ")",
})
