package platform

import (
	"ingot/internal/cf"
	"ingot/internal/fault"
)

func orgTarget(o *cf.Organization) Target {
	return Target{GUID: o.GUID, Type: "organization", Name: o.Name, OrgGUID: o.GUID}
}

func spaceTarget(s *cf.Space) Target {
	return Target{GUID: s.GUID, Type: "space", Name: s.Name, SpaceGUID: s.GUID, OrgGUID: s.OrgGUID}
}

// CreateOrganization stores an organization. Its creator becomes a user and a
// manager of it, so that they can go on in it, unless they are an admin, who
// needs no role, or a client.
func (p *Platform) CreateOrganization(tx cf.Tx, by Actor, o *cf.Organization) error {
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
		for _, t := range []cf.RoleType{cf.OrgUser, cf.OrgManager} {
			if err := p.GiveRole(tx, by, &cf.Role{Type: t, UserGUID: by.GUID, OrgGUID: o.GUID}); err != nil {
				return err
			}
		}
	}
	return p.Record(tx, "audit.organization.create", by, orgTarget(o), map[string]any{"request": map[string]any{"name": o.Name}})
}

// UpdateOrganization stores a changed organization.
func (p *Platform) UpdateOrganization(tx cf.Tx, by Actor, o *cf.Organization) error {
	err := tx.Organizations().Update(o)
	if fault.Is(err, fault.Conflict) {
		return fault.Wrap(err, fault.Unprocessable, "Organization name '%s' is already taken.", o.Name)
	}
	if err != nil {
		return err
	}
	return p.Record(tx, "audit.organization.update", by, orgTarget(o), map[string]any{"request": map[string]any{"name": o.Name}})
}

// DeleteOrganization removes it with all its spaces, domains and roles.
func (p *Platform) DeleteOrganization(tx cf.Tx, by Actor, o *cf.Organization) error {
	spaces, _, err := tx.Spaces().List(cf.Where("organization_guid", o.GUID))
	if err != nil {
		return err
	}
	for _, s := range spaces {
		if err := p.DeleteSpace(tx, by, s); err != nil {
			return err
		}
	}
	if _, err := tx.Roles().DeleteAll(cf.Where("organization_guid", o.GUID)); err != nil {
		return err
	}
	// Its domains may be shared: routes of other organizations go with them.
	domains, _, err := tx.Domains().List(cf.Where("organization_guid", o.GUID))
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
func (p *Platform) CreateSpace(tx cf.Tx, by Actor, s *cf.Space) error {
	s.SSHAllowed = true
	if err := spaceConflict(tx.Spaces().Insert(s)); err != nil {
		return err
	}
	return p.Record(tx, "audit.space.create", by, spaceTarget(s), map[string]any{"request": map[string]any{"name": s.Name}})
}

// UpdateSpace stores a changed space.
func (p *Platform) UpdateSpace(tx cf.Tx, by Actor, s *cf.Space) error {
	if err := spaceConflict(tx.Spaces().Update(s)); err != nil {
		return err
	}
	return p.Record(tx, "audit.space.update", by, spaceTarget(s), map[string]any{"request": map[string]any{"name": s.Name}})
}

func spaceConflict(err error) error {
	if fault.Is(err, fault.Conflict) {
		return fault.Wrap(err, fault.Unprocessable, "Name must be unique per organization")
	}
	return err
}

// DeleteSpace removes a space with its apps, routes and roles.
func (p *Platform) DeleteSpace(tx cf.Tx, by Actor, s *cf.Space) error {
	apps, _, err := tx.Apps().List(cf.Where("space_guid", s.GUID))
	if err != nil {
		return err
	}
	for _, app := range apps {
		if err := p.DeleteApp(tx, by, app); err != nil {
			return err
		}
	}
	routes, _, err := tx.Routes().List(cf.Where("space_guid", s.GUID))
	if err != nil {
		return err
	}
	for _, route := range routes {
		if err := p.DeleteRoute(tx, by, route); err != nil {
			return err
		}
	}
	if err := p.dropServices(tx, by, s); err != nil {
		return err
	}
	if _, err := tx.Roles().DeleteAll(cf.Where("space_guid", s.GUID)); err != nil {
		return err
	}
	if err := tx.Spaces().Delete(s.GUID); err != nil {
		return err
	}
	return p.Record(tx, "audit.space.delete-request", by, spaceTarget(s), nil)
}

// GiveRole stores a role; one that is there already is an error.
func (p *Platform) GiveRole(tx cf.Tx, by Actor, r *cf.Role) error {
	if _, err := tx.Users().Get(r.UserGUID); fault.Is(err, fault.NotFound) {
		if err := tx.Users().Insert(&cf.User{Resource: cf.Resource{GUID: r.UserGUID}}); err != nil {
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
func (p *Platform) TakeRole(tx cf.Tx, by Actor, r *cf.Role) error {
	if err := tx.Roles().Delete(r.GUID); err != nil {
		return err
	}
	return p.recordRole(tx, "_remove", by, r)
}

// recordRole names the organization also of roles in spaces: its auditors read
// the event.
func (p *Platform) recordRole(tx cf.Tx, what string, by Actor, r *cf.Role) error {
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
