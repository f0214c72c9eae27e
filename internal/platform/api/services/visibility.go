package services

import (
	"net/http"
	"slices"

	"ingot/internal/base/fault"
	"ingot/internal/base/web"
	"ingot/internal/platform"
	"ingot/internal/platform/api/rest"
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

// presentVisibility lists the organizations that the caller may see.
func presentVisibility(req *rest.Request, plan *platform.ServicePlan, b *platform.ServiceBroker) (*visibilityBody,
	error) {
	out := &visibilityBody{Type: plan.Visibility}
	switch plan.Visibility {
	case platform.VisibleOrgs:
		q := platform.Query{Where: []platform.Cond{platform.InStrings("guid", plan.Orgs)}, Reader: req.Caller.Reader()}
		orgs, _, err := req.Tx.Organizations().List(q)
		if err != nil {
			return nil, err
		}
		list := []named{}
		for _, o := range orgs {
			list = append(list, named{o.GUID, o.Name})
		}
		out.Organizations = &list
	case platform.VisibleSpace:
		s, err := req.Tx.Spaces().Get(b.SpaceGUID)
		if err != nil {
			return nil, err
		}
		out.Space = &named{s.GUID, s.Name}
	case platform.VisiblePublic, platform.VisibleAdmin:
	}
	return out, nil
}

func getVisibility(req *rest.Request, plan *platform.ServicePlan) (any, error) {
	b, err := brokerOf(req, plan)
	if err != nil {
		return nil, err
	}
	return presentVisibility(req, plan, b)
}

type visibilityRequest struct {
	Type          platform.Visibility `json:"type"`
	Organizations []named             `json:"organizations"`
}

// setVisibility replaces the visibility of a plan, or adds organizations to it.
func (a *API) setVisibility(add bool) web.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		body, err := rest.Body[visibilityRequest](r)
		if err != nil {
			return err
		}
		if !slices.Contains([]platform.Visibility{platform.VisiblePublic, platform.VisibleAdmin, platform.VisibleOrgs},
			body.Type) {
			return fault.Invalid("Type must be one of 'public', 'admin', 'organization'")
		}
		if (body.Type == platform.VisibleOrgs) != (len(body.Organizations) > 0) {
			return fault.Invalid("Organizations must be given with the type 'organization', and only then")
		}
		return a.Perform(w, r, http.StatusOK, func(req *rest.Request) (any, error) {
			plan, b, err := a.visiblePlan(req)
			if err != nil {
				return nil, err
			}
			guids := make([]string, 0, len(body.Organizations))
			for _, o := range body.Organizations {
				if _, err := rest.Find(req.Caller, req.Tx.Organizations(), o.GUID, "Organization"); err != nil {
					return nil, rest.NotAccessible(err, "Could not find Organization with guid: "+o.GUID)
				}
				guids = append(guids, o.GUID)
			}
			if add && body.Type == platform.VisibleOrgs && plan.Visibility == platform.VisibleOrgs {
				guids = append(slices.Clone(plan.Orgs), guids...)
			}
			if err := a.Services.SetVisibility(req.Tx, req.Caller.Actor(), plan, body.Type, guids); err != nil {
				return nil, err
			}
			return presentVisibility(req, plan, b)
		})
	}
}

// visiblePlan returns the plan of the path, for administrators. Plans of a broker in
// a space are visible in that space only, which cannot be changed.
func (a *API) visiblePlan(req *rest.Request) (*platform.ServicePlan, *platform.ServiceBroker, error) {
	plan, b, err := a.planFor(req)
	if err != nil {
		return nil, nil, err
	}
	if !req.Caller.Admin {
		return nil, nil, platform.Forbidden()
	}
	if b.SpaceGUID != "" {
		return nil, nil, fault.New(fault.Unprocessable, "cannot update plans with visibility type 'space'")
	}
	return plan, b, nil
}

func (a *API) hidePlan(req *rest.Request, plan *platform.ServicePlan) error {
	return a.Services.HidePlan(req.Tx, req.Caller.Actor(), plan, req.Param("organization"))
}
