package storetest

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	"ingot/internal/platform"
)

// testPermissions compares what a store shows readers with what package platform
// permits: for users with each role alone, and for users with several.
func testPermissions(k *kit) {
	market(k)
	spaceQuotas.insert(k, &platform.SpaceQuota{Resource: platform.Resource{GUID: "quota-a"}, Name: "q", OrgGUID: "org-a"})
	spaceQuotas.insert(k, &platform.SpaceQuota{Resource: platform.Resource{GUID: "quota-b"}, Name: "q", OrgGUID: "org-b"})
	k.update(func(tx platform.Tx) error { // quota-a is that of a1
		space, err := tx.Spaces().Get("space-a1")
		if err != nil {
			return err
		}
		space.QuotaGUID = "quota-a"
		return tx.Spaces().Update(space)
	})

	var all []platform.Role // that a user could have
	for _, r := range platform.OrganizationRoles {
		all = append(all, platform.Role{Type: r, OrgGUID: "org-a"}, platform.Role{Type: r, OrgGUID: "org-b"})
	}
	for _, r := range platform.SpaceRoles {
		for _, s := range slices.Sorted(maps.Keys(world)) {
			all = append(all, platform.Role{Type: r, SpaceGUID: "space-" + s})
		}
	}
	p := permitted{}
	for i, r := range all {
		p.give(k, fmt.Sprint("user-alone-", i), r)
	}
	random := rand.New(rand.NewPCG(14, 2))
	for i := range 20 {
		for _, n := range random.Perm(len(all))[:2+i%4] {
			p.give(k, fmt.Sprint("user-several-", i), all[n])
		}
	}
	k.within(func(k *kit) {
		for user := range p {
			p.check(k, user)
		}
	})
}

// permitted is the roles of users, by their guid.
type permitted map[string][]platform.Role

func (p permitted) give(k *kit, user string, r platform.Role) {
	k.Helper()
	if p[user] == nil {
		users.insert(k, &platform.User{Resource: platform.Resource{GUID: user}})
	}
	r.GUID, r.UserGUID = fmt.Sprint("role-", user, "-", len(p[user])), user
	roles.insert(k, &r)
	p[user] = append(p[user], r)
}

// may reports whether the roles that a user has in an organization, and in any of
// spaces, permit an action.
func (p permitted) may(user string, a platform.Action, org string, spaces ...string) bool {
	var s platform.Standing
	for _, r := range p[user] {
		if r.OrgGUID == org || slices.Contains(spaces, r.SpaceGUID) {
			s.Roles = append(s.Roles, r.Type)
		}
	}
	return s.Grants(a)
}

// readsOrg and readsSpace report what a user may read. An organization is seen
// with a role in any of its spaces.
func (p permitted) readsOrg(user, org string) bool {
	var spaces []string
	for s, of := range world {
		if of == org {
			spaces = append(spaces, "space-"+s)
		}
	}
	return p.may(user, platform.ReadOrganization, org, spaces...)
}

func (p permitted) readsSpace(user, space string) bool {
	return p.may(user, platform.ReadSpace, world[space], "space-"+space)
}

// check compares everything that a user sees.
func (p permitted) check(k *kit, user string) {
	k.Helper()
	want := seen{domains: []string{"all"}}
	var bindings, services, quotas []string
	for _, org := range []string{"org-a", "org-b"} {
		if p.readsOrg(user, org) {
			want.orgs, want.domains = append(want.orgs, org), append(want.domains, org)
		}
		if p.may(user, platform.ReadEvents, org) {
			want.events = append(want.events, org)
		}
		if p.may(user, platform.ReadSpaceQuotas, org) || org == "org-a" && p.readsSpace(user, "a1") {
			quotas = append(quotas, "quota-"+org[len("org-"):])
		}
	}
	for s, org := range world {
		if p.may(user, platform.ReadEvents, org, "space-"+s) {
			want.events = append(want.events, s)
		}
		if p.readsSpace(user, s) {
			want.spaces = append(want.spaces, s)
			services, bindings = append(services, "instance-"+s), append(bindings, "binding-"+s)
		}
	}
	if p.readsSpace(user, "b1") {
		bindings = append(bindings, "across")
		if !p.readsSpace(user, "a1") {
			services = append(services, "instance-a1") // which is shared with it
		}
	}
	for other, held := range p {
		known := other == user
		for _, r := range held {
			org := r.OrgGUID
			sees := org != "" && p.readsOrg(user, org)
			if org == "" {
				s := r.SpaceGUID[len("space-"):]
				org, sees = world[s], p.readsSpace(user, s)
			}
			if sees {
				want.roles = append(want.roles, r.GUID)
			}
			known = known || p.readsOrg(user, org)
		}
		if known {
			want.users = append(want.users, strings.TrimPrefix(other, "user-"))
		}
	}
	who := fmt.Sprintf("%s with %v", user, p[user])
	checkSeen(k, who, user, want)
	q := platform.Query{Reader: &platform.Reader{UserGUID: user}}
	serviceInstances.expect(k, q, who+": service instances", services...)
	serviceBindings.expect(k, q, who+": service bindings", bindings...)
	spaceQuotas.expect(k, q, who+": space quotas", quotas...)

	// The roles that count in a space are those that it and its organization hold.
	for s, org := range world {
		var counting []string
		for _, r := range p[user] {
			if r.OrgGUID == org || r.SpaceGUID == "space-"+s {
				counting = append(counting, r.GUID)
			}
		}
		roles.expect(k, platform.Where("user_guid", user).And(platform.In("within_space_guid", "space-"+s)),
			who+": roles in "+s, counting...)
	}
}
