package api

import (
	"context"
	"net/http"

	"ingot/internal/base/fault"
	"ingot/internal/base/web"
	"ingot/internal/platform"
	"ingot/internal/platform/api/listing"
)

func (a *API) serviceSharingRoutes(g *web.Group) {
	read, write := web.Scope(readers...), web.Scope(writers...)
	const path = "/v3/service_instances/{guid}/relationships/shared_spaces"
	g.Handle(http.MethodGet, path, read, a.listSharedSpaces)
	g.Handle(http.MethodPost, path, write, a.shareServiceInstance)
	g.Handle(http.MethodGet, path+"/usage_summary", read, a.sharedUsage)
	g.Handle(http.MethodDelete, path+"/{space}", write, a.unshareServiceInstance)
}

// sharedFrom returns the service instance of the path if the caller may see its own
// space: others must not learn which other spaces it is shared with.
func (a *API) sharedFrom(req *request) (*platform.ServiceInstance, error) {
	i, err := find(req.caller, req.tx.ServiceInstances(), web.Param(req.r, "guid"), "Service instance")
	if err != nil {
		return nil, err
	}
	_, err = find(req.caller, req.tx.Spaces(), i.SpaceGUID, "Service instance")
	return i, err
}

func presentSharing(req *request, i *platform.ServiceInstance) map[string]any {
	self := "/service_instances/" + escape(i.GUID) + "/relationships/shared_spaces"
	return map[string]any{"data": toMany(i.SharedSpaces).Data, "links": links{"self": req.v3(self)}}
}

func (a *API) listSharedSpaces(w http.ResponseWriter, r *http.Request) error {
	l, err := listing.Params{Single: true, Fields: []string{"space", "space.organization"}}.Parse(r, baseURL(r))
	if err != nil {
		return err
	}
	return a.show(w, r, func(req *request) (any, error) {
		i, err := a.sharedFrom(req)
		if err != nil {
			return nil, err
		}
		out := presentSharing(req, i)
		c := &chain{req, l, map[string]any{}}
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
	return a.perform(w, r, http.StatusOK, func(req *request) (any, error) {
		i, err := a.serviceInstanceFor(req)
		if err != nil {
			return nil, err
		}
		if err := req.needFlag("service_instance_sharing"); err != nil {
			return nil, err
		}
		if err := a.services.Shareable(req.tx, i); err != nil {
			return nil, err
		}
		var targets []*platform.Space
		for _, d := range body.Data {
			space, err := a.shareTarget(req, i, d.GUID)
			if err != nil {
				return nil, err
			}
			targets = append(targets, space)
		}
		err = a.services.Share(req.tx, req.caller.actor(), i, targets)
		return presentSharing(req, i), err
	})
}

// shareTarget returns a space if the caller may share a service instance with it.
func (a *API) shareTarget(req *request, i *platform.ServiceInstance, guid string) (*platform.Space, error) {
	space, err := find(req.caller, req.tx.Spaces(), guid, "Space")
	if err != nil {
		return nil, notAccessible(err, "Unable to share service instance "+i.Name+" with spaces ['"+guid+"']. Ensure the spaces exist and that you have access to them.")
	}
	if guid == i.SpaceGUID {
		return nil, fault.New(fault.Unprocessable, "Unable to share service instance '%s' with space '%s'. Service instances cannot be shared into the space where they were created.", i.Name, guid)
	}
	_, err = req.caller.mayInSpace(req.tx, guid, platform.Develop)
	if fault.Is(err, fault.Forbidden) {
		err = fault.New(fault.Unprocessable, "Unable to share service instance %s with spaces ['%s']. Write permission is required in order to share a service instance with a space.", i.Name, guid)
	}
	return space, err
}

// unshareServiceInstance stops sharing with a space. Bindings in the space are
// deleted first, which may take brokers a while.
func (a *API) unshareServiceInstance(w http.ResponseWriter, r *http.Request) error {
	var jobs []string
	unshare := func(last bool) error {
		return a.store.Update(r.Context(), func(tx platform.Tx) error {
			req := newRequest(tx, r)
			i, err := a.serviceInstanceFor(req)
			if err != nil {
				return err
			}
			jobs, err = a.services.Unshare(tx, req.caller.actor(), i, web.Param(r, "space"), last)
			return err
		})
	}
	if err := unshare(false); err != nil {
		return err
	}
	if len(jobs) > 0 {
		ctx, cancel := context.WithTimeout(r.Context(), brokerTimeout)
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
	return a.show(w, r, func(req *request) (any, error) {
		i, err := a.sharedFrom(req)
		if err != nil {
			return nil, err
		}
		type usage struct {
			Space named `json:"space"`
			Apps  int   `json:"bound_app_count"`
		}
		out := []usage{}
		for _, guid := range i.SharedSpaces {
			bound, _, err := req.tx.ServiceBindings().List(platform.Where("instance_guid", i.GUID).And(platform.In("space_guid", guid)).And(platform.In("type", platform.BindingApp)))
			if err != nil {
				return nil, err
			}
			out = append(out, usage{named{GUID: guid}, len(guidsOf(bound, func(b *platform.ServiceBinding) string { return b.AppGUID }))})
		}
		self := "/service_instances/" + escape(i.GUID) + "/relationships/shared_spaces"
		return map[string]any{"usage_summary": out, "links": links{"self": req.v3(self, "/usage_summary"), "shared_spaces": req.v3(self), "service_instance": req.v3("/service_instances/", escape(i.GUID))}}, nil
	})
}
