package platformdb

import "ingot/internal/platform"

var organizations = define(table[platform.Organization]{
	name: "platform_organizations",
	base: (*platform.Organization).Base, meta: (*platform.Organization).Meta,
	columns: []column[platform.Organization]{
		name("name", func(o *platform.Organization) *string { return &o.Name }),
		flag("suspended", func(o *platform.Organization) *bool { return &o.Suspended }),
		text("quota_guid", func(o *platform.Organization) *string { return &o.QuotaGUID }),
		text("segment_guid", func(o *platform.Organization) *string { return &o.SegmentGUID }),
	},
	virtual: map[string]field{"entitled_segment_guid": entitledTo},
	visible: "t.guid IN (" + visibleOrganizations + ")",
})

var spaces = define(table[platform.Space]{
	name: "platform_spaces",
	base: (*platform.Space).Base, meta: (*platform.Space).Meta,
	columns: []column[platform.Space]{
		name("name", func(s *platform.Space) *string { return &s.Name }),
		text("organization_guid", func(s *platform.Space) *string { return &s.OrgGUID }),
		text("quota_guid", func(s *platform.Space) *string { return &s.QuotaGUID }),
		flag("ssh_allowed", func(s *platform.Space) *bool { return &s.SSHAllowed }),
		text("segment_guid", func(s *platform.Space) *string { return &s.SegmentGUID }),
	},
	visible: "t.guid IN (" + visibleSpaces + ")",
})

var users = define(table[platform.User]{
	name: "platform_users",
	base: (*platform.User).Base, meta: (*platform.User).Meta,
	// The reader, and all users with a role in an organization of the reader or in
	// one of its spaces.
	visible: `t.guid = ? OR t.guid IN (
		SELECT m.user_guid FROM platform_roles m WHERE m.organization_guid IN (` + visibleOrganizations + `)
		UNION ALL
		SELECT m.user_guid FROM platform_spaces ms JOIN platform_roles m ON m.space_guid = ms.guid
		WHERE ms.organization_guid IN (` + visibleOrganizations + `))`,
})

var roles = define(table[platform.Role]{
	name: "platform_roles",
	base: (*platform.Role).Base,
	columns: []column[platform.Role]{
		text("type", func(r *platform.Role) *platform.RoleType { return &r.Type }),
		text("user_guid", func(r *platform.Role) *string { return &r.UserGUID }),
		text("organization_guid", func(r *platform.Role) *string { return &r.OrgGUID }),
		text("space_guid", func(r *platform.Role) *string { return &r.SpaceGUID }),
	},
	virtual: map[string]field{
		// The roles that count in a space: those in it, and those in its
		// organization.
		"within_space_guid": {
			kind: exact, sql: "s.guid",
			within: `(t.space_guid IN (SELECT s.guid FROM platform_spaces s WHERE {})
				OR t.organization_guid IN (SELECT s.organization_guid FROM platform_spaces s WHERE {}))`,
		},
	},
	visible: "t.organization_guid IN (" + visibleOrganizations + ") OR " + inVisibleSpaces,
})
