package actions

import (
	"cmp"
	"slices"
	"strings"

	"ingot/internal/base/fault"
	"ingot/internal/platform"
)

// EnsureSharedSegment stores the segment of all apps that have no other.
func (p *Platform) EnsureSharedSegment(tx platform.Tx) error {
	return ensure(tx.IsolationSegments(), platform.Where("guid", platform.SharedSegmentGUID),
		&platform.IsolationSegment{Resource: platform.Resource{GUID: platform.SharedSegmentGUID},
			Name: platform.SharedSegment})
}

func segmentTarget(s *platform.IsolationSegment) Target {
	return Target{GUID: s.GUID, Type: "isolation_segment", Name: s.Name}
}

// CreateSegment stores an isolation segment.
func (p *Platform) CreateSegment(tx platform.Tx, by Actor, s *platform.IsolationSegment) error {
	if err := platform.CheckSegmentName(s.Name); err != nil {
		return err
	}
	if err := segmentConflict(tx.IsolationSegments().Insert(s)); err != nil {
		return err
	}
	return p.Record(tx, "audit.isolation_segment.create", by, segmentTarget(s),
		map[string]any{"request": map[string]any{"name": s.Name}})
}

func segmentConflict(err error) error {
	if fault.Is(err, fault.Conflict) {
		return fault.Wrap(err, fault.Unprocessable, "Isolation Segment names are case insensitive and must be unique")
	}
	return err
}

// UpdateSegment stores a changed name or metadata of an isolation segment.
func (p *Platform) UpdateSegment(tx platform.Tx, by Actor, s *platform.IsolationSegment) error {
	if s.GUID == platform.SharedSegmentGUID {
		return fault.New(fault.Unprocessable, "Cannot update the %s Isolation Segment", platform.SharedSegment)
	}
	if err := platform.CheckSegmentName(s.Name); err != nil {
		return err
	}
	if err := segmentConflict(tx.IsolationSegments().Update(s)); err != nil {
		return err
	}
	return p.Record(tx, "audit.isolation_segment.update", by, segmentTarget(s),
		map[string]any{"request": map[string]any{"name": s.Name}})
}

// DeleteSegment removes an isolation segment to which no organization is entitled.
func (p *Platform) DeleteSegment(tx platform.Tx, by Actor, s *platform.IsolationSegment) error {
	if s.GUID == platform.SharedSegmentGUID {
		return fault.New(fault.Unprocessable, "Cannot delete the %s Isolation Segment", platform.SharedSegment)
	}
	if len(s.Orgs) > 0 {
		return fault.New(fault.NotEmpty, "Please delete the Organization associations for your Isolation Segment.")
	}
	if err := tx.IsolationSegments().Delete(s.GUID); err != nil {
		return err
	}
	return p.Record(tx, "audit.isolation_segment.delete", by, segmentTarget(s), nil)
}

// EntitleSegment allows organizations to use an isolation segment.
func (p *Platform) EntitleSegment(tx platform.Tx, by Actor, s *platform.IsolationSegment,
	orgs []*platform.Organization) error {
	for _, o := range orgs {
		if slices.Contains(s.Orgs, o.GUID) {
			continue
		}
		s.Orgs = append(s.Orgs, o.GUID)
		if err := p.recordEntitlement(tx, "entitle", by, s, o); err != nil {
			return err
		}
	}
	return tx.IsolationSegments().Update(s)
}

// RevokeSegment takes the entitlement of an organization back, if nothing in it
// uses the isolation segment.
func (p *Platform) RevokeSegment(tx platform.Tx, by Actor, s *platform.IsolationSegment,
	o *platform.Organization) error {
	if !slices.Contains(s.Orgs, o.GUID) {
		return fault.New(fault.Unprocessable, "Organization '%s' is not entitled to isolation segment '%s'.", o.Name, s.Name)
	}
	if o.SegmentGUID == s.GUID {
		return fault.New(fault.Unprocessable,
			"Cannot remove the entitlement while this Isolation Segment is assigned as the Default Isolation Segment for the "+
				"Organization.")
	}
	used, _, err := tx.Spaces().List(platform.Where("organization_guid", o.GUID).And(platform.In("segment_guid", s.GUID)))
	if err != nil {
		return err
	}
	if len(used) > 0 {
		var names []string
		for _, space := range used {
			names = append(names, "'"+space.Name+"'")
		}
		return fault.New(fault.Unprocessable,
			"Cannot remove the entitlement while this Isolation Segment is assigned to any Spaces. Currently assigned to: [%s]",
			strings.Join(names, ", "))
	}
	s.Orgs = slices.DeleteFunc(s.Orgs, func(g string) bool { return g == o.GUID })
	if err := tx.IsolationSegments().Update(s); err != nil {
		return err
	}
	return p.recordEntitlement(tx, "revoke", by, s, o)
}

func (p *Platform) recordEntitlement(tx platform.Tx, what string, by Actor, s *platform.IsolationSegment,
	o *platform.Organization) error {
	t := segmentTarget(s)
	t.OrgGUID = o.GUID
	return p.Record(tx, "audit.isolation_segment."+what, by, t, map[string]any{"organization_guid": o.GUID,
		"organization_name": o.Name})
}

// entitled refuses a segment that an organization may not use. Without a guid there is
// nothing to check.
func entitled(tx platform.Tx, orgGUID, segmentGUID, where string) error {
	if segmentGUID == "" {
		return nil
	}
	n, err := tx.IsolationSegments().Count(platform.Where("guid", segmentGUID).
		And(platform.In("organization_guid", orgGUID)))
	if err == nil && n == 0 {
		err = fault.New(fault.Unprocessable,
			"Unable to assign isolation segment with guid '%s'. Ensure it has been entitled to the organization%s.",
			segmentGUID, where)
	}
	return err
}

// SetDefaultSegment sets the isolation segment of the spaces of an organization that
// have none of their own; an empty guid means the shared one. Instances use it when
// they are started.
func (p *Platform) SetDefaultSegment(tx platform.Tx, by Actor, o *platform.Organization, guid string) error {
	if err := entitled(tx, o.GUID, guid, ""); err != nil {
		return err
	}
	o.SegmentGUID = guid
	if err := tx.Organizations().Update(o); err != nil {
		return err
	}
	return p.Record(tx, "audit.organization.update", by, orgTarget(o),
		map[string]any{"request": map[string]any{"default_isolation_segment_guid": orNothing(guid)}})
}

// SetSpaceSegment sets the isolation segment of a space; an empty guid means the
// default of its organization. Instances use it when they are started.
func (p *Platform) SetSpaceSegment(tx platform.Tx, by Actor, s *platform.Space, guid string) error {
	if err := entitled(tx, s.OrgGUID, guid, " that this space belongs to"); err != nil {
		return err
	}
	s.SegmentGUID = guid
	if err := tx.Spaces().Update(s); err != nil {
		return err
	}
	return p.Record(tx, "audit.space.update", by, spaceTarget(s),
		map[string]any{"request": map[string]any{"isolation_segment_guid": orNothing(guid)}})
}

func orNothing(guid string) any {
	if guid == "" {
		return nil
	}
	return guid
}

// SegmentOf returns the name of the isolation segment that apps of a space run in;
// empty means the shared one.
func SegmentOf(tx platform.Tx, s *platform.Space, o *platform.Organization) (string, error) {
	guid := cmp.Or(s.SegmentGUID, o.SegmentGUID)
	if guid == "" || guid == platform.SharedSegmentGUID {
		return "", nil
	}
	segment, err := tx.IsolationSegments().Get(guid)
	if err != nil {
		return "", err
	}
	return segment.Name, nil
}

// forgetEntitlements takes an organization that is deleted from its segments.
func forgetEntitlements(tx platform.Tx, orgGUID string) error {
	all, _, err := tx.IsolationSegments().List(platform.Where("organization_guid", orgGUID))
	for i := 0; i < len(all) && err == nil; i++ {
		all[i].Orgs = slices.DeleteFunc(all[i].Orgs, func(g string) bool { return g == orgGUID })
		err = tx.IsolationSegments().Update(all[i])
	}
	return err
}
