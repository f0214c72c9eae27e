package cli

import (
	"context"
	"net/http"
	"strings"

	"ingot/internal/cli/client"
)

const segmentPath = "/v3/isolation_segments"

func (s *session) segment(ctx context.Context, name string) (client.Thing, error) {
	return s.thing(ctx, "Isolation segment", segmentPath, name, nil)
}

type segmentRow struct {
	Name string   `json:"name"`
	GUID string   `json:"guid"`
	Orgs []string `json:"orgs"`
}

func listSegments(ctx context.Context, s *session, _ words, _ *noFlags) (result, error) {
	s.acting("Getting isolation segments")
	found, err := client.List[client.Thing](ctx, s.api, segmentPath, nil)
	if err != nil {
		return nil, err
	}
	out := &listing[segmentRow]{key: "isolation segments", heading: []string{"name", "orgs"}, cells: func(r segmentRow) []string {
		return []string{r.Name, strings.Join(r.Orgs, ", ")}
	}}
	for _, t := range found {
		orgs, err := client.List[client.Thing](ctx, s.api, segmentPath+"/"+t.GUID+"/organizations", nil)
		if err != nil {
			return nil, err
		}
		row := segmentRow{t.Name, t.GUID, []string{}}
		for _, o := range orgs {
			row.Orgs = append(row.Orgs, o.Name)
		}
		out.rows = append(out.rows, row)
	}
	return out, nil
}

func createSegment(ctx context.Context, s *session, w words, _ *noFlags) (result, error) {
	s.acting("Creating isolation segment %s", w["SEGMENT"])
	return s.create(ctx, "isolation segment", w["SEGMENT"], segmentPath, map[string]any{"name": w["SEGMENT"]}, "must be unique")
}

func deleteSegment(ctx context.Context, s *session, w words, f *forceFlag) (result, error) {
	return s.deleteNamed(ctx, f.Force, "isolation segment", w["SEGMENT"], segmentPath, nil)
}

// entitle allows the spaces of an org to use a segment, or revokes that.
func entitle(on bool) func(context.Context, *session, words, *noFlags) (result, error) {
	return func(ctx context.Context, s *session, w words, _ *noFlags) (result, error) {
		verb := map[bool]string{true: "Enabling isolation segment %s for org %s", false: "Removing entitlement to isolation segment %s from org %s"}[on]
		s.acting(verb, w["SEGMENT"], w["ORG"])
		org, err := s.org(ctx, w["ORG"])
		if err != nil {
			return nil, err
		}
		segment, err := s.segment(ctx, w["SEGMENT"])
		if err != nil {
			return nil, err
		}
		at := segmentPath + "/" + segment.GUID + "/relationships/organizations"
		if on {
			err = s.send(ctx, http.MethodPost, at, relateAll(org.GUID))
		} else {
			err = s.send(ctx, http.MethodDelete, at+"/"+org.GUID, nil)
		}
		if err != nil {
			return nil, err
		}
		return s.done("org", org.Name, "segment", segment.Name, "enabled", on)
	}
}

// useSegment sets the segment of an org or a space; without a segment, the default.
func useSegment(ctx context.Context, s *session, w words, _ *noFlags) (result, error) {
	verb := "Resetting the isolation segment of"
	if w["SEGMENT"] != "" {
		verb = "Assigning isolation segment " + s.out.Bold(w["SEGMENT"]) + " to"
	}
	path, relation, name := "/v3/organizations/", "/relationships/default_isolation_segment", w["ORG"]
	var to client.Thing
	var err error
	if w["SPACE"] != "" {
		path, relation, name = "/v3/spaces/", "/relationships/isolation_segment", w["SPACE"]
		s.acting(verb+" space %s", name)
		to, err = s.spaceOf(ctx, client.Thing{GUID: s.cfg.Org.GUID}, name)
	} else {
		s.acting(verb+" org %s", name)
		to, err = s.org(ctx, name)
	}
	if err != nil {
		return nil, err
	}
	body := map[string]any{"data": nil}
	if w["SEGMENT"] != "" {
		segment, err := s.segment(ctx, w["SEGMENT"])
		if err != nil {
			return nil, err
		}
		body = client.Relate(segment.GUID)
	}
	if err := s.send(ctx, http.MethodPatch, path+to.GUID+relation, body); err != nil {
		return nil, err
	}
	out, err := s.done("name", to.Name, "segment", w["SEGMENT"])
	s.say("TIP: Restart the apps of the affected spaces to move them.")
	return out, err
}

func segmentCommands() []*command {
	return inGroup(groupSegments,
		entry("isolation-segments", "", "List isolation segments", aLogin, listSegments, ""),
		entry("create-isolation-segment", "SEGMENT", "Create an isolation segment", aLogin, createSegment, "gpu"),
		entry("delete-isolation-segment", "SEGMENT [-f]", "Delete an isolation segment", aLogin, deleteSegment, "gpu -f").slow(),
		entry("enable-org-isolation", "ORG SEGMENT", "Entitle an org to an isolation segment", aLogin, entitle(true), "acme gpu"),
		entry("disable-org-isolation", "ORG SEGMENT", "Revoke an org's entitlement to an isolation segment", aLogin, entitle(false), "acme gpu"),
		entry("set-org-default-isolation-segment", "ORG SEGMENT", "Set the isolation segment of an org's spaces", aLogin, useSegment, "acme gpu"),
		entry("reset-org-default-isolation-segment", "ORG", "Reset the isolation segment of an org's spaces", aLogin, useSegment, "acme"),
		entry("set-space-isolation-segment", "SPACE SEGMENT", "Set the isolation segment of a space", anOrg, useSegment, "dev gpu"),
		entry("reset-space-isolation-segment", "SPACE", "Reset a space to the org's isolation segment", anOrg, useSegment, "dev"),
	)
}
