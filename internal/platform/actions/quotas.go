package actions

import (
	"ingot/internal/base/fault"
	"ingot/internal/platform"
)

// EnsureDefaultQuota returns the quota of new organizations. It is created
// without limits when it does not exist, and organizations that have no quota
// get it.
func (p *Platform) EnsureDefaultQuota(tx platform.Tx) (*platform.OrganizationQuota, error) {
	quota, err := tx.OrganizationQuotas().First(platform.Where("name", platform.DefaultQuota))
	if fault.Is(err, fault.NotFound) {
		quota = &platform.OrganizationQuota{Name: platform.DefaultQuota, Limits: platform.Limits{PaidServices: true}}
		err = tx.OrganizationQuotas().Insert(quota)
	}
	if err != nil {
		return nil, err
	}
	without, _, err := tx.Organizations().List(platform.Where("quota_guid", ""))
	for i := 0; i < len(without) && err == nil; i++ {
		without[i].QuotaGUID = quota.GUID
		err = tx.Organizations().Update(without[i])
	}
	return quota, err
}

// CreateOrganizationQuota stores a quota and applies it.
func (p *Platform) CreateOrganizationQuota(tx platform.Tx, q *platform.OrganizationQuota, orgs []*platform.Organization) error {
	if err := platform.CheckQuota(q.Name, q.Limits); err != nil {
		return err
	}
	if err := quotaConflict("Organization", q.Name, tx.OrganizationQuotas().Insert(q)); err != nil {
		return err
	}
	return p.ApplyOrganizationQuota(tx, q, orgs)
}

func quotaConflict(kind, name string, err error) error {
	if fault.Is(err, fault.Conflict) {
		return fault.Wrap(err, fault.Unprocessable, "%s Quota '%s' already exists.", kind, name)
	}
	return err
}

// UpdateOrganizationQuota stores a changed quota. What its organizations use
// already may be more than it allows; they cannot use more still.
func (p *Platform) UpdateOrganizationQuota(tx platform.Tx, q *platform.OrganizationQuota) error {
	if err := platform.CheckQuota(q.Name, q.Limits); err != nil {
		return err
	}
	if err := quotaConflict("Organization", q.Name, tx.OrganizationQuotas().Update(q)); err != nil {
		return err
	}
	orgs, _, err := tx.Organizations().List(platform.Where("quota_guid", q.GUID))
	if err != nil {
		return err
	}
	return logsLimited(tx, q.Limits, "organization_guid", "org", orgs)
}

// ApplyOrganizationQuota makes it the quota of organizations.
func (p *Platform) ApplyOrganizationQuota(tx platform.Tx, q *platform.OrganizationQuota, orgs []*platform.Organization) error {
	if err := logsLimited(tx, q.Limits, "organization_guid", "org", orgs); err != nil {
		return err
	}
	for _, o := range orgs {
		o.QuotaGUID = q.GUID
		if err := tx.Organizations().Update(o); err != nil {
			return err
		}
	}
	return nil
}

// logsLimited refuses a limit of the log rate where something without a limit
// runs already.
func logsLimited[T any, P interface {
	*T
	Base() *platform.Resource
}](tx platform.Tx, l platform.Limits, field, kind string, places []*T) error {
	if l.LogRate == nil {
		return nil
	}
	for _, place := range places {
		u, err := Running(tx, field, P(place).Base().GUID)
		if err != nil {
			return err
		}
		if u.UnlimitedLogs {
			return fault.New(fault.Unprocessable,
				"Current usage exceeds new quota values. The %s(s) being assigned this quota contain apps running with an unlimited log rate limit. Limit them with 'cf scale -l' first.", kind)
		}
	}
	return nil
}

// DeleteOrganizationQuota removes a quota that no organization has.
func (p *Platform) DeleteOrganizationQuota(tx platform.Tx, q *platform.OrganizationQuota) error {
	n, err := tx.Organizations().Count(platform.Where("quota_guid", q.GUID))
	if err != nil {
		return err
	}
	if n > 0 {
		return fault.New(fault.Unprocessable, "This quota is applied to one or more organizations. Apply different quotas to those organizations before deleting.")
	}
	return tx.OrganizationQuotas().Delete(q.GUID)
}

// CreateSpaceQuota stores a quota of an organization and applies it to spaces.
func (p *Platform) CreateSpaceQuota(tx platform.Tx, q *platform.SpaceQuota, spaces []*platform.Space) error {
	if err := platform.CheckQuota(q.Name, q.Limits); err != nil {
		return err
	}
	if err := quotaConflict("Space", q.Name, tx.SpaceQuotas().Insert(q)); err != nil {
		return err
	}
	return p.ApplySpaceQuota(tx, q, spaces)
}

// UpdateSpaceQuota stores a changed quota.
func (p *Platform) UpdateSpaceQuota(tx platform.Tx, q *platform.SpaceQuota) error {
	if err := platform.CheckQuota(q.Name, q.Limits); err != nil {
		return err
	}
	if err := quotaConflict("Space", q.Name, tx.SpaceQuotas().Update(q)); err != nil {
		return err
	}
	spaces, _, err := tx.Spaces().List(platform.Where("quota_guid", q.GUID))
	if err != nil {
		return err
	}
	return logsLimited(tx, q.Limits, "space_guid", "space", spaces)
}

// ApplySpaceQuota makes it the quota of spaces of its organization.
func (p *Platform) ApplySpaceQuota(tx platform.Tx, q *platform.SpaceQuota, spaces []*platform.Space) error {
	for _, s := range spaces {
		if s.OrgGUID != q.OrgGUID {
			return fault.New(fault.Unprocessable, "Space quotas cannot be applied outside of their owning organization.")
		}
	}
	if err := logsLimited(tx, q.Limits, "space_guid", "space", spaces); err != nil {
		return err
	}
	for _, s := range spaces {
		s.QuotaGUID = q.GUID
		if err := tx.Spaces().Update(s); err != nil {
			return err
		}
	}
	return nil
}

// RemoveSpaceQuota takes a quota from a space.
func (p *Platform) RemoveSpaceQuota(tx platform.Tx, q *platform.SpaceQuota, s *platform.Space) error {
	if s.QuotaGUID != q.GUID {
		return fault.New(fault.Unprocessable, "Unable to remove quota from space with guid '%s'. Ensure the space quota is applied to this space.", s.GUID)
	}
	s.QuotaGUID = ""
	return tx.Spaces().Update(s)
}

// DeleteSpaceQuota removes a quota; its spaces have none then.
func (p *Platform) DeleteSpaceQuota(tx platform.Tx, q *platform.SpaceQuota) error {
	spaces, _, err := tx.Spaces().List(platform.Where("quota_guid", q.GUID))
	for i := 0; i < len(spaces) && err == nil; i++ {
		err = p.RemoveSpaceQuota(tx, q, spaces[i])
	}
	if err != nil {
		return err
	}
	return tx.SpaceQuotas().Delete(q.GUID)
}
