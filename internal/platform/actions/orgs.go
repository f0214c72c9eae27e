package actions

import (
	"ingot/internal/base/fault"
	"ingot/internal/platform"
)

func orgTarget(o *platform.Organization) Target {
	return Target{GUID: o.GUID, Type: "organization", Name: o.Name, OrgGUID: o.GUID}
}

func spaceTarget(s *platform.Space) Target {
	return Target{GUID: s.GUID, Type: "space", Name: s.Name, SpaceGUID: s.GUID, OrgGUID: s.OrgGUID}
}

// CreateOrganization stores an organization. Its creator becomes a user and a
// manager of it, so that they can go on in it, unless they are an admin, who
// needs no role, or a client.
func (p *Platform) CreateOrganization(tx platform.Tx, by Actor, o *platform.Organization) error {
	if o.QuotaGUID == "" {
		quota, err := p.EnsureDefaultQuota(tx)
		if err != nil {
			return err
		}
		o.QuotaGUID = quota.GUID
	}
	err := tx.Organizations().Insert(o)
	if fault.Is(err, fault.Conflict) {
		return fault.Wrap(err, fault.Unprocessable, "Organization '%s' already exists.", o.Name)
	}
	if err != nil {
		return err
	}
	if by.Type == "user" && !by.Admin {
		for _, t := range []platform.RoleType{platform.OrgUser, platform.OrgManager} {
			if err := p.GiveRole(tx, by, &platform.Role{Type: t, UserGUID: by.GUID, OrgGUID: o.GUID}); err != nil {
				return err
			}
		}
	}
	return p.Record(tx, "audit.organization.create", by, orgTarget(o),
		map[string]any{"request": map[string]any{"name": o.Name}})
}

// UpdateOrganization stores a changed organization.
func (p *Platform) UpdateOrganization(tx platform.Tx, by Actor, o *platform.Organization) error {
	before, err := tx.Organizations().Get(o.GUID)
	if err != nil {
		return err
	}
	err = tx.Organizations().Update(o)
	if fault.Is(err, fault.Conflict) {
		return fault.Wrap(err, fault.Unprocessable, "Organization name '%s' is already taken.", o.Name)
	}
	if err != nil {
		return err
	}
	tx.Announce(platform.Changes{Names: before.Name != o.Name})
	return p.Record(tx, "audit.organization.update", by, orgTarget(o),
		map[string]any{"request": map[string]any{"name": o.Name}})
}

// DeleteOrganization removes it with all its spaces, domains and roles.
func (p *Platform) DeleteOrganization(tx platform.Tx, by Actor, o *platform.Organization) error {
	spaces, _, err := tx.Spaces().List(platform.Where("organization_guid", o.GUID))
	if err != nil {
		return err
	}
	for _, s := range spaces {
		if err := p.DeleteSpace(tx, by, s); err != nil {
			return err
		}
	}
	if _, err := tx.Roles().DeleteAll(platform.Where("organization_guid", o.GUID)); err != nil {
		return err
	}
	// Its domains may be shared: routes of other organizations go with them.
	domains, _, err := tx.Domains().List(platform.Where("organization_guid", o.GUID))
	if err != nil {
		return err
	}
	for _, d := range domains {
		if err := p.DeleteDomain(tx, by, d); err != nil {
			return err
		}
	}
	if err := forgetOrganization(tx, o.GUID); err != nil {
		return err
	}
	if err := tx.Organizations().Delete(o.GUID); err != nil {
		return err
	}
	return p.Record(tx, "audit.organization.delete-request", by, orgTarget(o), nil)
}

// CreateSpace makes a space. Who gets roles in it is the client's business.
func (p *Platform) CreateSpace(tx platform.Tx, by Actor, s *platform.Space) error {
	s.SSHAllowed = true
	if err := spaceConflict(tx.Spaces().Insert(s)); err != nil {
		return err
	}
	return p.Record(tx, "audit.space.create", by, spaceTarget(s),
		map[string]any{"request": map[string]any{"name": s.Name}})
}

// UpdateSpace stores a changed space.
func (p *Platform) UpdateSpace(tx platform.Tx, by Actor, s *platform.Space) error {
	before, err := tx.Spaces().Get(s.GUID)
	if err != nil {
		return err
	}
	if err := spaceConflict(tx.Spaces().Update(s)); err != nil {
		return err
	}
	tx.Announce(platform.Changes{Names: before.Name != s.Name})
	return p.Record(tx, "audit.space.update", by, spaceTarget(s),
		map[string]any{"request": map[string]any{"name": s.Name}})
}

func spaceConflict(err error) error {
	if fault.Is(err, fault.Conflict) {
		return fault.Wrap(err, fault.Unprocessable, "Name must be unique per organization")
	}
	return err
}

// DeleteSpace removes a space with its apps, routes and roles.
func (p *Platform) DeleteSpace(tx platform.Tx, by Actor, s *platform.Space) error {
	apps, _, err := tx.Apps().List(platform.Where("space_guid", s.GUID))
	if err != nil {
		return err
	}
	for _, app := range apps {
		if err := p.DeleteApp(tx, by, app); err != nil {
			return err
		}
	}
	routes, _, err := tx.Routes().List(platform.Where("space_guid", s.GUID))
	if err != nil {
		return err
	}
	for _, route := range routes {
		if err := p.DeleteRoute(tx, by, route); err != nil {
			return err
		}
	}
	if err := p.forgetRoutes(tx, s.GUID); err != nil {
		return err
	}
	if err := p.dropServices(tx, by, s); err != nil {
		return err
	}
	if _, err := tx.Roles().DeleteAll(platform.Where("space_guid", s.GUID)); err != nil {
		return err
	}
	if err := forgetSpaceRules(tx, s.GUID); err != nil {
		return err
	}
	if err := tx.Spaces().Delete(s.GUID); err != nil {
		return err
	}
	return p.Record(tx, "audit.space.delete-request", by, spaceTarget(s), nil)
}

// GiveRole stores a role. It is an error if the user already has it.
func (p *Platform) GiveRole(tx platform.Tx, by Actor, r *platform.Role) error {
	if _, err := tx.Users().Get(r.UserGUID); fault.Is(err, fault.NotFound) {
		if err := tx.Users().Insert(&platform.User{Resource: platform.Resource{GUID: r.UserGUID}}); err != nil {
			return err
		}
	} else if err != nil {
		return err
	}
	if err := tx.Roles().Insert(r); err != nil {
		return err
	}
	return p.recordRole(tx, "_add", by, r)
}

// TakeRole removes a role.
func (p *Platform) TakeRole(tx platform.Tx, by Actor, r *platform.Role) error {
	if err := tx.Roles().Delete(r.GUID); err != nil {
		return err
	}
	return p.recordRole(tx, "_remove", by, r)
}

// recordRole names the organization also of roles in spaces: its auditors read
// the event.
func (p *Platform) recordRole(tx platform.Tx, what string, by Actor, r *platform.Role) error {
	t := Target{GUID: r.UserGUID, Type: "user", SpaceGUID: r.SpaceGUID, OrgGUID: r.OrgGUID}
	if t.OrgGUID == "" {
		space, err := tx.Spaces().Get(r.SpaceGUID)
		if err != nil {
			return err
		}
		t.OrgGUID = space.OrgGUID
	}
	return p.Record(tx, "audit.user."+string(r.Type)+what, by, t, nil)
}
