package platformdb

import "ingot/internal/cf"

var organizations = define(table[cf.Organization]{
	name: "platform_organizations",
	base: (*cf.Organization).Base, meta: (*cf.Organization).Meta,
	columns: []column[cf.Organization]{
		name("name", func(o *cf.Organization) *string { return &o.Name }),
		flag("suspended", func(o *cf.Organization) *bool { return &o.Suspended }),
		text("quota_guid", func(o *cf.Organization) *string { return &o.QuotaGUID }),
	},
	visible: "t.guid IN (" + hisOrganizations + ")",
})

var spaces = define(table[cf.Space]{
	name: "platform_spaces",
	base: (*cf.Space).Base, meta: (*cf.Space).Meta,
	columns: []column[cf.Space]{
		name("name", func(s *cf.Space) *string { return &s.Name }),
		text("organization_guid", func(s *cf.Space) *string { return &s.OrgGUID }),
		text("quota_guid", func(s *cf.Space) *string { return &s.QuotaGUID }),
		flag("ssh_allowed", func(s *cf.Space) *bool { return &s.SSHAllowed }),
	},
	visible: "t.guid IN (" + hisSpaces + ")",
})

var users = define(table[cf.User]{
	name: "platform_users",
	base: (*cf.User).Base, meta: (*cf.User).Meta,
	// Himself, and whoever has a role in one of his organizations or their spaces.
	visible: `t.guid = ? OR t.guid IN (
		SELECT m.user_guid FROM platform_roles m WHERE m.organization_guid IN (` + hisOrganizations + `)
		UNION ALL
		SELECT m.user_guid FROM platform_spaces ms JOIN platform_roles m ON m.space_guid = ms.guid
		WHERE ms.organization_guid IN (` + hisOrganizations + `))`,
})

var roles = define(table[cf.Role]{
	name: "platform_roles",
	base: (*cf.Role).Base,
	columns: []column[cf.Role]{
		text("type", func(r *cf.Role) *cf.RoleType { return &r.Type }),
		text("user_guid", func(r *cf.Role) *string { return &r.UserGUID }),
		text("organization_guid", func(r *cf.Role) *string { return &r.OrgGUID }),
		text("space_guid", func(r *cf.Role) *string { return &r.SpaceGUID }),
	},
	visible: "t.organization_guid IN (" + hisOrganizations + ") OR " + inHisSpaces,
})
