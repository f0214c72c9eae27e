package platformdb

import "ingot/internal/platform"

// Everybody sees the quotas of organizations; to which they are applied is for
// the caller to hide.
var organizationQuotas = define(table[platform.OrganizationQuota]{
	name: "platform_organization_quotas",
	base: (*platform.OrganizationQuota).Base,
	columns: []column[platform.OrganizationQuota]{
		name("name", func(q *platform.OrganizationQuota) *string { return &q.Name }),
		object("limits", func(q *platform.OrganizationQuota) *platform.Limits { return &q.Limits }),
	},
	virtual: map[string]field{
		"organization_guid": through("guid", "o.guid", "o.quota_guid FROM platform_organizations o"),
	},
})

var spaceQuotas = define(table[platform.SpaceQuota]{
	name: "platform_space_quotas",
	base: (*platform.SpaceQuota).Base,
	columns: []column[platform.SpaceQuota]{
		name("name", func(q *platform.SpaceQuota) *string { return &q.Name }),
		text("organization_guid", func(q *platform.SpaceQuota) *string { return &q.OrgGUID }),
		object("limits", func(q *platform.SpaceQuota) *platform.Limits { return &q.Limits }),
	},
	virtual: map[string]field{
		"space_guid": through("guid", "s.guid", "s.quota_guid FROM platform_spaces s"),
	},
	// All of the organizations that the user manages, and those of the user's spaces.
	visible: "t.organization_guid IN (" + organizationsFor(platform.ReadSpaceQuotas) + `)
		OR t.guid IN (SELECT q.quota_guid FROM platform_spaces q WHERE q.quota_guid <> '' AND q.guid IN (` + visibleSpaces + `))`,
})
