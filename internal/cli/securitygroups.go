package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"

	"ingot/internal/cli/client"
)

const securityGroupPath = "/v3/security_groups"

// securityGroup is a security group with its rules and where it applies.
type securityGroup struct {
	client.Thing
	Rules         json.RawMessage `json:"rules"`
	Everywhere    map[string]bool `json:"globally_enabled"`
	Relationships map[string]struct {
		Data []struct {
			GUID string `json:"guid"`
		} `json:"data"`
	} `json:"relationships"`
}

func (s *session) securityGroup(ctx context.Context, name string) (securityGroup, error) {
	return named(ctx, s, "Security group", securityGroupPath, name, nil, func(g securityGroup) string { return g.Name })
}

// rules reads the rules of a security group from a file.
func (s *session) rules(path string) (json.RawMessage, error) {
	content, err := os.ReadFile(s.w.path(path))
	if err != nil {
		return nil, &problem{What: "The rules cannot be read.", Why: err.Error(), Try: `name a file with a JSON array of rules, such as [{"protocol":"tcp","destination":"10.0.0.0/8","ports":"443"}]`, cause: err}
	}
	var all []json.RawMessage
	if err := json.Unmarshal(content, &all); err != nil {
		return nil, &problem{What: "The rules in " + path + " are not a JSON array.", Why: err.Error(), cause: err}
	}
	return content, nil
}

func createSecurityGroup(ctx context.Context, s *session, w words, _ *noFlags) (result, error) {
	rules, err := s.rules(w["PATH"])
	if err != nil {
		return nil, err
	}
	s.acting("Creating security group %s", w["GROUP"])
	return s.create(ctx, "security group", w["GROUP"], securityGroupPath, map[string]any{"name": w["GROUP"], "rules": rules}, "already exists")
}

func updateSecurityGroup(ctx context.Context, s *session, w words, _ *noFlags) (result, error) {
	rules, err := s.rules(w["PATH"])
	if err != nil {
		return nil, err
	}
	s.acting("Updating security group %s", w["GROUP"])
	return s.patchGroup(ctx, w["GROUP"], map[string]any{"rules": rules})
}

func (s *session) patchGroup(ctx context.Context, name string, body map[string]any) (result, error) {
	g, err := s.securityGroup(ctx, name)
	if err != nil {
		return nil, err
	}
	if err := s.send(ctx, http.MethodPatch, securityGroupPath+"/"+g.GUID, body); err != nil {
		return nil, err
	}
	return s.done("name", g.Name, "guid", g.GUID)
}

func deleteSecurityGroup(ctx context.Context, s *session, w words, f *forceFlag) (result, error) {
	return s.deleteNamed(ctx, f.Force, "security group", w["GROUP"], securityGroupPath, nil)
}

// everywhere binds a security group to all spaces, or unbinds it.
func everywhere(phase string, on bool) func(context.Context, *session, words, *noFlags) (result, error) {
	return func(ctx context.Context, s *session, w words, _ *noFlags) (result, error) {
		verb := map[bool]string{true: "Binding", false: "Unbinding"}[on]
		s.acting(verb+" security group %s for "+phase, w["GROUP"])
		return s.patchGroup(ctx, w["GROUP"], map[string]any{"globally_enabled": map[string]bool{phase: on}})
	}
}

// ofPhase lists the security groups that apply to all spaces.
func ofPhase(phase string) func(context.Context, *session, words, *noFlags) (result, error) {
	return func(ctx context.Context, s *session, _ words, _ *noFlags) (result, error) {
		s.acting("Getting global %s security groups", phase)
		return listNames(ctx, s, phase+" security groups", securityGroupPath, url.Values{"globally_enabled_" + phase: {"true"}})
	}
}

type phaseFlags struct {
	Lifecycle string `long:"lifecycle" value-name:"running|staging" default:"running" choice:"running" choice:"staging" description:"Phase that the group applies to"`
}

type bindGroupFlags struct {
	phaseFlags
	Space string `long:"space" value-name:"SPACE" description:"Space (default: all spaces of the org)"`
}

func bindSecurityGroup(ctx context.Context, s *session, w words, f *bindGroupFlags) (result, error) {
	g, err := s.securityGroup(ctx, w["GROUP"])
	if err != nil {
		return nil, err
	}
	org, err := s.org(ctx, w["ORG"])
	if err != nil {
		return nil, err
	}
	q := url.Values{"organization_guids": {org.GUID}}
	if f.Space != "" {
		q.Set("names", f.Space)
	}
	spaces, err := client.List[client.Thing](ctx, s.api, "/v3/spaces", q)
	if err != nil {
		return nil, err
	}
	if len(spaces) == 0 {
		if f.Space == "" {
			return nil, &problem{What: "Nothing was bound.", Why: "the org " + org.Name + " has no spaces", Try: fmt.Sprintf("'%s create-space SPACE -o %s'", s.w.Program, org.Name)}
		}
		_, err := s.spaceOf(ctx, org, f.Space)
		return nil, err
	}
	var guids, names []string
	for _, sp := range spaces {
		s.acting("Assigning "+f.Lifecycle+" security group %s to space %s in org %s", g.Name, sp.Name, org.Name)
		guids, names = append(guids, sp.GUID), append(names, sp.Name)
	}
	if err := s.send(ctx, http.MethodPost, securityGroupPath+"/"+g.GUID+"/relationships/"+f.Lifecycle+"_spaces", relateAll(guids...)); err != nil {
		return nil, err
	}
	return s.done("name", g.Name, "lifecycle", f.Lifecycle, "org", org.Name, "spaces", names)
}

func unbindSecurityGroup(ctx context.Context, s *session, w words, f *phaseFlags) (result, error) {
	g, err := s.securityGroup(ctx, w["GROUP"])
	if err != nil {
		return nil, err
	}
	org, space, err := s.targetSpace(ctx, w["ORG"], w["SPACE"])
	if err != nil {
		return nil, err
	}
	s.acting("Unbinding "+f.Lifecycle+" security group %s from org %s / space %s", g.Name, org.Name, space.Name)
	err = s.send(ctx, http.MethodDelete, securityGroupPath+"/"+g.GUID+"/relationships/"+f.Lifecycle+"_spaces/"+space.GUID, nil)
	if client.Status(err) == http.StatusUnprocessableEntity || client.Status(err) == http.StatusNotFound {
		s.say("Security group %s is not bound to this space for phase '%s'.", g.Name, f.Lifecycle)
		err = nil
	}
	if err != nil {
		return nil, err
	}
	return s.done("name", g.Name, "lifecycle", f.Lifecycle, "org", org.Name, "space", space.Name)
}

// groupRow is a space that a security group applies to.
type groupRow struct {
	Name      string `json:"name"`
	Org       string `json:"org"`
	Space     string `json:"space"`
	Lifecycle string `json:"lifecycle"`
}

// groupRows returns where security groups apply. A group that applies nowhere has one row.
func (s *session) groupRows(ctx context.Context, groups []securityGroup) ([]groupRow, error) {
	type place struct {
		client.Thing
		Relationships struct {
			Org client.To `json:"organization"`
		} `json:"relationships"`
	}
	var guids []string
	for _, g := range groups {
		for _, phase := range []string{phaseRunning, phaseStaging} {
			for _, d := range g.Relationships[phase+"_spaces"].Data {
				guids = append(guids, d.GUID)
			}
		}
	}
	spaces, orgs := map[string]place{}, map[string]client.Thing{}
	slices.Sort(guids)
	for some := range slices.Chunk(slices.Compact(guids), 100) {
		found, included, err := client.ListWith[place](ctx, s.api, "/v3/spaces", url.Values{"guids": {strings.Join(some, ",")}, "include": {"organization"}})
		if err != nil {
			return nil, err
		}
		for _, p := range found {
			spaces[p.GUID] = p
		}
		for guid, o := range client.Of[client.Thing](included, "organizations") {
			orgs[guid] = o
		}
	}
	var rows []groupRow
	for _, g := range groups {
		before := len(rows)
		for _, phase := range []string{phaseRunning, phaseStaging} {
			if g.Everywhere[phase] {
				rows = append(rows, groupRow{g.Name, "<all>", "<all>", phase})
			}
			for _, d := range g.Relationships[phase+"_spaces"].Data {
				at := spaces[d.GUID]
				rows = append(rows, groupRow{g.Name, orgs[at.Relationships.Org.GUID()].Name, cmp.Or(at.Name, d.GUID), phase})
			}
		}
		if len(rows) == before {
			rows = append(rows, groupRow{Name: g.Name})
		}
	}
	return rows, nil
}

func listSecurityGroups(ctx context.Context, s *session, _ words, _ *noFlags) (result, error) {
	s.acting("Getting security groups")
	groups, err := client.List[securityGroup](ctx, s.api, securityGroupPath, url.Values{"per_page": {"5000"}})
	if err != nil {
		return nil, err
	}
	rows, err := s.groupRows(ctx, groups)
	if err != nil {
		return nil, err
	}
	return &listing[groupRow]{key: "security groups", rows: rows, heading: []string{"name", "organization", "space", "lifecycle"}, cells: func(r groupRow) []string {
		return []string{r.Name, r.Org, r.Space, r.Lifecycle}
	}}, nil
}

func showSecurityGroup(ctx context.Context, s *session, w words, _ *noFlags) (result, error) {
	s.acting("Getting info for security group %s", w["GROUP"])
	g, err := s.securityGroup(ctx, w["GROUP"])
	if err != nil {
		return nil, err
	}
	rows, err := s.groupRows(ctx, []securityGroup{g})
	if err != nil {
		return nil, err
	}
	var rules []map[string]any
	if err := json.Unmarshal(g.Rules, &rules); err != nil {
		return nil, err
	}
	pretty, err := json.MarshalIndent(rules, "\t", "\t")
	if err != nil {
		return nil, err
	}
	applied := slices.DeleteFunc(rows, func(r groupRow) bool { return r.Lifecycle == "" })
	out := &sheet{pairs: [][2]string{{"name", g.Name}, {"rules", ""}}, text: "\t" + string(pretty), json: map[string]any{"name": g.Name, "guid": g.GUID, "rules": rules, "applied": applied}}
	if len(applied) > 0 {
		out.more = &listing[groupRow]{key: "spaces", rows: applied, heading: []string{"organization", "space", "lifecycle"}, cells: func(r groupRow) []string {
			return []string{r.Org, r.Space, r.Lifecycle}
		}}
	}
	return out, nil
}

func securityGroupCommands() []*command {
	return inGroup(groupNetwork,
		entry("security-groups", "", "List security groups", aLogin, listSecurityGroups, ""),
		entry("security-group", "GROUP", "Show a security group", aLogin, showSecurityGroup, "database"),
		entry("create-security-group", "GROUP PATH", "Create a security group", aLogin, createSecurityGroup, "database rules.json").
			explained(`PATH is a file with a JSON array of rules, such as [{"protocol":"tcp","destination":"10.0.0.0/8","ports":"443"}].`),
		entry("update-security-group", "GROUP PATH", "Replace the rules of a security group", aLogin, updateSecurityGroup, "database rules.json"),
		entry("delete-security-group", "GROUP [-f]", "Delete a security group", aLogin, deleteSecurityGroup, "database -f").slow(),
		entry("bind-security-group", "GROUP ORG [--space SPACE]", "Bind a security group to spaces", aLogin, bindSecurityGroup, "database acme --space dev", "database acme --lifecycle staging"),
		entry("unbind-security-group", "GROUP ORG SPACE", "Unbind a security group from a space", aLogin, unbindSecurityGroup, "database acme dev"),
		entry("running-security-groups", "", "List the security groups of all running apps", aLogin, ofPhase(phaseRunning), ""),
		entry("bind-running-security-group", "GROUP", "Bind a security group to all running apps", aLogin, everywhere(phaseRunning, true), "database"),
		entry("unbind-running-security-group", "GROUP", "Unbind a security group from all running apps", aLogin, everywhere(phaseRunning, false), "database"),
		entry("staging-security-groups", "", "List the security groups of all builds", aLogin, ofPhase(phaseStaging), ""),
		entry("bind-staging-security-group", "GROUP", "Bind a security group to all builds", aLogin, everywhere(phaseStaging, true), "database"),
		entry("unbind-staging-security-group", "GROUP", "Unbind a security group from all builds", aLogin, everywhere(phaseStaging, false), "database"),
	)
}
