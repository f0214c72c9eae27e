package platformdb

import "ingot/internal/platform"

// A reader sees the segments to which an organization of theirs is entitled.
var isolationSegments = define(table[platform.IsolationSegment]{
	name: "platform_isolation_segments",
	base: (*platform.IsolationSegment).Base, meta: (*platform.IsolationSegment).Meta,
	columns: []column[platform.IsolationSegment]{
		name("name", func(s *platform.IsolationSegment) *string { return &s.Name }),
		linked("organizations", members{"platform_segment_organizations", "segment_guid", "organization_guid"},
			func(s *platform.IsolationSegment) *[]string { return &s.Orgs }),
	},
	virtual: map[string]field{
		"organization_guid": through("guid", "x.organization_guid",
			"x.segment_guid FROM platform_segment_organizations x"),
	},
	visible: "t.guid IN (SELECT x.segment_guid FROM platform_segment_organizations x WHERE x.organization_guid IN (" +
		visibleOrganizations + "))",
})

// entitledTo finds the organizations of a segment.
var entitledTo = through("guid", "x.segment_guid", "x.organization_guid FROM platform_segment_organizations x")

func (x *transaction) IsolationSegments() platform.Repo[platform.IsolationSegment] {
	return repoOf(x, isolationSegments)
}
