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

// scope is what a query must know of its transaction.
type scope struct {
	seen statement // the condition under which the reader sees the row t; empty if everybody does
	// byApp is set if rows lack their app's space, so that it must be asked for through the app.
	byApp bool
}

// scope finds that of q.
func (t *table[T]) scope(tx *db.Tx, q platform.Query) (s scope, err error) {
	switch {
	case q.Reader == nil:
	case len(t.seenBy) == 0:
		s.seen = statement{t.visible, t.asked(q, t.visible)}
	case single(q):
		s.seen = t.seenSingle(q)
	default:
		return t.seenAmong(tx, q)
	}
	if t.ofApp != nil && slices.ContainsFunc(q.Where, asksForSpace) {
		err = tx.QueryRow("SELECT EXISTS (" + t.unfilled() + ")").Scan(&s.byApp)
	}
	return s, err
}

func asksForSpace(c platform.Cond) bool {
	_, ok := ofApp[c.Field]
	return ok
}

// asked are the arguments of a text with the guid of the reader as each ?.
func (t *table[T]) asked(q platform.Query, text string) []any {
	reader := q.Reader.UserGUID
	if !storable(reader) {
		reader = "" // no user has it
	}
	return slices.Repeat([]any{reader}, strings.Count(text, "?"))
}

// seenSingle is for one row: whether a role of the reader is for its space takes less than to read all spaces of a
// reader who has many.
func (t *table[T]) seenSingle(q platform.Query) statement {
	some := make([]string, len(t.seenBy), len(t.seenBy)+1)
	for i, p := range t.seenBy {
		some[i] = "EXISTS (WITH has (guid) AS (" + p.guids + ") SELECT 1 FROM has WHERE has.guid = t." + p.column + ")"
	}
	if t.ofApp != nil {
		some = append(some, "t.space_guid = '' AND "+ofVisibleApps)
	}
	text := strings.Join(some, " OR ")
	return statement{text, t.asked(q, text)}
}

// seenAmong is for lists.
func (t *table[T]) seenAmong(tx *db.Tx, q platform.Query) (s scope, err error) {
	sign := ""
	if tx.Dialect() == db.SQLite && narrow(q) {
		sign = "+" // keeps the column's index out of the plan
	}
	var some []string
	for _, p := range t.seenBy {
		text := p.guids
		if t.ofApp != nil {
			// No space has an empty guid, so that it says the other thing that has to be known, without another query.
			text += " UNION ALL SELECT '' WHERE EXISTS (" + t.unfilled() + ")"
		}
		guids, err := db.All(tx, func(row db.Scanner) (guid string, err error) {
			err = row.Scan(&guid)
			return guid, err
		}, "SELECT DISTINCT * FROM ("+text+") AS x ORDER BY 1", t.asked(q, text)...)
		if err != nil {
			return s, err
		}
		if t.ofApp != nil && len(guids) > 0 && guids[0] == "" {
			guids, s.byApp = guids[1:], true
		}
		if len(guids) == 0 {
			continue
		}
		in, args := oneOf(tx.Dialect(), exact, values(guids))
		condition := sign + "t." + p.column + in
		if s.byApp {
			condition = spaceOfApp.wrap(spaceOfApp.sql + in)
		}
		some, s.seen.args = append(some, condition), append(s.seen.args, args...)
	}
	s.seen.sql = strings.Join(some, " OR ")
	if len(some) == 0 {
		s.seen.sql = never
	}
	return s, nil
}

// unfilled selects something if rows of apps lack their space, which is until FillSpaces after a server of an older
// version has inserted them.
func (t *table[T]) unfilled() string {
	return "SELECT 1 FROM " + t.name + " u JOIN platform_apps a ON a.guid = u.app_guid WHERE u.space_guid = ''"
}

// single reports whether a query is for one row.
func single(q platform.Query) bool {
	return slices.ContainsFunc(q.Where, func(c platform.Cond) bool {
		return c.Field == "guid" && c.Op == platform.OpIn && len(c.Values) == 1
	})
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
