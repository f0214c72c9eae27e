package access

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"ingot/internal/base/cfapi"
	"ingot/internal/cli/client"
	"ingot/internal/cli/config"
	"ingot/internal/cli/core"
	"ingot/internal/cli/routes"
)

// namesOf returns the names of resources, sorted and joined.
func namesOf(all []cfapi.Thing) string {
	var out []string
	for _, t := range all {
		out = append(out, t.Name)
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

// nameAt returns the name of one resource, "" without a guid.
func nameAt(ctx context.Context, s *core.Session, path, guid string) (string, error) {
	if guid == "" {
		return "", nil
	}
	var t cfapi.Thing
	err := s.API.Get(ctx, path+"/"+guid, nil, &t)
	if client.Status(err) == http.StatusNotFound {
		return "", nil // the user may not see it
	}
	return t.Name, err
}

type fullOrg struct {
	cfapi.Thing
	Relationships struct {
		Quota cfapi.To `json:"quota"`
	} `json:"relationships"`
}

func showOrg(ctx context.Context, s *core.Session, w core.Words, f *core.GUIDFlag) (core.Result, error) {
	if !f.GUID {
		s.Acting("Getting info for org %s", w["ORG"])
	}
	org, err := core.Named[fullOrg](ctx, s, "Org", "/v3/organizations", w["ORG"], nil)
	if err != nil {
		return nil, err
	}
	if f.GUID {
		return &core.Text{Key: "guid", Value: org.GUID}, nil
	}
	var domains, spaces, segments []cfapi.Thing
	var quotaName string
	var standard cfapi.To
	at := "/v3/organizations/" + org.GUID
	err = core.Concurrently(
		core.Into(ctx, s, &domains, at+"/domains", nil),
		core.Into(ctx, s, &spaces, "/v3/spaces", url.Values{"organization_guids": {org.GUID}, "per_page": {"5000"}}),
		core.Into(ctx, s, &segments, segmentPath, url.Values{"organization_guids": {org.GUID}}),
		func() (err error) {
			quotaName, err = nameAt(ctx, s, orgQuotas.path, org.Relationships.Quota.GUID())
			return err
		},
		func() error {
			return s.API.Get(ctx, at+"/relationships/default_isolation_segment", nil, &standard)
		})
	if err != nil {
		return nil, err
	}
	for i, one := range segments {
		if one.GUID == standard.GUID() {
			segments[i].Name += " (default)"
		}
	}
	return &core.Sheet{
		Pairs: [][2]string{{"name", org.Name}, {"domains", namesOf(domains)}, {"quota", quotaName},
			{"spaces", namesOf(spaces)}, {"isolation segments", namesOf(segments)}},
		JSON: map[string]any{"name": org.Name, "guid": org.GUID, "domains": domains, "quota": quotaName, "spaces": spaces,
			"isolation_segments": segments},
	}, nil
}

type spaceFlags struct {
	core.GUIDFlag
	Rules bool `long:"security-group-rules" description:"Also show the rules of the security groups that apply"`
}

type fullSpace struct {
	cfapi.Thing
	Relationships struct {
		Quota cfapi.To `json:"quota"`
	} `json:"relationships"`
}

func showSpace(ctx context.Context, s *core.Session, w core.Words, f *spaceFlags) (core.Result, error) {
	if !f.GUID {
		s.Acting("Getting info for space %s in org %s", w["SPACE"], s.Config.Org.Name)
	}
	space, err := core.Named[fullSpace](ctx, s, "Space", "/v3/spaces", w["SPACE"],
		url.Values{"organization_guids": {s.Config.Org.GUID}})
	if err != nil {
		return nil, err
	}
	if f.GUID {
		return &core.Text{Key: "guid", Value: space.GUID}, nil
	}
	var apps, services []cfapi.Thing
	groups := map[string][]routes.SecurityGroup{}
	var quotaName, segmentName string
	at := "/v3/spaces/" + space.GUID
	in := url.Values{"space_guids": {space.GUID}, "per_page": {"5000"}}
	err = core.Concurrently(
		core.Into(ctx, s, &apps, "/v3/apps", in),
		core.Into(ctx, s, &services, "/v3/service_instances", in),
		func() error {
			for _, phase := range []string{core.PhaseRunning, core.PhaseStaging} {
				found, err := client.List[routes.SecurityGroup](ctx, s.API, at+"/"+phase+"_security_groups", nil)
				if err != nil {
					return err
				}
				groups[phase] = found
			}
			return nil
		},
		func() (err error) {
			quotaName, err = nameAt(ctx, s, spaceQuotas.path, space.Relationships.Quota.GUID())
			return err
		},
		func() error {
			var segment cfapi.To
			err := s.API.Get(ctx, at+"/relationships/isolation_segment", nil, &segment)
			if err == nil {
				segmentName, err = nameAt(ctx, s, segmentPath, segment.GUID())
			}
			return err
		})
	if err != nil {
		return nil, err
	}
	return space.sheet(s.Config.Org.Name, apps, services, groups, quotaName, segmentName, f.Rules), nil
}

func (sp *fullSpace) sheet(org string, apps, services []cfapi.Thing, groups map[string][]routes.SecurityGroup,
	quotaName, segment string, rules bool) core.Result {
	out := &core.Sheet{Pairs: [][2]string{
		{"name", sp.Name}, {"org", org}, {"apps", namesOf(apps)}, {"services", namesOf(services)},
		{"isolation segment", segment}, {"quota", quotaName},
	}}
	names, all := map[string][]string{}, map[string]any{}
	for _, phase := range []string{core.PhaseRunning, core.PhaseStaging} {
		var things []cfapi.Thing
		for _, g := range groups[phase] {
			things, names[phase], all[g.Name] = append(things, g.Thing), append(names[phase], g.Name), g.Rules
		}
		out.Pairs = append(out.Pairs, [2]string{phase + " security groups", namesOf(things)})
	}
	body := map[string]any{
		"name": sp.Name, "guid": sp.GUID, "org": org, "apps": apps, "services": services, "isolation_segment": segment,
		"quota":                   quotaName,
		"running_security_groups": names[core.PhaseRunning], "staging_security_groups": names[core.PhaseStaging],
	}
	if rules {
		body["security_group_rules"] = all
		for _, name := range core.SortedKeys(all) {
			content, err := core.Marshal(all[name])
			if err == nil {
				out.Pairs = append(out.Pairs, [2]string{"rules of " + name, string(content)})
			}
		}
	}
	out.JSON = body
	return out
}

func renameOrg(ctx context.Context, s *core.Session, w core.Words, _ *core.NoFlags) (core.Result, error) {
	s.Acting("Renaming org %s to %s", w["ORG"], w["NEW_NAME"])
	org, err := s.Org(ctx, w["ORG"])
	if err != nil {
		return nil, err
	}
	return rename(ctx, s, "/v3/organizations/", org.GUID, w["NEW_NAME"], &s.Config.Org)
}

func renameSpace(ctx context.Context, s *core.Session, w core.Words, _ *core.NoFlags) (core.Result, error) {
	s.Acting("Renaming space %s to %s", w["SPACE"], w["NEW_NAME"])
	space, err := s.Space(ctx, w["SPACE"])
	if err != nil {
		return nil, err
	}
	return rename(ctx, s, "/v3/spaces/", space.GUID, w["NEW_NAME"], &s.Config.Space)
}

// rename renames an org or a space, also where it is the target.
func rename(ctx context.Context, s *core.Session, path, guid, name string, target *config.Named) (core.Result, error) {
	if err := s.Send(ctx, http.MethodPatch, path+guid, map[string]string{"name": name}); err != nil {
		return nil, err
	}
	if target.GUID == guid {
		target.Name = name
		if err := s.Config.Save(); err != nil {
			return nil, err
		}
	}
	return s.Done("name", name, "guid", guid)
}

// spaceSSH allows ssh in a space or forbids it.
func spaceSSH(on bool) core.Action[core.NoFlags] {
	return func(ctx context.Context, s *core.Session, w core.Words, _ *core.NoFlags) (core.Result, error) {
		verb := map[bool]string{true: "Enabling", false: "Disabling"}[on]
		s.Acting(verb+" ssh support for space %s", w["SPACE"])
		space, err := s.Space(ctx, w["SPACE"])
		if err != nil {
			return nil, err
		}
		return s.Change(ctx, http.MethodPatch, "/v3/spaces/"+space.GUID+"/features/ssh",
			map[string]bool{"enabled": on}, "space", space.Name, "enabled", on)
	}
}

func spaceSSHAllowed(ctx context.Context, s *core.Session, w core.Words, _ *core.NoFlags) (core.Result, error) {
	space, err := s.Space(ctx, w["SPACE"])
	if err != nil {
		return nil, err
	}
	var feature struct {
		Enabled bool `json:"enabled"`
	}
	if err := s.API.Get(ctx, "/v3/spaces/"+space.GUID+"/features/ssh", nil, &feature); err != nil {
		return nil, err
	}
	state := map[bool]string{true: "enabled", false: "disabled"}[feature.Enabled]
	return &core.JSONAs{Result: &core.Text{Key: "", Value: "ssh support is " + state + " in space '" + space.Name + "'."},
		JSON: map[string]any{"space": space.Name, "enabled": feature.Enabled}}, nil
}

func placeCommands() []*core.Command {
	return core.InGroup(core.GroupOrgs,
		core.Entry("org", "ORG [--guid]", "Show an org", core.NeedsLogin, showOrg, "acme"),
		core.Entry("rename-org", "ORG NEW_NAME", "Rename an org", core.NeedsLogin, renameOrg, "acme globex"),
		core.Entry("space", "SPACE [--guid] [--security-group-rules]", "Show a space", core.NeedsOrg, showSpace, "dev"),
		core.Entry("rename-space", "SPACE NEW_NAME", "Rename a space", core.NeedsOrg, renameSpace, "dev test"),
		core.Entry("allow-space-ssh", "SPACE", "Allow ssh in a space", core.NeedsOrg, spaceSSH(true), "dev"),
		core.Entry("disallow-space-ssh", "SPACE", "Do not allow ssh in a space", core.NeedsOrg, spaceSSH(false), "dev"),
		core.Entry("space-ssh-allowed", "SPACE", "Show whether ssh is allowed in a space", core.NeedsOrg,
			spaceSSHAllowed, "dev"),
	)
}
