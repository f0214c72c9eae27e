package storetest

import "ingot/internal/platform"

func checkQuotaConflicts(k *kit) {
	checkConflicts(k, "OrganizationQuota", orgQuotas,
		[]platform.OrganizationQuota{{Name: "Small"}}, []platform.OrganizationQuota{{Name: "small"}},
		[]platform.OrganizationQuota{{Name: "large"}})
	checkConflicts(k, "SpaceQuota", spaceQuotas,
		[]platform.SpaceQuota{{Name: "Small", OrgGUID: "o"}}, []platform.SpaceQuota{{Name: "small", OrgGUID: "o"}},
		[]platform.SpaceQuota{{Name: "Small", OrgGUID: "p"}})
}

// testQuotas sees that quotas are found by what they are applied to, and that a
// space quota is seen by the managers of its organization and by those who see a
// space that it is applied to.
func testQuotas(k *kit) {
	build(k)
	one := 1
	orgQuotas.insert(k,
		&platform.OrganizationQuota{Resource: platform.Resource{GUID: "small"}, Name: "small",
			Limits: platform.Limits{Routes: &one}},
		&platform.OrganizationQuota{Resource: platform.Resource{GUID: "large"}, Name: "large",
			Limits: platform.Limits{PaidServices: true}})
	spaceQuotas.insert(k,
		&platform.SpaceQuota{Resource: platform.Resource{GUID: "of-a1"}, Name: "one", OrgGUID: "org-a"},
		&platform.SpaceQuota{Resource: platform.Resource{GUID: "of-a"}, Name: "two", OrgGUID: "org-a"},
		&platform.SpaceQuota{Resource: platform.Resource{GUID: "of-b"}, Name: "one", OrgGUID: "org-b"})
	k.update(func(tx platform.Tx) error {
		org, err := tx.Organizations().Get("org-a")
		if err != nil {
			return err
		}
		org.QuotaGUID = "small"
		if err := tx.Organizations().Update(org); err != nil {
			return err
		}
		space, err := tx.Spaces().Get("space-a1")
		if err != nil {
			return err
		}
		space.QuotaGUID = "of-a1"
		return tx.Spaces().Update(space)
	})
	orgQuotas.expect(k, platform.Where("organization_guid", "org-a"), "the quota of an organization", "small")
	orgQuotas.expect(k, platform.Where("organization_guid", "org-b"), "the quota of one that has none")
	spaceQuotas.expect(k, platform.Where("space_guid", "space-a1"), "the quota of a space", "of-a1")
	spaceQuotas.expect(k, platform.Where("space_guid", "space-a2", "space-b1"), "the quotas of spaces that have none")
	spaceQuotas.expect(k, platform.Where("organization_guid", "org-a"), "the quotas of an organization", "of-a", "of-a1")
	organizations.expect(k, platform.Where("quota_guid", "small"), "the organizations of a quota", "org-a")
	spaces.expect(k, platform.Where("quota_guid", "of-a1"), "the spaces of a quota", "space-a1")

	roles.insert(k,
		&platform.Role{Type: platform.OrgManager, UserGUID: "manager", OrgGUID: "org-a"},
		&platform.Role{Type: platform.OrgUser, UserGUID: "member", OrgGUID: "org-a"},
		&platform.Role{Type: platform.OrgAuditor, UserGUID: "auditor", OrgGUID: "org-a"},
		&platform.Role{Type: platform.SpaceDeveloper, UserGUID: "developer", SpaceGUID: "space-a1"},
		&platform.Role{Type: platform.SpaceDeveloper, UserGUID: "neighbour", SpaceGUID: "space-a2"},
		&platform.Role{Type: platform.OrgManager, UserGUID: "stranger", OrgGUID: "org-b"})
	for who, want := range map[string][]string{
		"manager": {"of-a", "of-a1"}, "developer": {"of-a1"}, "stranger": {"of-b"}, "member": nil, "auditor": nil,
		"neighbour": nil, "": nil,
	} {
		q := platform.Query{Reader: &platform.Reader{UserGUID: who}}
		spaceQuotas.expect(k, q, "space quotas for the "+who, want...)
		orgQuotas.expect(k, q, "organization quotas for the "+who, "small", "large")
	}
}
