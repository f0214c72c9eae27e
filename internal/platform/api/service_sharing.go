package api

import (
	"context"
	"net/http"
	"slices"

	"ingot/internal/base/fault"
	"ingot/internal/base/web"
	"ingot/internal/platform"
)

func (a *API) serviceSharingRoutes(g *web.Group) {
	read, write := web.Scope(readers...), web.Scope(writers...)
	const path = "/v3/service_instances/{guid}/relationships/shared_spaces"
	g.Handle(http.MethodGet, path, read, a.listSharedSpaces)
	g.Handle(http.MethodPost, path, write, a.shareServiceInstance)
	g.Handle(http.MethodGet, path+"/usage_summary", read, a.sharedUsage)
	g.Handle(http.MethodDelete, path+"/{space}", write, a.unshareServiceInstance)
}

// sharedFrom is the service instance of the path for those who see its own
// space: others do not learn with whom else it is shared.
func (a *API) sharedFrom(p *presenter) (*platform.ServiceInstance, error) {
	i, err := find(p.caller, p.tx.ServiceInstances(), web.Param(p.r, "guid"), "Service instance")
	if err != nil {
		return nil, err
	}
	_, err = find(p.caller, p.tx.Spaces(), i.SpaceGUID, "Service instance")
	return i, err
}

func presentSharing(p *presenter, i *platform.ServiceInstance) map[string]any {
	self := "/service_instances/" + escape(i.GUID) + "/relationships/shared_spaces"
	return map[string]any{"data": toMany(i.SharedSpaces).Data, "links": links{"self": p.v3(self)}}
}

func (a *API) listSharedSpaces(w http.ResponseWriter, r *http.Request) error {
	l, err := listing{single: true, fields: []string{"space", "space.organization"}}.parse(r)
	if err != nil {
		return err
	}
	return a.show(w, r, func(p *presenter) (any, error) {
		i, err := a.sharedFrom(p)
		if err != nil {
			return nil, err
		}
		out := presentSharing(p, i)
		c := &chain{p, l, map[string]any{}}
		if err := c.places("", i.SharedSpaces); err != nil {
			return nil, err
		}
		if more := c.done(); more != nil {
			out["included"] = more
		}
		return out, nil
	})
}

func (a *API) shareServiceInstance(w http.ResponseWriter, r *http.Request) error {
	var body relations
	if err := web.DecodeStrict(r, &body); err != nil {
		return err
	}
	if len(body.Data) == 0 {
		return fault.Invalid("Data must be a list of spaces")
	}
	return a.perform(w, r, http.StatusOK, func(p *presenter) (any, error) {
		i, err := a.serviceInstanceFor(p)
		if err != nil {
			return nil, err
		}
		if err := a.shareable(p, i); err != nil {
			return nil, err
		}
		for _, d := range body.Data {
			if err := a.shareWith(p, i, d.GUID); err != nil {
				return nil, err
			}
		}
		if err := p.tx.ServiceInstances().Update(i); err != nil {
			return nil, err
		}
		return presentSharing(p, i), a.platform.RecordInstance(p.tx, "share", p.caller.actor(), i, map[string]any{"target_space_guids": toMany(i.SharedSpaces).Data})
	})
}

func (a *API) shareable(p *presenter, i *platform.ServiceInstance) error {
	if err := a.needFlag(p, "service_instance_sharing"); err != nil {
		return err
	}
	if i.Type == platform.ServiceUserProvided {
		return fault.New(fault.Unprocessable, "User-provided services cannot be shared.")
	}
	plan, err := p.tx.ServicePlans().Get(i.PlanGUID)
	if err != nil {
		return err
	}
	o, err := p.tx.ServiceOfferings().Get(plan.OfferingGUID)
	if err == nil && !o.Shareable {
		err = fault.New(fault.Unprocessable, "The %s service does not support service instance sharing.", o.Name)
	}
	return err
}

func (a *API) shareWith(p *presenter, i *platform.ServiceInstance, guid string) error {
	space, err := find(p.caller, p.tx.Spaces(), guid, "Space")
	if err != nil {
		return notAccessible(err, "Unable to share service instance "+i.Name+" with spaces ['"+guid+"']. Ensure the spaces exist and that you have access to them.")
	}
	if guid == i.SpaceGUID {
		return fault.New(fault.Unprocessable, "Unable to share service instance '%s' with space '%s'. Service instances cannot be shared into the space where they were created.", i.Name, guid)
	}
	if _, err := p.caller.mayInSpace(p.tx, guid, platform.Develop); err != nil {
		if fault.Is(err, fault.Forbidden) {
			err = fault.New(fault.Unprocessable, "Unable to share service instance %s with spaces ['%s']. Write permission is required in order to share a service instance with a space.", i.Name, guid)
		}
		return err
	}
	if slices.Contains(i.SharedSpaces, guid) {
		return nil
	}
	usable, err := p.tx.ServicePlans().Count(platform.Where("guid", i.PlanGUID).And(platform.In("usable_in_space_guid", guid)))
	if err != nil {
		return err
	}
	if usable == 0 {
		return fault.New(fault.Unprocessable, "Access to the service plan of '%s' is not enabled in the organization of space '%s'.", i.Name, space.Name)
	}
	taken, err := p.tx.ServiceInstances().Count(platform.Where("visible_in_space_guid", guid).And(platform.In("name", i.Name)))
	if err != nil {
		return err
	}
	if taken > 0 {
		return fault.New(fault.Unprocessable, "A service instance called %s already exists in %s.", i.Name, space.Name)
	}
	i.SharedSpaces = append(i.SharedSpaces, guid)
	return nil
}

// unshareServiceInstance ends the sharing with a space. Bindings there are
// removed first, which brokers may take a while for.
func (a *API) unshareServiceInstance(w http.ResponseWriter, r *http.Request) error {
	guid := web.Param(r, "space")
	var jobs []string
	remove := func(last bool) func(tx platform.Tx) error {
		return func(tx platform.Tx) error {
			p := newPresenter(tx, r)
			jobs = nil
			i, err := a.serviceInstanceFor(p)
			if err != nil {
				return err
			}
			if !slices.Contains(i.SharedSpaces, guid) {
				return fault.New(fault.Unprocessable, "Unable to unshare service instance from space %s. Ensure the space exists and the service instance has been shared to this space.", guid)
			}
			bound, _, err := tx.ServiceBindings().List(platform.Where("instance_guid", i.GUID).And(platform.In("space_guid", guid)))
			if err != nil {
				return err
			}
			if len(bound) > 0 && last {
				return fault.New(fault.Unprocessable, "Unshare of service instance failed: %d bindings in that space are still there. Try again when their removal is done.", len(bound))
			}
			for _, b := range bound {
				job, err := a.services.Unbind(tx, p.caller.actor(), b)
				if err != nil {
					return err
				}
				jobs = append(jobs, job.GUID)
			}
			if len(bound) > 0 {
				return nil
			}
			i.SharedSpaces = slices.DeleteFunc(i.SharedSpaces, func(g string) bool { return g == guid })
			if err := tx.ServiceInstances().Update(i); err != nil {
				return err
			}
			return a.platform.RecordInstance(tx, "unshare", p.caller.actor(), i, map[string]any{"target_space_guid": guid})
		}
	}
	if err := a.store.Update(r.Context(), remove(false)); err != nil {
		return err
	}
	if len(jobs) > 0 {
		ctx, cancel := context.WithTimeout(r.Context(), brokerPatience)
		defer cancel()
		for _, j := range jobs {
			a.services.Wait(ctx, j)
		}
		if err := a.store.Update(r.Context(), remove(true)); err != nil {
			return err
		}
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (a *API) sharedUsage(w http.ResponseWriter, r *http.Request) error {
	return a.show(w, r, func(p *presenter) (any, error) {
		i, err := a.sharedFrom(p)
		if err != nil {
			return nil, err
		}
		type usage struct {
			Space named `json:"space"`
			Apps  int   `json:"bound_app_count"`
		}
		out := []usage{}
		for _, guid := range i.SharedSpaces {
			bound, _, err := p.tx.ServiceBindings().List(platform.Where("instance_guid", i.GUID).And(platform.In("space_guid", guid)).And(platform.In("type", platform.BindingApp)))
			if err != nil {
				return nil, err
			}
			out = append(out, usage{named{GUID: guid}, len(guidsOf(bound, func(b *platform.ServiceBinding) string { return b.AppGUID }))})
		}
		self := "/service_instances/" + escape(i.GUID) + "/relationships/shared_spaces"
		return map[string]any{"usage_summary": out, "links": links{"self": p.v3(self, "/usage_summary"), "shared_spaces": p.v3(self), "service_instance": p.v3("/service_instances/", escape(i.GUID))}}, nil
	})
}
