package routes

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"

	"ingot/internal/base/cfapi"
	"ingot/internal/cli/client"
	"ingot/internal/cli/core"
)

const securityGroupPath = "/v3/security_groups"

// SecurityGroup is a security group with its rules and where it applies.
type SecurityGroup struct {
	cfapi.Thing
	Rules         json.RawMessage `json:"rules"`
	Everywhere    map[string]bool `json:"globally_enabled"`
	Relationships map[string]struct {
		Data []struct {
			GUID string `json:"guid"`
		} `json:"data"`
	} `json:"relationships"`
}

func findGroup(ctx context.Context, s *core.Session, name string) (SecurityGroup, error) {
	return core.Named[SecurityGroup](ctx, s, "Security group", securityGroupPath, name, nil)
}

// readRules reads the rules of a security group from a file.
func readRules(s *core.Session, path string) (json.RawMessage, error) {
	content, err := os.ReadFile(s.Env.Path(path))
	if err != nil {
		return nil, &core.Problem{What: "The rules cannot be read.", Why: err.Error(),
			Try: `name a file with a JSON array of rules, such as [{"protocol":"tcp","destination":"10.0.0.0/8","ports":"443"}]`,
			Err: err}
	}
	var all []json.RawMessage
	if err := json.Unmarshal(content, &all); err != nil {
		return nil, &core.Problem{What: "The rules in " + path + " are not a JSON array.", Why: err.Error(), Err: err}
	}
	return content, nil
}

func createSecurityGroup(ctx context.Context, s *core.Session, w core.Words, _ *core.NoFlags) (core.Result, error) {
	rules, err := readRules(s, w["PATH"])
	if err != nil {
		return nil, err
	}
	s.Acting("Creating security group %s", w["GROUP"])
	return s.Create(ctx, "security group", w["GROUP"], securityGroupPath, map[string]any{"name": w["GROUP"],
		"rules": rules}, "already exists")
}

func updateSecurityGroup(ctx context.Context, s *core.Session, w core.Words, _ *core.NoFlags) (core.Result, error) {
	rules, err := readRules(s, w["PATH"])
	if err != nil {
		return nil, err
	}
	s.Acting("Updating security group %s", w["GROUP"])
	return patchGroup(ctx, s, w["GROUP"], map[string]any{"rules": rules})
}

func patchGroup(ctx context.Context, s *core.Session, name string, body map[string]any) (core.Result, error) {
	g, err := findGroup(ctx, s, name)
	if err != nil {
		return nil, err
	}
	return s.Change(ctx, http.MethodPatch, securityGroupPath+"/"+g.GUID, body, "name", g.Name, "guid", g.GUID)
}

func deleteSecurityGroup(ctx context.Context, s *core.Session, w core.Words, f *core.ForceFlag) (core.Result, error) {
	return s.DeleteNamed(ctx, f.Force, "security group", w["GROUP"], securityGroupPath, nil)
}

// everywhere binds a security group to all spaces, or unbinds it.
func everywhere(phase string, on bool) core.Action[core.NoFlags] {
	return func(ctx context.Context, s *core.Session, w core.Words, _ *core.NoFlags) (core.Result, error) {
		verb := map[bool]string{true: "Binding", false: "Unbinding"}[on]
		s.Acting(verb+" security group %s for "+phase, w["GROUP"])
		return patchGroup(ctx, s, w["GROUP"], map[string]any{"globally_enabled": map[string]bool{phase: on}})
	}
}

// ofPhase lists the security groups that apply to all spaces.
func ofPhase(phase string) core.Action[core.NoFlags] {
	return func(ctx context.Context, s *core.Session, _ core.Words, _ *core.NoFlags) (core.Result, error) {
		s.Acting("Getting global %s security groups", phase)
		return core.ListNames(ctx, s, phase+" security groups", securityGroupPath,
			url.Values{"globally_enabled_" + phase: {"true"}})
	}
}

type phaseFlags struct {
	Lifecycle string `long:"lifecycle" value-name:"running|staging" default:"running" choice:"running" choice:"staging" description:"Phase that the group applies to"` //nolint:staticcheck // go-flags repeats choice
}

type bindGroupFlags struct {
	phaseFlags
	Space string `long:"space" value-name:"SPACE" description:"Space (default: all spaces of the org)"`
}

func bindSecurityGroup(ctx context.Context, s *core.Session, w core.Words, f *bindGroupFlags) (core.Result, error) {
	g, err := findGroup(ctx, s, w["GROUP"])
	if err != nil {
		return nil, err
	}
	org, err := s.Org(ctx, w["ORG"])
	if err != nil {
		return nil, err
	}
	q := url.Values{"organization_guids": {org.GUID}}
	if f.Space != "" {
		q.Set("names", f.Space)
	}
	spaces, err := client.List[cfapi.Thing](ctx, s.API, "/v3/spaces", q)
	if err != nil {
		return nil, err
	}
	if len(spaces) == 0 {
		if f.Space == "" {
			return nil, &core.Problem{What: "Nothing was bound.", Why: "the org " + org.Name + " has no spaces",
				Try: fmt.Sprintf("'%s create-space SPACE -o %s'", s.Env.Program, org.Name)}
		}
		_, err := s.SpaceOf(ctx, org, f.Space)
		return nil, err
	}
	var guids, names []string
	for _, sp := range spaces {
		s.Acting("Assigning "+f.Lifecycle+" security group %s to space %s in org %s", g.Name, sp.Name, org.Name)
		guids, names = append(guids, sp.GUID), append(names, sp.Name)
	}
	return s.Change(ctx, http.MethodPost, securityGroupPath+"/"+g.GUID+"/relationships/"+f.Lifecycle+"_spaces",
		cfapi.RelateAll(guids...), "name", g.Name, "lifecycle", f.Lifecycle, "org", org.Name, "spaces", names)
}

func unbindSecurityGroup(ctx context.Context, s *core.Session, w core.Words, f *phaseFlags) (core.Result, error) {
	g, err := findGroup(ctx, s, w["GROUP"])
	if err != nil {
		return nil, err
	}
	org, space, err := s.TargetSpace(ctx, w["ORG"], w["SPACE"])
	if err != nil {
		return nil, err
	}
	s.Acting("Unbinding "+f.Lifecycle+" security group %s from org %s / space %s", g.Name, org.Name, space.Name)
	err = s.Send(ctx, http.MethodDelete, securityGroupPath+"/"+g.GUID+"/relationships/"+f.Lifecycle+"_spaces/"+
		space.GUID, nil)
	if client.Status(err) == http.StatusUnprocessableEntity || client.Status(err) == http.StatusNotFound {
		s.Say("Security group %s is not bound to this space for phase '%s'.", g.Name, f.Lifecycle)
		err = nil
	}
	if err != nil {
		return nil, err
	}
	return s.Done("name", g.Name, "lifecycle", f.Lifecycle, "org", org.Name, "space", space.Name)
}

// groupRow is a space that a security group applies to.
type groupRow struct {
	Name      string `json:"name"`
	Org       string `json:"org"`
	Space     string `json:"space"`
	Lifecycle string `json:"lifecycle"`
}

// groupRows returns where security groups apply. A group that applies nowhere has one row.
func groupRows(ctx context.Context, s *core.Session, groups []SecurityGroup) ([]groupRow, error) {
	var guids []string
	for _, g := range groups {
		for _, phase := range []string{core.PhaseRunning, core.PhaseStaging} {
			for _, d := range g.Relationships[phase+"_spaces"].Data {
				guids = append(guids, d.GUID)
			}
		}
	}
	spaces, orgs := map[string]cfapi.Space{}, map[string]cfapi.Thing{}
	slices.Sort(guids)
	for some := range slices.Chunk(slices.Compact(guids), 100) {
		found, included, err := client.ListWith[cfapi.Space](ctx, s.API, "/v3/spaces",
			url.Values{"guids": {strings.Join(some, ",")}, "include": {"organization"}})
		if err != nil {
			return nil, err
		}
		for _, p := range found {
			spaces[p.GUID] = p
		}
		maps.Copy(orgs, client.Of[cfapi.Thing](included, "organizations"))
	}
	var rows []groupRow
	for _, g := range groups {
		before := len(rows)
		for _, phase := range []string{core.PhaseRunning, core.PhaseStaging} {
			if g.Everywhere[phase] {
				rows = append(rows, groupRow{g.Name, "<all>", "<all>", phase})
			}
			for _, d := range g.Relationships[phase+"_spaces"].Data {
				at := spaces[d.GUID]
				rows = append(rows, groupRow{g.Name, orgs[at.Relationships.Organization.GUID()].Name,
					cmp.Or(at.Name, d.GUID), phase})
			}
		}
		if len(rows) == before {
			rows = append(rows, groupRow{Name: g.Name})
		}
	}
	return rows, nil
}

func listSecurityGroups(ctx context.Context, s *core.Session, _ core.Words, _ *core.NoFlags) (core.Result, error) {
	s.Acting("Getting security groups")
	groups, err := client.List[SecurityGroup](ctx, s.API, securityGroupPath, url.Values{"per_page": {"5000"}})
	if err != nil {
		return nil, err
	}
	rows, err := groupRows(ctx, s, groups)
	if err != nil {
		return nil, err
	}
	return &core.Listing[groupRow]{Key: "security groups", Rows: rows, Heading: []string{"name", "organization", "space",
		"lifecycle"}, Cells: func(r groupRow) []string {
		return []string{r.Name, r.Org, r.Space, r.Lifecycle}
	}}, nil
}

func showSecurityGroup(ctx context.Context, s *core.Session, w core.Words, _ *core.NoFlags) (core.Result, error) {
	s.Acting("Getting info for security group %s", w["GROUP"])
	g, err := findGroup(ctx, s, w["GROUP"])
	if err != nil {
		return nil, err
	}
	rows, err := groupRows(ctx, s, []SecurityGroup{g})
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
	out := &core.Sheet{Pairs: [][2]string{{"name", g.Name}, {"rules", ""}}, Text: "\t" + string(pretty),
		JSON: map[string]any{"name": g.Name, "guid": g.GUID, "rules": rules, "applied": applied}}
	if len(applied) > 0 {
		out.More = &core.Listing[groupRow]{Key: "spaces", Rows: applied, Heading: []string{"organization", "space",
			"lifecycle"}, Cells: func(r groupRow) []string {
			return []string{r.Org, r.Space, r.Lifecycle}
		}}
	}
	return out, nil
}

func securityGroupCommands() []*core.Command {
	return core.InGroup(core.GroupNetwork,
		core.Entry("security-groups", "", "List security groups", core.NeedsLogin, listSecurityGroups, ""),
		core.Entry("security-group", "GROUP", "Show a security group", core.NeedsLogin, showSecurityGroup, "database"),
		core.Entry("create-security-group", "GROUP PATH", "Create a security group", core.NeedsLogin, createSecurityGroup,
			"database rules.json").
			Explained(
				`PATH is a file with a JSON array of rules, such as [{"protocol":"tcp","destination":"10.0.0.0/8","ports":"443"}].`),
		core.Entry("update-security-group", "GROUP PATH", "Replace the rules of a security group", core.NeedsLogin,
			updateSecurityGroup, "database rules.json"),
		core.Entry("delete-security-group", "GROUP [-f]", "Delete a security group", core.NeedsLogin, deleteSecurityGroup,
			"database -f").Slow(),
		core.Entry("bind-security-group", "GROUP ORG [--space SPACE]", "Bind a security group to spaces", core.NeedsLogin,
			bindSecurityGroup, "database acme --space dev", "database acme --lifecycle staging"),
		core.Entry("unbind-security-group", "GROUP ORG SPACE", "Unbind a security group from a space", core.NeedsLogin,
			unbindSecurityGroup, "database acme dev"),
		core.Entry("running-security-groups", "", "List the security groups of all running apps", core.NeedsLogin,
			ofPhase(core.PhaseRunning), ""),
		core.Entry("bind-running-security-group", "GROUP", "Bind a security group to all running apps", core.NeedsLogin,
			everywhere(core.PhaseRunning, true), "database"),
		core.Entry("unbind-running-security-group", "GROUP", "Unbind a security group from all running apps", core.NeedsLogin,
			everywhere(core.PhaseRunning, false), "database"),
		core.Entry("staging-security-groups", "", "List the security groups of all builds", core.NeedsLogin,
			ofPhase(core.PhaseStaging), ""),
		core.Entry("bind-staging-security-group", "GROUP", "Bind a security group to all builds", core.NeedsLogin,
			everywhere(core.PhaseStaging, true), "database"),
		core.Entry("unbind-staging-security-group", "GROUP", "Unbind a security group from all builds", core.NeedsLogin,
			everywhere(core.PhaseStaging, false), "database"),
	)
}
