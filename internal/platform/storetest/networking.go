package storetest

import "ingot/internal/platform"

// testSecurityGroups sees that groups are found by the spaces they are bound to,
// and seen by those who see such a space; those of all spaces by everybody.
func testSecurityGroups(k *kit) {
	build(k)
	guid := func(g string) platform.Resource { return platform.Resource{GUID: g} }
	secGroups.insert(k,
		&platform.SecurityGroup{Resource: guid("run-all"), Name: "1", Running: true},
		&platform.SecurityGroup{Resource: guid("stage-all"), Name: "2", Staging: true},
		&platform.SecurityGroup{Resource: guid("run-a1"), Name: "3", RunningSpaces: []string{"space-a1", "space-b1"}},
		&platform.SecurityGroup{Resource: guid("stage-a2"), Name: "4", StagingSpaces: []string{"space-a2"}},
		&platform.SecurityGroup{Resource: guid("unbound"), Name: "5"})
	secGroups.expect(k, platform.Where("running_space_guid", "space-a1"), "bound for running", "run-a1")
	secGroups.expect(k, platform.Where("staging_space_guid", "space-a1"), "bound for staging")
	secGroups.expect(k, platform.Where("running_in_space_guid", "space-a1"), "for running in a1", "run-all", "run-a1")
	secGroups.expect(k, platform.Where("running_in_space_guid", "space-a2"), "for running in a2", "run-all")
	secGroups.expect(k, platform.Where("staging_in_space_guid", "space-a2"), "for staging in a2", "stage-all", "stage-a2")

	roles.insert(k,
		&platform.Role{Type: platform.OrgManager, UserGUID: "manager", OrgGUID: "org-a"},
		&platform.Role{Type: platform.OrgUser, UserGUID: "member", OrgGUID: "org-a"},
		&platform.Role{Type: platform.OrgAuditor, UserGUID: "auditor", OrgGUID: "org-a"},
		&platform.Role{Type: platform.SpaceDeveloper, UserGUID: "developer", SpaceGUID: "space-a1"},
		&platform.Role{Type: platform.SpaceSupporter, UserGUID: "neighbour", SpaceGUID: "space-a2"},
		&platform.Role{Type: platform.SpaceAuditor, UserGUID: "stranger", SpaceGUID: "space-b1"})
	for who, more := range map[string][]string{
		"manager": {"run-a1", "stage-a2"}, "developer": {"run-a1"}, "neighbour": {"stage-a2"}, "stranger": {"run-a1"},
		"member": nil, "auditor": nil, "": nil,
	} {
		secGroups.expect(k, platform.Query{Reader: &platform.Reader{UserGUID: who}}, "security groups for the "+who,
			append(more, "run-all", "stage-all")...)
	}
}

func testOnce(k *kit) {
	for i, want := range []bool{true, false, false} {
		k.update(func(tx platform.Tx) error {
			first, err := tx.Once("a")
			if first != want {
				k.Errorf("call %d: first is %t, want %t", i, first, want)
			}
			return err
		})
	}
	k.update(func(tx platform.Tx) error {
		first, err := tx.Once("b")
		if !first {
			k.Error("another name was not new")
		}
		return err
	})
}

// testNetworkPolicies sees that policies are found by their apps, and seen by
// developers of the spaces of both.
func testNetworkPolicies(k *kit) {
	build(k)
	add := func(guid, from, to string) {
		policies.insert(k, &platform.NetworkPolicy{Resource: platform.Resource{GUID: guid}, SourceApp: "app-" + from,
			DestApp: "app-" + to, Protocol: "tcp", FirstPort: 80, LastPort: 90})
	}
	add("within", "a1", "a1")
	add("beside", "a1", "a2")
	add("across", "b1", "a1")
	policies.expect(k, platform.Where("app_guid", "app-a1"), "of an app", "within", "beside", "across")
	policies.expect(k, platform.Where("app_guid", "app-a2", "app-b1"), "of apps", "beside", "across")
	policies.expect(k, platform.Where("source_guid", "app-a1"), "from an app", "within", "beside")
	roles.insert(k,
		&platform.Role{Type: platform.SpaceDeveloper, UserGUID: "one", SpaceGUID: "space-a1"},
		&platform.Role{Type: platform.SpaceDeveloper, UserGUID: "two", SpaceGUID: "space-a1"},
		&platform.Role{Type: platform.SpaceDeveloper, UserGUID: "two", SpaceGUID: "space-b1"},
		&platform.Role{Type: platform.SpaceAuditor, UserGUID: "auditor", SpaceGUID: "space-a1"},
		&platform.Role{Type: platform.OrgManager, UserGUID: "manager", OrgGUID: "org-a"})
	for who, want := range map[string][]string{"one": {"within"}, "two": {"within", "across"}, "auditor": nil,
		"manager": nil} {
		policies.expect(k, platform.Query{Reader: &platform.Reader{UserGUID: who}}, "policies for "+who, want...)
	}
}
