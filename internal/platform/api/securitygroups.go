package api

import (
	"encoding/json"
	"net/http"
	"slices"

	"ingot/internal/base/fault"
	"ingot/internal/base/web"
	"ingot/internal/platform"
	"ingot/internal/platform/actions"
	"ingot/internal/platform/api/listing"
)

var securityGroups = resource[platform.SecurityGroup, securityGroupBody]{
	noun: "Security group", repo: platform.Tx.SecurityGroups, present: presentSecurityGroups,
	list: listing.Params{
		Filters: listing.Filters{
			"names":                    listing.Text("name"),
			"globally_enabled_running": listing.Flag("globally_running"), "globally_enabled_staging": listing.Flag("globally_staging"),
		},
		Orders: []string{"name"}, Extra: []string{"running_space_guids", "staging_space_guids"}, NoLabels: true,
	},
}

func (a *API) securityGroupRoutes(g *web.Group) {
	read, write, admin := web.Scope(readers...), web.Scope(writers...), web.Scope(scopeAdmin)
	g.Handle(http.MethodGet, "/v3/security_groups", read, securityGroups.listerWhere(a, boundTo))
	g.Handle(http.MethodPost, "/v3/security_groups", admin, a.createSecurityGroup)
	g.Handle(http.MethodGet, "/v3/security_groups/{guid}", read, securityGroups.getter(a))
	g.Handle(http.MethodPatch, "/v3/security_groups/{guid}", write, a.updateSecurityGroup)
	g.Handle(http.MethodDelete, "/v3/security_groups/{guid}", write, a.deleteSecurityGroup)
	inSpace := securityGroups
	inSpace.list.Filters, inSpace.list.Extra = listing.Filters{"names": listing.Text("name")}, nil
	for _, l := range []actions.Lifecycle{actions.WhileRunning, actions.WhileStaging} {
		bound := "/v3/security_groups/{guid}/relationships/" + string(l) + "_spaces"
		g.Handle(http.MethodPost, bound, write, a.bindSecurityGroup(l))
		g.Handle(http.MethodDelete, bound+"/{space}", write, a.unbindSecurityGroup(l))
		g.Handle(http.MethodGet, "/v3/spaces/{guid}/"+string(l)+"_security_groups", read,
			listerOf(a, inSpace, platform.Tx.Spaces, "Space", string(l)+"_in_space_guid"))
	}
}

// boundTo filters groups by the spaces they are bound to, as far as the caller may
// see these.
func boundTo(req *request) ([]platform.Cond, error) {
	running, err := appliedTo(spaces, "running_space_guids", "running_space_guid")(req)
	if err != nil {
		return nil, err
	}
	staging, err := appliedTo(spaces, "staging_space_guids", "staging_space_guid")(req)
	return append(running, staging...), err
}

// securityGroupRequest is a request to create or update a group; absent members
// stay unchanged. They are decoded later, because the messages are special.
type securityGroupRequest struct {
	Name          optional[string] `json:"name"`
	Rules         json.RawMessage  `json:"rules"`
	Global        json.RawMessage  `json:"globally_enabled"`
	Relationships *struct {
		Running *relations `json:"running_spaces"`
		Staging *relations `json:"staging_spaces"`
	} `json:"relationships"`
}

func (b *securityGroupRequest) apply(g *platform.SecurityGroup) error {
	if b.Name.set {
		g.Name = b.Name.value
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
	var body securityGroupRequest
	if err := web.DecodeStrict(r, &body); err != nil {
		return err
	}
	group := platform.SecurityGroup{}
	if err := body.apply(&group); err != nil {
		return err
	}
	if text := a.rulesWarning(&group); text != "" {
		warn(w, text)
	}
	return answer(a, w, r, securityGroups, http.StatusCreated, func(req *request) (*platform.SecurityGroup, error) {
		g := group
		if to := body.Relationships; to != nil {
			for l, relation := range map[actions.Lifecycle]*relations{actions.WhileRunning: to.Running, actions.WhileStaging: to.Staging} {
				found, err := related(req, req.tx.Spaces(), relation, "Spaces")
				if err != nil {
					return nil, err
				}
				guids := guidsOf(found, func(s *platform.Space) string { return s.GUID })
				slices.Sort(guids)
				*l.BoundSpaces(&g) = slices.Compact(guids)
			}
		}
		return &g, a.platform.CreateSecurityGroup(req.tx, req.caller.actor(), &g)
	})
}

// securityGroupFor returns the group of the path if the caller may change it. Only
// administrators may; others learn whether they see it.
func securityGroupFor(req *request) (*platform.SecurityGroup, error) {
	group, err := securityGroups.find(req)
	if err == nil && !req.caller.Admin {
		return nil, platform.Forbidden()
	}
	return group, err
}

func (a *API) updateSecurityGroup(w http.ResponseWriter, r *http.Request) error {
	var body securityGroupRequest
	if err := web.DecodeStrict(r, &body); err != nil {
		return err
	}
	if body.Relationships != nil {
		return fault.Invalid("Unknown field(s): 'relationships'")
	}
	var text string
	w = warned{w, &text}
	return answer(a, w, r, securityGroups, http.StatusOK, func(req *request) (*platform.SecurityGroup, error) {
		group, err := securityGroupFor(req)
		if err != nil {
			return nil, err
		}
		if err := body.apply(group); err != nil {
			return nil, err
		}
		text = a.rulesWarning(group)
		return group, a.platform.UpdateSecurityGroup(req.tx, req.caller.actor(), group)
	})
}

func (a *API) deleteSecurityGroup(w http.ResponseWriter, r *http.Request) error {
	return a.finish(w, r, "security_group.delete", func(req *request) error {
		group, err := securityGroupFor(req)
		if err != nil {
			return err
		}
		return a.platform.DeleteSecurityGroup(req.tx, req.caller.actor(), group)
	})
}

// bindSecurityGroup binds a group that the caller sees to spaces that it manages.
func (a *API) bindSecurityGroup(l actions.Lifecycle) web.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		body, err := readRelations(r)
		if err != nil {
			return err
		}
		var text string
		w = warned{w, &text}
		return a.perform(w, r, http.StatusOK, func(req *request) (any, error) {
			group, err := securityGroups.find(req)
			if err != nil {
				return nil, err
			}
			to, err := related(req, req.tx.Spaces(), body, "Spaces")
			if err != nil {
				return nil, err
			}
			for _, space := range to {
				if _, err := req.caller.mayInSpace(req.tx, space.GUID, platform.ManageSpace); err != nil {
					return nil, err
				}
			}
			text = a.rulesWarning(group)
			if err := a.platform.BindSecurityGroup(req.tx, req.caller.actor(), group, l, to); err != nil {
				return nil, err
			}
			visible, err := visibleSpaces(req, *l.BoundSpaces(group))
			return map[string]any{"data": toMany(visible).Data, "links": links{"self": href(req.base, r.URL.Path)}}, err
		})
	}
}

func (a *API) unbindSecurityGroup(l actions.Lifecycle) web.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		return a.perform(w, r, http.StatusNoContent, func(req *request) (any, error) {
			group, err := securityGroups.find(req)
			if err != nil {
				return nil, err
			}
			guid := web.Param(r, "space")
			if _, err := find(req.caller, req.tx.Spaces(), guid, "Space"); fault.Is(err, fault.NotFound) {
				return nil, actions.NotBound(guid)
			} else if err != nil {
				return nil, err
			}
			if _, err := req.caller.mayInSpace(req.tx, guid, platform.ManageSpace); err != nil {
				return nil, err
			}
			return nil, a.platform.UnbindSecurityGroup(req.tx, req.caller.actor(), group, l, guid)
		})
	}
}

// visibleSpaces returns those of spaces that the caller may see, in their order.
func visibleSpaces(req *request, guids []string) ([]string, error) {
	reader := req.caller.Reader()
	if reader == nil || len(guids) == 0 {
		return guids, nil
	}
	found, _, err := req.tx.Spaces().List(platform.Query{Reader: reader, Where: []platform.Cond{platform.InStrings("guid", guids)}})
	seen := guidsOf(found, func(s *platform.Space) string { return s.GUID })
	return slices.DeleteFunc(slices.Clone(guids), func(g string) bool { return !slices.Contains(seen, g) }), err
}

// rulesWarning is what a client has to know about a group that the engine does not
// enforce, or not all of it; empty if it does.
func (a *API) rulesWarning(g *platform.SecurityGroup) string {
	if a.enforces == nil {
		return ""
	}
	return a.enforces(g)
}

type securityGroupBody struct {
	resourceBody
	Name          string                  `json:"name"`
	Rules         []platform.SecurityRule `json:"rules"`
	Global        map[string]bool         `json:"globally_enabled"`
	Relationships map[string]relations    `json:"relationships"`
	Links         links                   `json:"links"`
}

func presentSecurityGroups(req *request, items []*platform.SecurityGroup) ([]securityGroupBody, error) {
	var all []string
	for _, g := range items {
		all = slices.Concat(all, g.RunningSpaces, g.StagingSpaces)
	}
	slices.Sort(all)
	visible, err := visibleSpaces(req, slices.Compact(all))
	seen := func(guids []string) relations {
		return toMany(slices.DeleteFunc(slices.Clone(guids), func(g string) bool { return !slices.Contains(visible, g) }))
	}
	return presentAll(items, func(g *platform.SecurityGroup) securityGroupBody {
		rules := g.Rules
		if rules == nil {
			rules = []platform.SecurityRule{}
		}
		return securityGroupBody{
			resourceBody: presentResource(&g.Resource), Name: g.Name, Rules: rules, Global: map[string]bool{"running": g.Running, "staging": g.Staging},
			Relationships: map[string]relations{"running_spaces": seen(g.RunningSpaces), "staging_spaces": seen(g.StagingSpaces)},
			Links:         links{"self": req.v3("/security_groups/", escape(g.GUID))},
		}
	}), err
}
