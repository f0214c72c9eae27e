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

func orgQuotaTarget(q *platform.OrganizationQuota) Target {
	return Target{GUID: q.GUID, Type: "organization_quota", Name: q.Name}
}

func spaceQuotaTarget(q *platform.SpaceQuota) Target {
	return Target{GUID: q.GUID, Type: "space_quota", Name: q.Name, OrgGUID: q.OrgGUID}
}

func quotaData(name string, l platform.Limits) map[string]any {
	return map[string]any{"request": map[string]any{"name": name, "limits": l}}
}

// CreateOrganizationQuota stores a quota and applies it.
func (p *Platform) CreateOrganizationQuota(tx platform.Tx, by Actor, q *platform.OrganizationQuota,
	orgs []*platform.Organization) error {
	if err := platform.CheckQuota(q.Name, q.Limits); err != nil {
		return err
	}
	if err := quotaConflict("Organization", q.Name, tx.OrganizationQuotas().Insert(q)); err != nil {
		return err
	}
	if err := p.Record(tx, "audit.organization_quota.create", by, orgQuotaTarget(q),
		quotaData(q.Name, q.Limits)); err != nil {
		return err
	}
	return p.ApplyOrganizationQuota(tx, by, q, orgs)
}

func quotaConflict(kind, name string, err error) error {
	if fault.Is(err, fault.Conflict) {
		return fault.Wrap(err, fault.Unprocessable, "%s Quota '%s' already exists.", kind, name)
	}
	return err
}

// UpdateOrganizationQuota stores a changed quota. What its organizations use
// already may be more than it allows; they cannot use more still.
func (p *Platform) UpdateOrganizationQuota(tx platform.Tx, by Actor, q *platform.OrganizationQuota) error {
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
	if err := logsLimited(tx, q.Limits, "organization_guid", "org", orgs); err != nil {
		return err
	}
	return p.Record(tx, "audit.organization_quota.update", by, orgQuotaTarget(q), quotaData(q.Name, q.Limits))
}

// ApplyOrganizationQuota makes it the quota of organizations.
func (p *Platform) ApplyOrganizationQuota(tx platform.Tx, by Actor, q *platform.OrganizationQuota,
	orgs []*platform.Organization) error {
	if err := logsLimited(tx, q.Limits, "organization_guid", "org", orgs); err != nil {
		return err
	}
	for _, o := range orgs {
		o.QuotaGUID = q.GUID
		if err := tx.Organizations().Update(o); err != nil {
			return err
		}
		target := orgQuotaTarget(q)
		target.OrgGUID = o.GUID
		data := map[string]any{"organization_guid": o.GUID, "organization_name": o.Name}
		if err := p.Record(tx, "audit.organization_quota.apply", by, target, data); err != nil {
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
				"Current usage exceeds new quota values. The %s(s) being assigned this quota contain apps running with an "+
					"unlimited log rate limit. Limit them with 'cf scale -l' first.", kind)
		}
	}
	return nil
}

// DeleteOrganizationQuota removes a quota that no organization has.
func (p *Platform) DeleteOrganizationQuota(tx platform.Tx, by Actor, q *platform.OrganizationQuota) error {
	n, err := tx.Organizations().Count(platform.Where("quota_guid", q.GUID))
	if err != nil {
		return err
	}
	if n > 0 {
		return fault.New(fault.Unprocessable,
			"This quota is applied to one or more organizations. Apply different quotas to those organizations before deleting.")
	}
	if err := tx.OrganizationQuotas().Delete(q.GUID); err != nil {
		return err
	}
	return p.Record(tx, "audit.organization_quota.delete", by, orgQuotaTarget(q), nil)
}

// CreateSpaceQuota stores a quota of an organization and applies it to spaces.
func (p *Platform) CreateSpaceQuota(tx platform.Tx, by Actor, q *platform.SpaceQuota, spaces []*platform.Space) error {
	if err := platform.CheckQuota(q.Name, q.Limits); err != nil {
		return err
	}
	if err := quotaConflict("Space", q.Name, tx.SpaceQuotas().Insert(q)); err != nil {
		return err
	}
	if err := p.Record(tx, "audit.space_quota.create", by, spaceQuotaTarget(q), quotaData(q.Name, q.Limits)); err != nil {
		return err
	}
	return p.ApplySpaceQuota(tx, by, q, spaces)
}

// UpdateSpaceQuota stores a changed quota.
func (p *Platform) UpdateSpaceQuota(tx platform.Tx, by Actor, q *platform.SpaceQuota) error {
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
	if err := logsLimited(tx, q.Limits, "space_guid", "space", spaces); err != nil {
		return err
	}
	return p.Record(tx, "audit.space_quota.update", by, spaceQuotaTarget(q), quotaData(q.Name, q.Limits))
}

// ApplySpaceQuota makes it the quota of spaces of its organization.
func (p *Platform) ApplySpaceQuota(tx platform.Tx, by Actor, q *platform.SpaceQuota, spaces []*platform.Space) error {
	for _, s := range spaces {
		if s.OrgGUID != q.OrgGUID {
			return fault.New(fault.Unprocessable, "Space quotas cannot be applied outside of their owning organization.")
		}
	}
	if err := logsLimited(tx, q.Limits, "space_guid", "space", spaces); err != nil {
		return err
	}
	for _, s := range spaces {
		if err := p.setSpaceQuota(tx, by, "apply", q, s, q.GUID); err != nil {
			return err
		}
	}
	return nil
}

// setSpaceQuota changes the quota of a space; what is apply or remove.
func (p *Platform) setSpaceQuota(tx platform.Tx, by Actor, what string, q *platform.SpaceQuota, s *platform.Space,
	guid string) error {
	s.QuotaGUID = guid
	if err := tx.Spaces().Update(s); err != nil {
		return err
	}
	target := spaceQuotaTarget(q)
	target.SpaceGUID = s.GUID
	return p.Record(tx, "audit.space_quota."+what, by, target, map[string]any{"space_guid": s.GUID, "space_name": s.Name})
}

// RemoveSpaceQuota removes a quota from a space.
func (p *Platform) RemoveSpaceQuota(tx platform.Tx, by Actor, q *platform.SpaceQuota, s *platform.Space) error {
	if s.QuotaGUID != q.GUID {
		return fault.New(fault.Unprocessable,
			"Unable to remove quota from space with guid '%s'. Ensure the space quota is applied to this space.", s.GUID)
	}
	return p.setSpaceQuota(tx, by, "remove", q, s, "")
}

// DeleteSpaceQuota removes a quota; its spaces have none then.
func (p *Platform) DeleteSpaceQuota(tx platform.Tx, by Actor, q *platform.SpaceQuota) error {
	spaces, _, err := tx.Spaces().List(platform.Where("quota_guid", q.GUID))
	for i := 0; i < len(spaces) && err == nil; i++ {
		spaces[i].QuotaGUID = ""
		err = tx.Spaces().Update(spaces[i])
	}
	if err != nil {
		return err
	}
	if err := tx.SpaceQuotas().Delete(q.GUID); err != nil {
		return err
	}
	return p.Record(tx, "audit.space_quota.delete", by, spaceQuotaTarget(q), nil)
}

// Usage is what apps, services and routes take, of a space, an organization or
// the whole platform. Quotas limit it.
type Usage struct {
	Instances        int // of started apps
	MemoryMB         int // of these and of tasks that are not over
	LogRate          int64
	UnlimitedLogs    bool // some of these have no limit of their log rate
	Tasks            int
	Routes           int
	ReservedPorts    int
	Domains          int // private ones
	ServiceInstances int // managed ones
	ServiceKeys      int
}

// Running returns what started apps and tasks use. Field is "space_guid" or
// "organization_guid", or empty for the whole platform.
func Running(tx platform.Tx, field, guid string) (u Usage, err error) {
	q := below(field, guid)
	apps, _, err := tx.Apps().List(platform.WithoutSecrets(q.And(platform.In("state", string(platform.AppStarted)))))
	if err != nil {
		return u, err
	}
	guids := make([]string, 0, len(apps))
	for _, app := range apps {
		guids = append(guids, app.GUID)
	}
	processes, _, err := tx.Processes().List(platform.Query{Where: []platform.Cond{platform.InStrings("app_guid", guids)}})
	if err != nil {
		return u, err
	}
	for _, p := range processes {
		u.Instances += p.Instances
		u.take(p.Instances, p.MemoryMB, p.LogRate)
	}
	tasks, _, err := tx.Tasks().List(platform.WithoutSecrets(q.And(platform.ActiveTasks())))
	for _, t := range tasks {
		u.Tasks++
		u.take(1, t.MemoryMB, t.LogRate)
	}
	return u, err
}

func (u *Usage) take(instances, memoryMB int, logRate int64) {
	u.MemoryMB += instances * memoryMB
	switch {
	case instances == 0:
	case logRate < 0:
		u.UnlimitedLogs = true
	default:
		u.LogRate += int64(instances) * min(logRate, platform.MaxLogRate)
	}
}

// UsageOf is like Running, and counts routes, services and domains as well.
func UsageOf(tx platform.Tx, field, guid string) (Usage, error) {
	u, err := Running(tx, field, guid)
	if err != nil {
		return u, err
	}
	q := below(field, guid)
	if u.Routes, err = tx.Routes().Count(q); err != nil {
		return u, err
	}
	if u.ReservedPorts, err = tx.Routes().
		Count(q.And(platform.Cond{Field: "port", Op: platform.OpGreater, Values: []any{0}})); err != nil {
		return u, err
	}
	if u.ServiceInstances, err = tx.ServiceInstances().
		Count(q.And(platform.In("type", platform.ServiceManaged))); err != nil {
		return u, err
	}
	if u.ServiceKeys, err = tx.ServiceBindings().Count(q.And(platform.In("type", platform.BindingKey))); err != nil ||
		field == "space_guid" {
		return u, err
	}
	if field == "" {
		q = q.And(platform.Cond{Field: "organization_guid", Op: platform.OpNotNull})
	}
	u.Domains, err = tx.Domains().Count(q)
	return u, err
}

func below(field, guid string) platform.Query {
	if field == "" {
		return platform.Query{}
	}
	return platform.Where(field, guid)
}
