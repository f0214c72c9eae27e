package storetest

import "ingot/internal/platform"

// testSegments sees that isolation segments are found by the organizations that are
// entitled to them, these by the segments, and that only their readers see them.
func testSegments(k *kit) {
	build(k)
	segments.insert(k,
		&platform.IsolationSegment{Resource: platform.Resource{GUID: "both"}, Name: "both", Orgs: []string{"org-a", "org-b"}},
		&platform.IsolationSegment{Resource: platform.Resource{GUID: "only-b"}, Name: "Only", Orgs: []string{"org-b"}},
		&platform.IsolationSegment{Resource: platform.Resource{GUID: "unused"}, Name: "unused"})
	checkConflicts(k, "IsolationSegment", segments,
		[]platform.IsolationSegment{{Name: "Small"}}, []platform.IsolationSegment{{Name: "small"}},
		[]platform.IsolationSegment{{Name: "large"}})
	segments.expect(k, platform.Where("organization_guid", "org-a"), "the segments of an organization", "both")
	segments.expect(k, platform.Where("organization_guid", "org-a", "org-b"), "the segments of two", "both", "only-b")
	segments.expect(k, platform.Where("name", "only"), "a segment by its name in lower case", "only-b")
	organizations.expect(k, platform.Where("entitled_segment_guid", "both"), "the organizations of a segment",
		"org-a", "org-b")
	organizations.expect(k, platform.Where("entitled_segment_guid", "unused"), "the organizations of one that has none")
	roles.insert(k,
		&platform.Role{Type: platform.OrgAuditor, UserGUID: "auditor", OrgGUID: "org-a"},
		&platform.Role{Type: platform.SpaceDeveloper, UserGUID: "developer", SpaceGUID: "space-b1"})
	for who, want := range map[string][]string{"auditor": {"both"}, "developer": {"both", "only-b"}, "stranger": nil} {
		segments.expect(k, platform.Query{Reader: &platform.Reader{UserGUID: who}}, "segments for the "+who, want...)
	}
	k.update(func(tx platform.Tx) error {
		s, err := tx.IsolationSegments().Get("both")
		if err != nil {
			return err
		}
		s.Orgs = []string{"org-b"}
		return tx.IsolationSegments().Update(s)
	})
	segments.expect(k, platform.Where("organization_guid", "org-a"), "after the entitlement was revoked")
}
