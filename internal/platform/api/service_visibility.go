package api

import (
	"net/http"
	"slices"

	"ingot/internal/base/fault"
	"ingot/internal/base/web"
	"ingot/internal/platform"
)

type visibilityBody struct {
	Type          platform.Visibility `json:"type"`
	Organizations *[]named            `json:"organizations,omitempty"`
	Space         *named              `json:"space,omitempty"`
}

type named struct {
	GUID string `json:"guid"`
	Name string `json:"name,omitempty"`
}

// presentVisibility names the organizations that the caller sees, and all to
// those who see all.
func presentVisibility(p *presenter, plan *platform.ServicePlan, b *platform.ServiceBroker) (*visibilityBody, error) {
	out := &visibilityBody{Type: plan.Visibility}
	switch plan.Visibility {
	case platform.VisibleOrgs:
		q := platform.Query{Where: []platform.Cond{platform.InStrings("guid", plan.Orgs)}, Reader: p.caller.Reader()}
		orgs, _, err := p.tx.Organizations().List(q)
		if err != nil {
			return nil, err
		}
		list := []named{}
		for _, o := range orgs {
			list = append(list, named{o.GUID, o.Name})
		}
		out.Organizations = &list
	case platform.VisibleSpace:
		s, err := p.tx.Spaces().Get(b.SpaceGUID)
		if err != nil {
			return nil, err
		}
		out.Space = &named{s.GUID, s.Name}
	case platform.VisiblePublic, platform.VisibleAdmin:
	}
	return out, nil
}

func (a *API) getVisibility(w http.ResponseWriter, r *http.Request) error {
	return a.show(w, r, func(p *presenter) (any, error) {
		plan, err := find(p.caller, p.tx.ServicePlans(), web.Param(r, "guid"), "Service plan")
		if err != nil {
			return nil, err
		}
		o, err := p.tx.ServiceOfferings().Get(plan.OfferingGUID)
		if err != nil {
			return nil, err
		}
		b, err := p.tx.ServiceBrokers().Get(o.BrokerGUID)
		if err != nil {
			return nil, err
		}
		return presentVisibility(p, plan, b)
	})
}

type visibilityRequest struct {
	Type          platform.Visibility `json:"type"`
	Organizations []named             `json:"organizations"`
}

// setVisibility replaces who sees a plan, or adds organizations to those who do.
func (a *API) setVisibility(add bool) web.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		var body visibilityRequest
		if err := web.DecodeStrict(r, &body); err != nil {
			return err
		}
		if !slices.Contains([]platform.Visibility{platform.VisiblePublic, platform.VisibleAdmin, platform.VisibleOrgs}, body.Type) {
			return fault.Invalid("Type must be one of 'public', 'admin', 'organization'")
		}
		if (body.Type == platform.VisibleOrgs) != (len(body.Organizations) > 0) {
			return fault.Invalid("Organizations must be given with the type 'organization', and only then")
		}
		return a.perform(w, r, http.StatusOK, func(p *presenter) (any, error) {
			plan, b, err := a.visiblePlan(p)
			if err != nil {
				return nil, err
			}
			guids := make([]string, 0, len(body.Organizations))
			for _, o := range body.Organizations {
				if _, err := find(p.caller, p.tx.Organizations(), o.GUID, "Organization"); err != nil {
					return nil, notAccessible(err, "Could not find Organization with guid: "+o.GUID)
				}
				guids = append(guids, o.GUID)
			}
			if add && body.Type == platform.VisibleOrgs && plan.Visibility == platform.VisibleOrgs {
				guids = append(slices.Clone(plan.Orgs), guids...)
			}
			if err := a.services.SetVisibility(p.tx, p.caller.actor(), plan, body.Type, guids); err != nil {
				return nil, err
			}
			return presentVisibility(p, plan, b)
		})
	}
}

// visiblePlan is the plan of the path, for administrators. Those of a space's
// broker are always for that space.
func (a *API) visiblePlan(p *presenter) (*platform.ServicePlan, *platform.ServiceBroker, error) {
	plan, b, err := a.planFor(p)
	if err != nil {
		return nil, nil, err
	}
	if !p.caller.Admin {
		return nil, nil, forbidden()
	}
	if b.SpaceGUID != "" {
		return nil, nil, fault.New(fault.Unprocessable, "cannot update plans with visibility type 'space'")
	}
	return plan, b, nil
}

func (a *API) hidePlan(w http.ResponseWriter, r *http.Request) error {
	return a.perform(w, r, http.StatusNoContent, func(p *presenter) (any, error) {
		plan, _, err := a.visiblePlan(p)
		if err != nil {
			return nil, err
		}
		return nil, a.services.HidePlan(p.tx, p.caller.actor(), plan, web.Param(r, "organization"))
	})
}
