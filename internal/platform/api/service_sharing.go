package api

import (
	"context"
	"net/http"

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
		if err := a.needFlag(p, "service_instance_sharing"); err != nil {
			return nil, err
		}
		if err := a.services.Shareable(p.tx, i); err != nil {
			return nil, err
		}
		var targets []*platform.Space
		for _, d := range body.Data {
			space, err := a.shareTarget(p, i, d.GUID)
			if err != nil {
				return nil, err
			}
			targets = append(targets, space)
		}
		err = a.services.Share(p.tx, p.caller.actor(), i, targets)
		return presentSharing(p, i), err
	})
}

// shareTarget is a space that the caller may share a service instance with.
func (a *API) shareTarget(p *presenter, i *platform.ServiceInstance, guid string) (*platform.Space, error) {
	space, err := find(p.caller, p.tx.Spaces(), guid, "Space")
	if err != nil {
		return nil, notAccessible(err, "Unable to share service instance "+i.Name+" with spaces ['"+guid+"']. Ensure the spaces exist and that you have access to them.")
	}
	if guid == i.SpaceGUID {
		return nil, fault.New(fault.Unprocessable, "Unable to share service instance '%s' with space '%s'. Service instances cannot be shared into the space where they were created.", i.Name, guid)
	}
	_, err = p.caller.mayInSpace(p.tx, guid, platform.Develop)
	if fault.Is(err, fault.Forbidden) {
		err = fault.New(fault.Unprocessable, "Unable to share service instance %s with spaces ['%s']. Write permission is required in order to share a service instance with a space.", i.Name, guid)
	}
	return space, err
}

// unshareServiceInstance ends the sharing with a space. Bindings there are
// removed first, which brokers may take a while for.
func (a *API) unshareServiceInstance(w http.ResponseWriter, r *http.Request) error {
	var jobs []string
	unshare := func(last bool) error {
		return a.store.Update(r.Context(), func(tx platform.Tx) error {
			p := newPresenter(tx, r)
			i, err := a.serviceInstanceFor(p)
			if err != nil {
				return err
			}
			jobs, err = a.services.Unshare(tx, p.caller.actor(), i, web.Param(r, "space"), last)
			return err
		})
	}
	if err := unshare(false); err != nil {
		return err
	}
	if len(jobs) > 0 {
		ctx, cancel := context.WithTimeout(r.Context(), brokerPatience)
		defer cancel()
		for _, j := range jobs {
			a.services.Wait(ctx, j)
		}
		if err := unshare(true); err != nil {
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
