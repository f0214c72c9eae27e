package routes

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"ingot/internal/base/cfapi"
	"ingot/internal/cli/client"
	"ingot/internal/cli/core"
)

// policy allows an app to connect to another one.
type policy struct {
	Source struct {
		ID string `json:"id"`
	} `json:"source"`
	Destination struct {
		ID       string `json:"id"`
		Protocol string `json:"protocol"`
		Ports    struct {
			Start int `json:"start"`
			End   int `json:"end"`
		} `json:"ports"`
	} `json:"destination"`
}

// policiesAt returns the address of the policies.
func policiesAt(ctx context.Context, s *core.Session) (string, error) {
	at, err := s.Link(ctx, "network_policy_v1", "network policies")
	return at + "/policies", err
}

type policyRow struct {
	Source      string `json:"source"`
	Destination string `json:"destination"`
	Protocol    string `json:"protocol"`
	Ports       string `json:"ports"`
	Space       string `json:"destination_space"`
	Org         string `json:"destination_org"`
}

type sourceFlag struct {
	Source string `long:"source" value-name:"APP" description:"Only policies of this app"`
}

func networkPolicies(ctx context.Context, s *core.Session, _ core.Words, f *sourceFlag) (core.Result, error) {
	s.Doing("Listing network policies")
	at, err := policiesAt(ctx, s)
	if err != nil {
		return nil, err
	}
	q := s.InSpace("per_page", "5000")
	if f.Source != "" {
		app, err := s.App(ctx, f.Source)
		if err != nil {
			return nil, err
		}
		q.Set("guids", app.GUID)
	}
	sources, err := client.List[cfapi.App](ctx, s.API, "/v3/apps", q)
	if err != nil {
		return nil, err
	}
	names := cfapi.Names(sources)
	var found struct {
		Policies []policy `json:"policies"`
	}
	if err := s.API.Get(ctx, at, nil, &found); err != nil {
		return nil, err
	}
	found.Policies = slices.DeleteFunc(found.Policies, func(p policy) bool { return names[p.Source.ID] == "" })
	rows, err := policyRows(ctx, s, found.Policies, names)
	if err != nil {
		return nil, err
	}
	return &core.Listing[policyRow]{Key: "network policies", Rows: rows, Heading: []string{"source", "destination",
		"protocol", "ports", "destination space", "destination org"}, Cells: func(r policyRow) []string {
		return []string{r.Source, r.Destination, r.Protocol, r.Ports, r.Space, r.Org}
	}}, nil
}

// policyRows names the apps that policies lead to, with their spaces and orgs.
func policyRows(ctx context.Context, s *core.Session, policies []policy,
	sources map[string]string) ([]policyRow, error) {
	var guids []string
	for _, p := range policies {
		guids = append(guids, p.Destination.ID)
	}
	slices.Sort(guids)
	apps, spaces, orgs := map[string]cfapi.App{}, map[string]cfapi.Space{}, map[string]cfapi.Thing{}
	for some := range slices.Chunk(slices.Compact(guids), 100) {
		found, included, err := client.ListWith[cfapi.App](ctx, s.API, "/v3/apps",
			url.Values{"guids": {strings.Join(some, ",")}, "include": {"space.organization"}})
		if err != nil {
			return nil, err
		}
		for _, a := range found {
			apps[a.GUID] = a
		}
		maps.Copy(spaces, client.Of[cfapi.Space](included, "spaces"))
		maps.Copy(orgs, client.Of[cfapi.Thing](included, "organizations"))
	}
	var rows []policyRow
	for _, p := range policies {
		to := apps[p.Destination.ID]
		at := spaces[to.Relationships.Space.GUID()]
		ports := strconv.Itoa(p.Destination.Ports.Start)
		if p.Destination.Ports.End != p.Destination.Ports.Start {
			ports += "-" + strconv.Itoa(p.Destination.Ports.End)
		}
		rows = append(rows, policyRow{sources[p.Source.ID], cmp.Or(to.Name, p.Destination.ID), p.Destination.Protocol, ports,
			at.Name, orgs[at.Relationships.Organization.GUID()].Name})
	}
	return rows, nil
}

type policyFlags struct {
	Protocol string `long:"protocol" value-name:"tcp|udp" default:"tcp" choice:"tcp" choice:"udp" description:"Protocol"` //nolint:staticcheck // go-flags repeats choice
	Port     string `long:"port" value-name:"RANGE" default:"8080" description:"Port, or range of ports such as 8080-8090"`
	Space    string `short:"s" value-name:"SPACE" description:"Space of the destination app (default: the targeted space)"`
	Org      string `short:"o" value-name:"ORG" description:"Org of the destination app (default: the targeted org)"`
}

func (f *policyFlags) ports() (first, last int, err error) {
	from, to, isRange := strings.Cut(f.Port, "-")
	if !isRange {
		to = from
	}
	first, err = strconv.Atoi(from)
	if err == nil {
		last, err = strconv.Atoi(to)
	}
	if err != nil || first < 1 || last < first || last > 65535 {
		return 0, 0, core.UsageError(fmt.Sprintf("--port %s is neither a port nor a range of ports such as 8080-8090",
			f.Port))
	}
	return first, last, nil
}

// changePolicy adds a network policy or removes it.
func changePolicy(add bool) core.Action[policyFlags] {
	return func(ctx context.Context, s *core.Session, w core.Words, f *policyFlags) (core.Result, error) {
		first, last, err := f.ports()
		if err != nil {
			return nil, err
		}
		if f.Org != "" && f.Space == "" {
			return nil, core.UsageError("-o needs -s")
		}
		verb, path := "Adding network policy from app %s to app %s", ""
		if !add {
			verb, path = "Removing network policy from app %s to app %s", "/delete"
		}
		s.Doing(verb, w["SOURCE"], w["DESTINATION"])
		from, to, err := s.AppPair(ctx, w, f.Org, f.Space)
		if err != nil {
			return nil, err
		}
		at, err := policiesAt(ctx, s)
		if err != nil {
			return nil, err
		}
		var p policy
		p.Source.ID, p.Destination.ID, p.Destination.Protocol = from.GUID, to.GUID, f.Protocol
		p.Destination.Ports.Start, p.Destination.Ports.End = first, last
		if !add {
			var found struct {
				Policies []policy `json:"policies"`
			}
			if err := s.API.Get(ctx, at, url.Values{"source_id": {from.GUID}}, &found); err != nil {
				return nil, err
			}
			if !slices.Contains(found.Policies, p) {
				s.Say("Policy does not exist.")
				return s.Done("source", from.Name, "destination", to.Name, "removed", false)
			}
		}
		return s.Change(ctx, http.MethodPost, at+path, map[string]any{"policies": []policy{p}}, "source", from.Name,
			"destination", to.Name, "protocol", f.Protocol, "ports", f.Port)
	}
}

func networkPolicyCommands() []*core.Command {
	const flags = "SOURCE DESTINATION [--protocol tcp|udp] [--port RANGE] [-s SPACE]"
	return core.InGroup(core.GroupNetwork,
		core.Entry("network-policies", "[--source APP]", "List network policies between apps", core.NeedsSpace,
			networkPolicies, "", "--source front"),
		core.Entry("add-network-policy", flags, "Allow an app to connect to another one", core.NeedsSpace, changePolicy(true),
			"front back", "front back --port 8080-8090 -s other"),
		core.Entry("remove-network-policy", flags, "Remove a network policy", core.NeedsSpace, changePolicy(false),
			"front back --protocol tcp --port 8080"),
	)
}
