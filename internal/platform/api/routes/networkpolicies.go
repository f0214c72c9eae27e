package routes

import (
	"net/http"
	"slices"

	"ingot/internal/base/fault"
	"ingot/internal/base/token"
	"ingot/internal/base/web"
	"ingot/internal/platform"
	"ingot/internal/platform/api/listing"
	"ingot/internal/platform/api/rest"
)

// NetworkPath is the address of Cloud Foundry's policy server.
const NetworkPath = "/networking/v1/external"

// PolicyRoutes are those of the policy server: which apps may connect to which.
func (a *API) PolicyRoutes(g *web.Group) {
	read := web.Scope(append([]string{platform.ScopeNetworkAdmin, platform.ScopeNetworkWrite}, rest.Readers...)...)
	write := web.Scope(append([]string{platform.ScopeNetworkAdmin, platform.ScopeNetworkWrite}, rest.Writers...)...)
	g.Handle(http.MethodGet, NetworkPath+"/policies", read, a.listNetworkPolicies)
	g.Handle(http.MethodPost, NetworkPath+"/policies", write, a.changeNetworkPolicies(true))
	g.Handle(http.MethodPost, NetworkPath+"/policies/delete", write, a.changeNetworkPolicies(false))
}

// networkAdmin reports whether the caller may change the policies of all apps.
func networkAdmin(r *http.Request) bool {
	return rest.CallerOf(r).Admin || slices.Contains(token.FromContext(r.Context()).Scope, platform.ScopeNetworkAdmin)
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
	q := platform.Query{Reader: rest.CallerOf(r).Reader()}
	if networkAdmin(r) {
		q.Reader = nil
	}
	for parameter, field := range map[string]string{"id": "app_guid", "source_id": "source_guid", "dest_id": "dest_guid"} {
		if asked.Get(parameter) == "" || parameter != "id" && asked.Get("id") != "" {
			continue
		}
		q = q.And(platform.InStrings(field, listing.SplitValues(asked.Get(parameter))))
	}
	return a.Show(w, r, func(req *rest.Request) (any, error) {
		found, total, err := req.Tx.NetworkPolicies().List(q)
		return policiesBody{total, rest.PresentAll(found, presentPolicy)}, err
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
		if create && a.NoPolicies != "" {
			return fault.New(fault.BadRequest, "%s", a.NoPolicies)
		}
		admin := networkAdmin(r)
		return a.Perform(w, r, http.StatusOK, func(req *rest.Request) (any, error) {
			if err := mayConnect(req, list, admin, create); err != nil {
				return nil, err
			}
			if create {
				most := platform.MaxPolicies
				if admin {
					most = 0
				}
				return struct{}{}, a.Platform.CreateNetworkPolicies(req.Tx, req.Caller.Actor(), list, most)
			}
			return struct{}{}, a.Platform.DeleteNetworkPolicies(req.Tx, req.Caller.Actor(), list)
		})
	}
}

// mayConnect refuses policies of apps in whose space the caller is no developer, and
// new policies of apps that do not exist. The policies of a deleted app are gone, so
// deleting them is allowed and changes nothing: clients delete the app first.
func mayConnect(req *rest.Request, list []platform.NetworkPolicy, admin, create bool) error {
	refused := fault.New(fault.Forbidden, "one or more applications cannot be found or accessed")
	checked := map[string]bool{}
	for _, p := range list {
		for _, guid := range []string{p.SourceApp, p.DestApp} {
			if checked[guid] {
				continue
			}
			checked[guid] = true
			app, err := req.Tx.Apps().Get(guid)
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
			if _, err := req.Caller.MayInSpace(req.Tx, app.SpaceGUID, platform.Develop); fault.Is(err, fault.Forbidden) {
				return refused
			} else if err != nil {
				return err
			}
		}
	}
	return nil
}
