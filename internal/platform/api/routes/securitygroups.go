package routes

import (
	"encoding/json"
	"net/http"
	"slices"

	"ingot/internal/base/fault"
	"ingot/internal/base/web"
	"ingot/internal/platform"
	"ingot/internal/platform/actions"
	"ingot/internal/platform/api/listing"
	"ingot/internal/platform/api/orgs"
	"ingot/internal/platform/api/rest"
)

var securityGroups = rest.Resource[platform.SecurityGroup, securityGroupBody]{
	Noun: "Security group", Repo: platform.Tx.SecurityGroups, Present: presentSecurityGroups,
	List: listing.Params{
		Filters: listing.Filters{
			"names":                    listing.Text("name"),
			"globally_enabled_running": listing.Flag("globally_running"),
			"globally_enabled_staging": listing.Flag("globally_staging"),
		},
		Orders: []string{"name"}, Extra: []string{"running_space_guids", "staging_space_guids"}, NoLabels: true,
	},
}

func (a *API) securityGroupRoutes(g *web.Group) {
	g.Handle(http.MethodGet, "/v3/security_groups", rest.Read, securityGroups.ListerWhere(a.Server, boundTo))
	g.Handle(http.MethodPost, "/v3/security_groups", rest.Admin, a.createSecurityGroup)
	g.Handle(http.MethodGet, "/v3/security_groups/{guid}", rest.Read, securityGroups.Getter(a.Server))
	g.Handle(http.MethodPatch, "/v3/security_groups/{guid}", rest.Write, a.updateSecurityGroup)
	g.Handle(http.MethodDelete, "/v3/security_groups/{guid}", rest.Write,
		rest.Deleter(a.Server, "security_group.delete", securityGroupFor, a.Platform.DeleteSecurityGroup))
	inSpace := securityGroups
	inSpace.List.Filters, inSpace.List.Extra = listing.Filters{"names": listing.Text("name")}, nil
	for _, l := range []actions.Lifecycle{actions.WhileRunning, actions.WhileStaging} {
		bound := "/v3/security_groups/{guid}/relationships/" + string(l) + "_spaces"
		g.Handle(http.MethodPost, bound, rest.Write, a.bindSecurityGroup(l))
		g.Handle(http.MethodDelete, bound+"/{space}", rest.Write,
			rest.Remover(a.Server, securityGroups.Find, a.unbindSecurityGroup(l)))
		g.Handle(http.MethodGet, "/v3/spaces/{guid}/"+string(l)+"_security_groups", rest.Read,
			rest.ListerOf(a.Server, inSpace, platform.Tx.Spaces, "Space", string(l)+"_in_space_guid"))
	}
}

// boundTo filters groups by the spaces they are bound to, as far as the caller may
// see these.
func boundTo(req *rest.Request) ([]platform.Cond, error) {
	running, err := rest.AppliedTo(orgs.Spaces, "running_space_guids", "running_space_guid")(req)
	if err != nil {
		return nil, err
	}
	staging, err := rest.AppliedTo(orgs.Spaces, "staging_space_guids", "staging_space_guid")(req)
	return append(running, staging...), err
}

// securityGroupRequest is a request to create or update a group; absent members
// stay unchanged. They are decoded later, because the messages are special.
type securityGroupRequest struct {
	Name          rest.Optional[string] `json:"name"`
	Rules         json.RawMessage       `json:"rules"`
	Global        json.RawMessage       `json:"globally_enabled"`
	Relationships *struct {
		Running *rest.Relations `json:"running_spaces"`
		Staging *rest.Relations `json:"staging_spaces"`
	} `json:"relationships"`
}

func (b *securityGroupRequest) apply(g *platform.SecurityGroup) error {
	if b.Name.Set {
		g.Name = b.Name.Value
	}
	if b.Rules != nil {
		rules, err := platform.ParseSecurityRules(b.Rules)
		if err != nil {
			return err
		}
		g.Rules = rules
	}
	if b.Global == nil || string(b.Global) == "null" {
		return nil
	}
	var fields map[string]any
	if json.Unmarshal(b.Global, &fields) != nil {
		return fault.Invalid("Globally enabled must be an object")
	}
	for name, value := range fields {
		on, ok := value.(bool)
		switch {
		case name != "running" && name != "staging":
			return fault.Invalid("Globally enabled only allows keys 'running' or 'staging'")
		case !ok:
			return fault.Invalid("Globally enabled values must be booleans")
		case name == "running":
			g.Running = on
		default:
			g.Staging = on
		}
	}
	return nil
}

func (a *API) createSecurityGroup(w http.ResponseWriter, r *http.Request) error {
	body, err := rest.Body[securityGroupRequest](r)
	if err != nil {
		return err
	}
	group := platform.SecurityGroup{}
	if err := body.apply(&group); err != nil {
		return err
	}
	if text := a.rulesWarning(&group); text != "" {
		rest.Warn(w, text)
	}
	return rest.Answer(a.Server, w, r, securityGroups, http.StatusCreated,
		func(req *rest.Request) (*platform.SecurityGroup, error) {
			g := group
			if to := body.Relationships; to != nil {
				for l, relation := range map[actions.Lifecycle]*rest.Relations{actions.WhileRunning: to.Running,
					actions.WhileStaging: to.Staging} {
					found, err := rest.Related(req, req.Tx.Spaces(), relation, "Spaces")
					if err != nil {
						return nil, err
					}
					guids := rest.GUIDsOf(found, func(s *platform.Space) string { return s.GUID })
					slices.Sort(guids)
					*l.BoundSpaces(&g) = slices.Compact(guids)
				}
			}
			return &g, a.Platform.CreateSecurityGroup(req.Tx, req.Caller.Actor(), &g)
		})
}

// securityGroupFor returns the group of the path if the caller may change it. Only
// administrators may; others learn whether they see it.
func securityGroupFor(req *rest.Request) (*platform.SecurityGroup, error) {
	group, err := securityGroups.Find(req)
	if err == nil && !req.Caller.Admin {
		return nil, platform.Forbidden()
	}
	return group, err
}

func (a *API) updateSecurityGroup(w http.ResponseWriter, r *http.Request) error {
	body, err := rest.Body[securityGroupRequest](r)
	if err != nil {
		return err
	}
	if body.Relationships != nil {
		return fault.Invalid("Unknown field(s): 'relationships'")
	}
	var text string
	w = rest.Warned(w, &text)
	return rest.Answer(a.Server, w, r, securityGroups, http.StatusOK,
		func(req *rest.Request) (*platform.SecurityGroup, error) {
			group, err := securityGroupFor(req)
			if err != nil {
				return nil, err
			}
			if err := body.apply(group); err != nil {
				return nil, err
			}
			text = a.rulesWarning(group)
			return group, a.Platform.UpdateSecurityGroup(req.Tx, req.Caller.Actor(), group)
		})
}

// bindSecurityGroup binds a group that the caller sees to spaces that it manages.
func (a *API) bindSecurityGroup(l actions.Lifecycle) web.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		body, err := rest.ReadRelations(r)
		if err != nil {
			return err
		}
		var text string
		w = rest.Warned(w, &text)
		return a.Perform(w, r, http.StatusOK, func(req *rest.Request) (any, error) {
			group, err := securityGroups.Find(req)
			if err != nil {
				return nil, err
			}
			to, err := rest.Related(req, req.Tx.Spaces(), body, "Spaces")
			if err != nil {
				return nil, err
			}
			for _, space := range to {
				if _, err := req.Caller.MayInSpace(req.Tx, space.GUID, platform.ManageSpace); err != nil {
					return nil, err
				}
			}
			text = a.rulesWarning(group)
			if err := a.Platform.BindSecurityGroup(req.Tx, req.Caller.Actor(), group, l, to); err != nil {
				return nil, err
			}
			visible, err := visibleSpaces(req, *l.BoundSpaces(group))
			return req.Relationship(visible), err
		})
	}
}

func (a *API) unbindSecurityGroup(l actions.Lifecycle) func(*rest.Request, *platform.SecurityGroup) error {
	return func(req *rest.Request, group *platform.SecurityGroup) error {
		guid := req.Param("space")
		if _, err := rest.Find(req.Caller, req.Tx.Spaces(), guid, "Space"); fault.Is(err, fault.NotFound) {
			return actions.NotBound(guid)
		} else if err != nil {
			return err
		}
		if _, err := req.Caller.MayInSpace(req.Tx, guid, platform.ManageSpace); err != nil {
			return err
		}
		return a.Platform.UnbindSecurityGroup(req.Tx, req.Caller.Actor(), group, l, guid)
	}
}

// visibleSpaces returns those of spaces that the caller may see, in their order.
func visibleSpaces(req *rest.Request, guids []string) ([]string, error) {
	reader := req.Caller.Reader()
	if reader == nil || len(guids) == 0 {
		return guids, nil
	}
	found, _, err := req.Tx.Spaces().
		List(platform.Query{Reader: reader, Where: []platform.Cond{platform.InStrings("guid", guids)}})
	seen := rest.GUIDsOf(found, func(s *platform.Space) string { return s.GUID })
	return slices.DeleteFunc(slices.Clone(guids), func(g string) bool { return !slices.Contains(seen, g) }), err
}

// rulesWarning is what a client has to know about a group that the engine does not
// enforce, or not all of it; empty if it does.
func (a *API) rulesWarning(g *platform.SecurityGroup) string {
	if a.Enforces == nil {
		return ""
	}
	return a.Enforces(g)
}

type securityGroupBody struct {
	rest.ResourceBody
	Name          string                    `json:"name"`
	Rules         []platform.SecurityRule   `json:"rules"`
	Global        map[string]bool           `json:"globally_enabled"`
	Relationships map[string]rest.Relations `json:"relationships"`
	Links         rest.Links                `json:"links"`
}

func presentSecurityGroups(req *rest.Request, items []*platform.SecurityGroup) ([]securityGroupBody, error) {
	var all []string
	for _, g := range items {
		all = slices.Concat(all, g.RunningSpaces, g.StagingSpaces)
	}
	slices.Sort(all)
	visible, err := visibleSpaces(req, slices.Compact(all))
	seen := func(guids []string) rest.Relations {
		return rest.ToMany(slices.DeleteFunc(slices.Clone(guids),
			func(g string) bool { return !slices.Contains(visible, g) }))
	}
	return rest.PresentAll(items, func(g *platform.SecurityGroup) securityGroupBody {
		rules := g.Rules
		if rules == nil {
			rules = []platform.SecurityRule{}
		}
		return securityGroupBody{
			ResourceBody: rest.PresentResource(&g.Resource), Name: g.Name, Rules: rules,
			Global: map[string]bool{"running": g.Running, "staging": g.Staging},
			Relationships: map[string]rest.Relations{"running_spaces": seen(g.RunningSpaces),
				"staging_spaces": seen(g.StagingSpaces)},
			Links: rest.Links{"self": req.Link("/security_groups/", rest.Escape(g.GUID))},
		}
	}), err
}
