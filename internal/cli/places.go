package cli

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"ingot/internal/cli/client"
)

// namesOf returns the names of resources, sorted and joined.
func namesOf(all []client.Thing) string {
	var out []string
	for _, t := range all {
		out = append(out, t.Name)
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

// nameAt returns the name of one resource, "" without a guid.
func (s *session) nameAt(ctx context.Context, path, guid string) (string, error) {
	if guid == "" {
		return "", nil
	}
	var t client.Thing
	err := s.api.Get(ctx, path+"/"+guid, nil, &t)
	if client.Status(err) == http.StatusNotFound {
		return "", nil // the user may not see it
	}
	return t.Name, err
}

type fullOrg struct {
	client.Thing
	Relationships struct {
		Quota client.To `json:"quota"`
	} `json:"relationships"`
}

func showOrg(ctx context.Context, s *session, w words, f *guidFlag) (result, error) {
	if !f.GUID {
		s.acting("Getting info for org %s", w["ORG"])
	}
	org, err := named(ctx, s, "Org", "/v3/organizations", w["ORG"], nil, func(o fullOrg) string { return o.Name })
	if err != nil {
		return nil, err
	}
	if f.GUID {
		return &text{"guid", org.GUID}, nil
	}
	var domains, spaces, segments []client.Thing
	var quotaName string
	var standard client.To
	at := "/v3/organizations/" + org.GUID
	err = concurrently(
		func() (err error) {
			domains, err = client.List[client.Thing](ctx, s.api, at+"/domains", nil)
			return err
		},
		func() (err error) {
			spaces, err = client.List[client.Thing](ctx, s.api, "/v3/spaces", url.Values{"organization_guids": {org.GUID}, "per_page": {"5000"}})
			return err
		},
		func() (err error) {
			segments, err = client.List[client.Thing](ctx, s.api, segmentPath, url.Values{"organization_guids": {org.GUID}})
			return err
		},
		func() (err error) {
			quotaName, err = s.nameAt(ctx, orgQuotas.path, org.Relationships.Quota.GUID())
			return err
		},
		func() error {
			return s.api.Get(ctx, at+"/relationships/default_isolation_segment", nil, &standard)
		})
	if err != nil {
		return nil, err
	}
	for i, one := range segments {
		if one.GUID == standard.GUID() {
			segments[i].Name += " (default)"
		}
	}
	return &sheet{
		pairs: [][2]string{{"name", org.Name}, {"domains", namesOf(domains)}, {"quota", quotaName}, {"spaces", namesOf(spaces)}, {"isolation segments", namesOf(segments)}},
		json:  map[string]any{"name": org.Name, "guid": org.GUID, "domains": domains, "quota": quotaName, "spaces": spaces, "isolation_segments": segments},
	}, nil
}

type spaceFlags struct {
	guidFlag
	Rules bool `long:"security-group-rules" description:"Also show the rules of the security groups that apply"`
}

type fullSpace struct {
	client.Thing
	Relationships struct {
		Quota client.To `json:"quota"`
	} `json:"relationships"`
}

func showSpace(ctx context.Context, s *session, w words, f *spaceFlags) (result, error) {
	if !f.GUID {
		s.acting("Getting info for space %s in org %s", w["SPACE"], s.cfg.Org.Name)
	}
	space, err := named(ctx, s, "Space", "/v3/spaces", w["SPACE"], url.Values{"organization_guids": {s.cfg.Org.GUID}}, func(o fullSpace) string { return o.Name })
	if err != nil {
		return nil, err
	}
	if f.GUID {
		return &text{"guid", space.GUID}, nil
	}
	var apps, services []client.Thing
	groups := map[string][]securityGroup{}
	var quotaName, segmentName string
	at := "/v3/spaces/" + space.GUID
	in := url.Values{"space_guids": {space.GUID}, "per_page": {"5000"}}
	err = concurrently(
		func() (err error) {
			apps, err = client.List[client.Thing](ctx, s.api, "/v3/apps", in)
			return err
		},
		func() (err error) {
			services, err = client.List[client.Thing](ctx, s.api, "/v3/service_instances", in)
			return err
		},
		func() error {
			for _, phase := range []string{phaseRunning, phaseStaging} {
				found, err := client.List[securityGroup](ctx, s.api, at+"/"+phase+"_security_groups", nil)
				if err != nil {
					return err
				}
				groups[phase] = found
			}
			return nil
		},
		func() (err error) {
			quotaName, err = s.nameAt(ctx, spaceQuotas.path, space.Relationships.Quota.GUID())
			return err
		},
		func() error {
			var segment client.To
			err := s.api.Get(ctx, at+"/relationships/isolation_segment", nil, &segment)
			if err == nil {
				segmentName, err = s.nameAt(ctx, segmentPath, segment.GUID())
			}
			return err
		})
	if err != nil {
		return nil, err
	}
	return space.sheet(s.cfg.Org.Name, apps, services, groups, quotaName, segmentName, f.Rules), nil
}

func (sp *fullSpace) sheet(org string, apps, services []client.Thing, groups map[string][]securityGroup, quotaName, segment string, rules bool) result {
	out := &sheet{pairs: [][2]string{
		{"name", sp.Name}, {"org", org}, {"apps", namesOf(apps)}, {"services", namesOf(services)}, {"isolation segment", segment}, {"quota", quotaName},
	}}
	names, all := map[string][]string{}, map[string]any{}
	for _, phase := range []string{phaseRunning, phaseStaging} {
		var things []client.Thing
		for _, g := range groups[phase] {
			things, names[phase], all[g.Name] = append(things, g.Thing), append(names[phase], g.Name), g.Rules
		}
		out.pairs = append(out.pairs, [2]string{phase + " security groups", namesOf(things)})
	}
	body := map[string]any{
		"name": sp.Name, "guid": sp.GUID, "org": org, "apps": apps, "services": services, "isolation_segment": segment, "quota": quotaName,
		"running_security_groups": names[phaseRunning], "staging_security_groups": names[phaseStaging],
	}
	if rules {
		body["security_group_rules"] = all
		for _, name := range sortedKeys(all) {
			content, err := marshal(all[name])
			if err == nil {
				out.pairs = append(out.pairs, [2]string{"rules of " + name, string(content)})
			}
		}
	}
	out.json = body
	return out
}

func renameOrg(ctx context.Context, s *session, w words, _ *noFlags) (result, error) {
	s.acting("Renaming org %s to %s", w["ORG"], w["NEW_NAME"])
	org, err := s.org(ctx, w["ORG"])
	if err != nil {
		return nil, err
	}
	if err := s.send(ctx, http.MethodPatch, "/v3/organizations/"+org.GUID, map[string]string{"name": w["NEW_NAME"]}); err != nil {
		return nil, err
	}
	if s.cfg.Org.GUID == org.GUID {
		s.cfg.Org.Name = w["NEW_NAME"]
		if err := s.cfg.Save(); err != nil {
			return nil, err
		}
	}
	return s.done("name", w["NEW_NAME"], "guid", org.GUID)
}

func renameSpace(ctx context.Context, s *session, w words, _ *noFlags) (result, error) {
	s.acting("Renaming space %s to %s", w["SPACE"], w["NEW_NAME"])
	space, err := s.spaceOf(ctx, client.Thing{GUID: s.cfg.Org.GUID}, w["SPACE"])
	if err != nil {
		return nil, err
	}
	if err := s.send(ctx, http.MethodPatch, "/v3/spaces/"+space.GUID, map[string]string{"name": w["NEW_NAME"]}); err != nil {
		return nil, err
	}
	if s.cfg.Space.GUID == space.GUID {
		s.cfg.Space.Name = w["NEW_NAME"]
		if err := s.cfg.Save(); err != nil {
			return nil, err
		}
	}
	return s.done("name", w["NEW_NAME"], "guid", space.GUID)
}

// spaceSSH allows ssh in a space or forbids it.
func spaceSSH(on bool) func(context.Context, *session, words, *noFlags) (result, error) {
	return func(ctx context.Context, s *session, w words, _ *noFlags) (result, error) {
		verb := map[bool]string{true: "Enabling", false: "Disabling"}[on]
		s.acting(verb+" ssh support for space %s", w["SPACE"])
		space, err := s.spaceOf(ctx, client.Thing{GUID: s.cfg.Org.GUID}, w["SPACE"])
		if err != nil {
			return nil, err
		}
		if err := s.send(ctx, http.MethodPatch, "/v3/spaces/"+space.GUID+"/features/ssh", map[string]bool{"enabled": on}); err != nil {
			return nil, err
		}
		return s.done("space", space.Name, "enabled", on)
	}
}

func spaceSSHAllowed(ctx context.Context, s *session, w words, _ *noFlags) (result, error) {
	space, err := s.spaceOf(ctx, client.Thing{GUID: s.cfg.Org.GUID}, w["SPACE"])
	if err != nil {
		return nil, err
	}
	var feature struct {
		Enabled bool `json:"enabled"`
	}
	if err := s.api.Get(ctx, "/v3/spaces/"+space.GUID+"/features/ssh", nil, &feature); err != nil {
		return nil, err
	}
	state := map[bool]string{true: "enabled", false: "disabled"}[feature.Enabled]
	return &jsonAs{&text{"", "ssh support is " + state + " in space '" + space.Name + "'."}, map[string]any{"space": space.Name, "enabled": feature.Enabled}}, nil
}

func placeCommands() []*command {
	return inGroup(groupOrgs,
		entry("org", "ORG [--guid]", "Show an org", aLogin, showOrg, "acme"),
		entry("rename-org", "ORG NEW_NAME", "Rename an org", aLogin, renameOrg, "acme globex"),
		entry("space", "SPACE [--guid] [--security-group-rules]", "Show a space", anOrg, showSpace, "dev"),
		entry("rename-space", "SPACE NEW_NAME", "Rename a space", anOrg, renameSpace, "dev test"),
		entry("allow-space-ssh", "SPACE", "Allow ssh in a space", anOrg, spaceSSH(true), "dev"),
		entry("disallow-space-ssh", "SPACE", "Do not allow ssh in a space", anOrg, spaceSSH(false), "dev"),
		entry("space-ssh-allowed", "SPACE", "Show whether ssh is allowed in a space", anOrg, spaceSSHAllowed, "dev"),
	)
}
