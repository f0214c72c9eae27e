package platformdb

// What a reader sees follows from his roles. Each ? is his guid.
const (
	// hisOrganizations are those in which, or in a space of which, he has any
	// role.
	hisOrganizations = `SELECT r.organization_guid FROM platform_roles r WHERE r.user_guid = ? AND r.organization_guid <> ''
		UNION ALL
		SELECT s.organization_guid FROM platform_roles r JOIN platform_spaces s ON s.guid = r.space_guid WHERE r.user_guid = ?`

	// hisSpaces are those in which he has any role, and all of the organizations
	// that he manages.
	hisSpaces = `SELECT r.space_guid FROM platform_roles r WHERE r.user_guid = ? AND r.space_guid <> ''
		UNION ALL
		SELECT s.guid FROM platform_roles r JOIN platform_spaces s ON s.organization_guid = r.organization_guid
		WHERE r.user_guid = ? AND r.type = 'organization_manager'`

	inHisSpaces     = "t.space_guid IN (" + hisSpaces + ")"
	ofAppsInHis     = "t.app_guid IN (SELECT a.guid FROM platform_apps a WHERE a.space_guid IN (" + hisSpaces + "))"
	routesInHis     = "SELECT rt.guid FROM platform_routes rt WHERE rt.space_guid IN (" + hisSpaces + ")"
	routesSharedHim = "SELECT rs.route_guid FROM platform_route_spaces rs WHERE rs.space_guid IN (" + hisSpaces + ")"
)

// The ways from a row to its space and organization.
var (
	orgOfSpace = field{
		kind: exact, sql: "s.organization_guid",
		within: "t.space_guid IN (SELECT s.guid FROM platform_spaces s WHERE {})",
	}
	spaceOfApp = field{
		kind: exact, sql: "a.space_guid",
		within: "t.app_guid IN (SELECT a.guid FROM platform_apps a WHERE {})",
	}
	orgOfApp = field{
		kind: exact, sql: "s.organization_guid",
		within: "t.app_guid IN (SELECT a.guid FROM platform_spaces s JOIN platform_apps a ON a.space_guid = s.guid WHERE {})",
	}
	// ofApp are the virtual fields of everything that belongs to an app.
	ofApp = map[string]field{"space_guid": spaceOfApp, "organization_guid": orgOfApp}
)
