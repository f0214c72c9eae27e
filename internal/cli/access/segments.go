package access

import (
	"context"
	"net/http"
	"strings"

	"ingot/internal/base/cfapi"
	"ingot/internal/cli/client"
	"ingot/internal/cli/core"
)

const segmentPath = "/v3/isolation_segments"

func findSegment(ctx context.Context, s *core.Session, name string) (cfapi.Thing, error) {
	return s.Thing(ctx, "Isolation segment", segmentPath, name, nil)
}

type segmentRow struct {
	Name string   `json:"name"`
	GUID string   `json:"guid"`
	Orgs []string `json:"orgs"`
}

func listSegments(ctx context.Context, s *core.Session, _ core.Words, _ *core.NoFlags) (core.Result, error) {
	s.Acting("Getting isolation segments")
	found, err := client.List[cfapi.Thing](ctx, s.API, segmentPath, nil)
	if err != nil {
		return nil, err
	}
	out := &core.Listing[segmentRow]{Key: "isolation segments", Heading: []string{"name", "orgs"},
		Cells: func(r segmentRow) []string {
			return []string{r.Name, strings.Join(r.Orgs, ", ")}
		}}
	for _, t := range found {
		orgs, err := client.List[cfapi.Thing](ctx, s.API, segmentPath+"/"+t.GUID+"/organizations", nil)
		if err != nil {
			return nil, err
		}
		row := segmentRow{t.Name, t.GUID, []string{}}
		for _, o := range orgs {
			row.Orgs = append(row.Orgs, o.Name)
		}
		out.Rows = append(out.Rows, row)
	}
	return out, nil
}

func createSegment(ctx context.Context, s *core.Session, w core.Words, _ *core.NoFlags) (core.Result, error) {
	s.Acting("Creating isolation segment %s", w["SEGMENT"])
	return s.Create(ctx, "isolation segment", w["SEGMENT"], segmentPath, map[string]any{"name": w["SEGMENT"]},
		"must be unique")
}

func deleteSegment(ctx context.Context, s *core.Session, w core.Words, f *core.ForceFlag) (core.Result, error) {
	return s.DeleteNamed(ctx, f.Force, "isolation segment", w["SEGMENT"], segmentPath, nil)
}

// entitle allows the spaces of an org to use a segment, or revokes that.
func entitle(on bool) core.Action[core.NoFlags] {
	return func(ctx context.Context, s *core.Session, w core.Words, _ *core.NoFlags) (core.Result, error) {
		verb := map[bool]string{true: "Enabling isolation segment %s for org %s",
			false: "Removing entitlement to isolation segment %s from org %s"}[on]
		s.Acting(verb, w["SEGMENT"], w["ORG"])
		org, err := s.Org(ctx, w["ORG"])
		if err != nil {
			return nil, err
		}
		segment, err := findSegment(ctx, s, w["SEGMENT"])
		if err != nil {
			return nil, err
		}
		at := segmentPath + "/" + segment.GUID + "/relationships/organizations"
		if on {
			err = s.Send(ctx, http.MethodPost, at, cfapi.RelateAll(org.GUID))
		} else {
			err = s.Send(ctx, http.MethodDelete, at+"/"+org.GUID, nil)
		}
		if err != nil {
			return nil, err
		}
		return s.Done("org", org.Name, "segment", segment.Name, "enabled", on)
	}
}

// useSegment sets the segment of an org or a space; without a segment, the default.
func useSegment(ctx context.Context, s *core.Session, w core.Words, _ *core.NoFlags) (core.Result, error) {
	verb := "Resetting the isolation segment of"
	if w["SEGMENT"] != "" {
		verb = "Assigning isolation segment " + s.Out.Bold(w["SEGMENT"]) + " to"
	}
	path, relation, name := "/v3/organizations/", "/relationships/default_isolation_segment", w["ORG"]
	var to cfapi.Thing
	var err error
	if w["SPACE"] != "" {
		path, relation, name = "/v3/spaces/", "/relationships/isolation_segment", w["SPACE"]
		s.Acting(verb+" space %s", name)
		to, err = s.Space(ctx, name)
	} else {
		s.Acting(verb+" org %s", name)
		to, err = s.Org(ctx, name)
	}
	if err != nil {
		return nil, err
	}
	var body cfapi.To // none
	if w["SEGMENT"] != "" {
		segment, err := findSegment(ctx, s, w["SEGMENT"])
		if err != nil {
			return nil, err
		}
		body = cfapi.Relate(segment.GUID)
	}
	if err := s.Send(ctx, http.MethodPatch, path+to.GUID+relation, body); err != nil {
		return nil, err
	}
	out, err := s.Done("name", to.Name, "segment", w["SEGMENT"])
	s.Say("TIP: Restart the apps of the affected spaces to move them.")
	return out, err
}

func segmentCommands() []*core.Command {
	return core.InGroup(core.GroupSegments,
		core.Entry("isolation-segments", "", "List isolation segments", core.NeedsLogin, listSegments, ""),
		core.Entry("create-isolation-segment", "SEGMENT", "Create an isolation segment", core.NeedsLogin,
			createSegment, "gpu"),
		core.Entry("delete-isolation-segment", "SEGMENT [-f]", "Delete an isolation segment", core.NeedsLogin, deleteSegment,
			"gpu -f").Slow(),
		core.Entry("enable-org-isolation", "ORG SEGMENT", "Entitle an org to an isolation segment", core.NeedsLogin,
			entitle(true), "acme gpu"),
		core.Entry("disable-org-isolation", "ORG SEGMENT", "Revoke an org's entitlement to an isolation segment",
			core.NeedsLogin, entitle(false), "acme gpu"),
		core.Entry("set-org-default-isolation-segment", "ORG SEGMENT", "Set the isolation segment of an org's spaces",
			core.NeedsLogin, useSegment, "acme gpu"),
		core.Entry("reset-org-default-isolation-segment", "ORG", "Reset the isolation segment of an org's spaces",
			core.NeedsLogin, useSegment, "acme"),
		core.Entry("set-space-isolation-segment", "SPACE SEGMENT", "Set the isolation segment of a space", core.NeedsOrg,
			useSegment, "dev gpu"),
		core.Entry("reset-space-isolation-segment", "SPACE", "Reset a space to the org's isolation segment", core.NeedsOrg,
			useSegment, "dev"),
	)
}
