package platformdb

import (
	"slices"
	"strings"

	"ingot/internal/base/db"
	"ingot/internal/platform"
)

// What a reader sees follows from their roles, by the permissions of package
// platform. Each ? is the reader's guid.
var (
	// visibleOrganizations are the organizations that a reader sees, visibleSpaces the
	// spaces.
	visibleOrganizations = organizationsFor(platform.ReadOrganization) + `
		UNION ALL
		SELECT s.organization_guid FROM platform_roles r JOIN platform_spaces s ON s.guid = r.space_guid
		WHERE ` + heldInSpace(platform.ReadOrganization)
	visibleSpaces = spacesFor(platform.ReadSpace) + `
		UNION ALL
		SELECT s.guid FROM platform_roles r JOIN platform_spaces s ON s.organization_guid = r.organization_guid
		WHERE ` + heldInOrganization(platform.ReadSpace)

	inVisibleSpaces = "t.space_guid IN (" + visibleSpaces + ")"
	inSpaces        = []lookup{{"space_guid", visibleSpaces}}
	ofVisibleApps   = "t.app_guid IN (SELECT a.guid FROM platform_apps a WHERE a.space_guid IN (" +
		visibleSpaces + "))"
	routesInVisible     = "SELECT rt.guid FROM platform_routes rt WHERE rt.space_guid IN (" + visibleSpaces + ")"
	routesSharedVisible = "SELECT rs.route_guid FROM platform_route_spaces rs WHERE rs.space_guid IN (" +
		visibleSpaces + ")"
)

// lookup is a column with guids, and the SELECT of those that a reader sees, whose guid is each ?. It is run before the
// list: when the spaces are known, the rows of one are found by its index, in the order of the list, and what the
// reader does not have, such as organizations or shared routes, is not looked for.
type lookup struct{ column, guids string }

// seen is the condition under which the reader of q sees the row t; empty if everybody does.
func (t *table[T]) seen(tx *db.Tx, q platform.Query) (s statement, err error) {
	if q.Reader == nil {
		return s, nil
	}
	reader := q.Reader.UserGUID
	if !storable(reader) {
		reader = "" // no user has it
	}
	asked := func(text string) []any {
		args := make([]any, strings.Count(text, "?"))
		for i := range args {
			args[i] = reader
		}
		return args
	}
	if len(t.seenBy) == 0 {
		return statement{t.visible, asked(t.visible)}, nil
	}
	sign := ""
	if tx.Dialect() == db.SQLite && narrow(q) {
		sign = "+" // keeps the column's index out of the plan
	}
	var some []string
	for _, p := range t.seenBy {
		guids, err := db.All(tx, func(row db.Scanner) (guid string, err error) {
			err = row.Scan(&guid)
			return guid, err
		}, "SELECT DISTINCT * FROM ("+p.guids+") AS x ORDER BY 1", asked(p.guids)...)
		if err != nil {
			return s, err
		}
		if len(guids) > 0 {
			in, args := oneOf(tx.Dialect(), exact, values(guids))
			some, s.args = append(some, sign+"t."+p.column+in), append(s.args, args...)
		}
	}
	s.sql = strings.Join(some, " OR ")
	if len(some) == 0 {
		s.sql = never
	}
	return s, nil
}

// narrow reports whether a query is for what belongs to some resources or has some label. Its index finds less than
// that of the reader's spaces; SQLite, which does not know how many rows a space has, takes either.
func narrow(q platform.Query) bool {
	return slices.ContainsFunc(q.Labels, func(l platform.LabelRequirement) bool {
		return l.Op == platform.LabelIn || l.Op == platform.LabelExists
	}) || slices.ContainsFunc(q.Where, func(c platform.Cond) bool {
		switch c.Field {
		case "guid", "app_guid", "package_guid", "instance_guid", "route_guid", "target_guid", "actor_guid":
			return c.Op == platform.OpIn
		}
		return false
	})
}

// values are texts as the arguments of a statement.
func values(texts []string) []any {
	all := make([]any, len(texts))
	for i, text := range texts {
		all[i] = text
	}
	return all
}

// organizationsFor selects the organizations in which a role of the reader
// permits an action. Those whose spaces do are not among them.
func organizationsFor(a platform.Action) string {
	return "SELECT r.organization_guid FROM platform_roles r WHERE " + heldInOrganization(a) +
		" AND r.organization_guid <> ''"
}

// spacesFor selects the spaces in which a role of the reader permits an action.
// Those of organizations in which one does are not among them.
func spacesFor(a platform.Action) string {
	return "SELECT r.space_guid FROM platform_roles r WHERE " + heldInSpace(a) + " AND r.space_guid <> ''"
}

func heldInOrganization(a platform.Action) string {
	permit, _ := platform.RolesFor(a)
	return held(permit, platform.OrganizationRoles)
}

func heldInSpace(a platform.Action) string {
	_, permit := platform.RolesFor(a)
	return held(permit, platform.SpaceRoles)
}

// held is the condition under which r is a role of the reader and one of permit.
// If that is all there are, their types need not be compared.
func held(permit, all []platform.RoleType) string {
	if len(permit) == len(all) {
		return "r.user_guid = ?"
	}
	types := make([]string, len(permit))
	for i, r := range permit {
		types[i] = "'" + string(r) + "'"
	}
	return "r.user_guid = ? AND r.type IN (" + strings.Join(types, ", ") + ")"
}

// The ways from a row to its space and organization.
var (
	orgOfSpace = through("space_guid", "s.organization_guid", "s.guid FROM platform_spaces s")
	spaceOfApp = through("app_guid", "a.space_guid", "a.guid FROM platform_apps a")
	orgOfApp   = through("app_guid", "s.organization_guid",
		"a.guid FROM platform_spaces s JOIN platform_apps a ON a.space_guid = s.guid")
	// ofApp are the virtual fields of everything that belongs to an app.
	ofApp = map[string]field{"space_guid": spaceOfApp, "organization_guid": orgOfApp}
)
