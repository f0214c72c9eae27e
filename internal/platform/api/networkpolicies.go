package api

import (
	"net/http"
	"slices"

	"ingot/internal/base/fault"
	"ingot/internal/base/token"
	"ingot/internal/base/web"
	"ingot/internal/platform"
	"ingot/internal/platform/api/listing"
)

// networkPath is the address of Cloud Foundry's policy server.
const networkPath = "/networking/v1/external"

// networkRoutes are those of the policy server: which apps may connect to which.
func (a *API) networkRoutes(g *web.Group) {
	read := web.Scope(append([]string{platform.ScopeNetworkAdmin, platform.ScopeNetworkWrite}, readers...)...)
	write := web.Scope(append([]string{platform.ScopeNetworkAdmin, platform.ScopeNetworkWrite}, writers...)...)
	g.Handle(http.MethodGet, networkPath+"/policies", read, a.listNetworkPolicies)
	g.Handle(http.MethodPost, networkPath+"/policies", write, a.changeNetworkPolicies(true))
	g.Handle(http.MethodPost, networkPath+"/policies/delete", write, a.changeNetworkPolicies(false))
}

// networkAdmin reports whether the caller may change the policies of all apps.
func networkAdmin(r *http.Request) bool {
	return callerOf(r).Admin || slices.Contains(token.FromContext(r.Context()).Scope, platform.ScopeNetworkAdmin)
}

type policyBody struct {
	Source struct {
		ID  string `json:"id"`
		Tag string `json:"tag,omitempty"`
	} `json:"source"`
	Destination struct {
		ID       string `json:"id"`
		Tag      string `json:"tag,omitempty"`
		Protocol string `json:"protocol"`
		Ports    struct {
			Start int `json:"start"`
			End   int `json:"end"`
		} `json:"ports"`
	} `json:"destination"`
}

type policiesBody struct {
	Total    int          `json:"total_policies"`
	Policies []policyBody `json:"policies"`
}

func presentPolicy(p *platform.NetworkPolicy) (b policyBody) {
	b.Source.ID, b.Destination.ID, b.Destination.Protocol = p.SourceApp, p.DestApp, p.Protocol
	b.Destination.Ports.Start, b.Destination.Ports.End = p.FirstPort, p.LastPort
	return b
}

// listNetworkPolicies lists the policies between apps of whose spaces the caller is
// a developer; those of all apps for administrators.
func (a *API) listNetworkPolicies(w http.ResponseWriter, r *http.Request) error {
	asked := r.URL.Query()
	q := platform.Query{Reader: callerOf(r).Reader()}
	if networkAdmin(r) {
		q.Reader = nil
	}
	for parameter, field := range map[string]string{"id": "app_guid", "source_id": "source_guid", "dest_id": "dest_guid"} {
		if asked.Get(parameter) == "" || parameter != "id" && asked.Get("id") != "" {
			continue
		}
		q = q.And(platform.InStrings(field, listing.SplitValues(asked.Get(parameter))))
	}
	return a.show(w, r, func(req *request) (any, error) {
		found, total, err := req.tx.NetworkPolicies().List(q)
		return policiesBody{total, presentAll(found, presentPolicy)}, err
	})
}

// changeNetworkPolicies creates or deletes policies. Those that exist already, or do
// not exist, are no error.
func (a *API) changeNetworkPolicies(create bool) web.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		var body policiesBody
		if err := web.DecodeJSON(r, &body); err != nil {
			return fault.Wrap(err, fault.BadRequest, "mapper: unmarshal json: %v", err)
		}
		var list []platform.NetworkPolicy
		for _, p := range body.Policies {
			if p.Source.Tag != "" || p.Destination.Tag != "" {
				return fault.New(fault.BadRequest, "mapper: validate policies: tags may not be specified")
			}
			list = append(list, platform.NetworkPolicy{
				SourceApp: p.Source.ID, DestApp: p.Destination.ID, Protocol: p.Destination.Protocol,
				FirstPort: p.Destination.Ports.Start, LastPort: p.Destination.Ports.End,
			})
		}
		if err := platform.CheckNetworkPolicies(list); err != nil {
			return err
		}
		if create && a.noPolicies != "" {
			return fault.New(fault.BadRequest, "%s", a.noPolicies)
		}
		admin := networkAdmin(r)
		return a.perform(w, r, http.StatusOK, func(req *request) (any, error) {
			if err := mayConnect(req, list, admin, create); err != nil {
				return nil, err
			}
			if create {
				most := platform.MaxPolicies
				if admin {
					most = 0
				}
				return struct{}{}, a.platform.CreateNetworkPolicies(req.tx, req.caller.actor(), list, most)
			}
			return struct{}{}, a.platform.DeleteNetworkPolicies(req.tx, req.caller.actor(), list)
		})
	}
}

// mayConnect refuses policies of apps in whose space the caller is no developer, and
// new policies of apps that do not exist. The policies of a deleted app are gone, so
// deleting them is allowed and changes nothing: clients delete the app first.
func mayConnect(req *request, list []platform.NetworkPolicy, admin, create bool) error {
	refused := fault.New(fault.Forbidden, "one or more applications cannot be found or accessed")
	checked := map[string]bool{}
	for _, p := range list {
		for _, guid := range []string{p.SourceApp, p.DestApp} {
			if checked[guid] {
				continue
			}
			checked[guid] = true
			app, err := req.tx.Apps().Get(guid)
			if fault.Is(err, fault.NotFound) {
				if create {
					return refused
				}
				continue
			}
			if err != nil {
				return err
			}
			if admin {
				continue
			}
			if _, err := req.caller.mayInSpace(req.tx, app.SpaceGUID, platform.Develop); fault.Is(err, fault.Forbidden) {
				return refused
			} else if err != nil {
				return err
			}
		}
	}
	return nil
}
