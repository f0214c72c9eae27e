package platformdb

import (
	"strings"

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
	ofVisibleApps   = "t.app_guid IN (SELECT a.guid FROM platform_apps a WHERE a.space_guid IN (" +
		visibleSpaces + "))"
	routesInVisible     = "SELECT rt.guid FROM platform_routes rt WHERE rt.space_guid IN (" + visibleSpaces + ")"
	routesSharedVisible = "SELECT rs.route_guid FROM platform_route_spaces rs WHERE rs.space_guid IN (" +
		visibleSpaces + ")"
)

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
