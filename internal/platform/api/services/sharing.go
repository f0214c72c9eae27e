package services

import (
	"context"
	"net/http"

	"ingot/internal/base/fault"
	"ingot/internal/base/web"
	"ingot/internal/platform"
	"ingot/internal/platform/api/listing"
	"ingot/internal/platform/api/rest"
)

func (a *API) sharingRoutes(g *web.Group) {
	const path = "/v3/service_instances/{guid}/relationships/shared_spaces"
	g.Handle(http.MethodGet, path, rest.Read, a.listSharedSpaces)
	g.Handle(http.MethodPost, path, rest.Write, rest.Changer(a.Server,
		rest.RelationsOr("Data must be a list of spaces"), serviceInstanceFor, a.shareServiceInstance))
	g.Handle(http.MethodGet, path+"/usage_summary", rest.Read, rest.Viewer(a.Server, a.sharedFrom, sharedUsage))
	g.Handle(http.MethodDelete, path+"/{space}", rest.Write, a.unshareServiceInstance)
}

// sharedFrom returns the service instance of the path if the caller may see its own
// space: others must not learn which other spaces it is shared with.
func (a *API) sharedFrom(req *rest.Request) (*platform.ServiceInstance, error) {
	i, err := serviceInstances.Find(req)
	if err != nil {
		return nil, err
	}
	_, err = rest.Find(req.Caller, req.Tx.Spaces(), i.SpaceGUID, "Service instance")
	return i, err
}

func presentSharing(req *rest.Request, i *platform.ServiceInstance) map[string]any {
	self := "/service_instances/" + rest.Escape(i.GUID) + "/relationships/shared_spaces"
	return map[string]any{"data": rest.ToMany(i.SharedSpaces).Data, "links": rest.Links{"self": req.Link(self)}}
}

func (a *API) listSharedSpaces(w http.ResponseWriter, r *http.Request) error {
	l, err := listing.Params{Single: true, Fields: []string{"space", "space.organization"}}.Parse(r, rest.BaseURL(r))
	if err != nil {
		return err
	}
	return a.Show(w, r, func(req *rest.Request) (any, error) {
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

func (a *API) shareServiceInstance(
	req *rest.Request, i *platform.ServiceInstance, body *rest.Relations,
) (any, error) {
	if err := req.NeedFlag("service_instance_sharing"); err != nil {
		return nil, err
	}
	if err := a.Services.Shareable(req.Tx, i); err != nil {
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
	err := a.Services.Share(req.Tx, req.Caller.Actor(), i, targets)
	return presentSharing(req, i), err
}

// shareTarget returns a space if the caller may share a service instance with it.
func (a *API) shareTarget(req *rest.Request, i *platform.ServiceInstance, guid string) (*platform.Space, error) {
	space, err := rest.Find(req.Caller, req.Tx.Spaces(), guid, "Space")
	if err != nil {
		return nil, rest.NotAccessible(err, "Unable to share service instance "+i.Name+" with spaces ['"+guid+
			"']. Ensure the spaces exist and that you have access to them.")
	}
	if guid == i.SpaceGUID {
		return nil, fault.New(fault.Unprocessable,
			"Unable to share service instance '%s' with space '%s'. Service instances cannot be shared into the space where "+
				"they were created.", i.Name, guid)
	}
	_, err = req.Caller.MayInSpace(req.Tx, guid, platform.Develop)
	if fault.Is(err, fault.Forbidden) {
		err = fault.New(fault.Unprocessable,
			"Unable to share service instance %s with spaces ['%s']. Write permission is required in order to share a service "+
				"instance with a space.", i.Name, guid)
	}
	return space, err
}

// unshareServiceInstance stops sharing with a space. Bindings in the space are
// deleted first, which may take brokers a while.
func (a *API) unshareServiceInstance(w http.ResponseWriter, r *http.Request) error {
	unshare := func(last bool) ([]string, error) {
		return rest.Update(a.Server, r, func(req *rest.Request) ([]string, error) {
			i, err := serviceInstanceFor(req)
			if err != nil {
				return nil, err
			}
			return a.Services.Unshare(req.Tx, req.Caller.Actor(), i, req.Param("space"), last)
		})
	}
	jobs, err := unshare(false)
	if err == nil && len(jobs) > 0 {
		ctx, cancel := context.WithTimeout(r.Context(), brokerTimeout)
		defer cancel()
		for _, j := range jobs {
			a.Services.Wait(ctx, j)
		}
		_, err = unshare(true)
	}
	return web.Answer(w, http.StatusNoContent, nil, err)
}

func sharedUsage(req *rest.Request, i *platform.ServiceInstance) (any, error) {
	type usage struct {
		Space named `json:"space"`
		Apps  int   `json:"bound_app_count"`
	}
	out := []usage{}
	for _, guid := range i.SharedSpaces {
		bound, _, err := req.Tx.ServiceBindings().List(platform.Where("instance_guid", i.GUID).
			And(platform.In("space_guid", guid)).And(platform.In("type", platform.BindingApp)))
		if err != nil {
			return nil, err
		}
		out = append(out, usage{named{GUID: guid},
			len(rest.GUIDsOf(bound, func(b *platform.ServiceBinding) string { return b.AppGUID }))})
	}
	self := "/service_instances/" + rest.Escape(i.GUID) + "/relationships/shared_spaces"
	return map[string]any{"usage_summary": out, "links": rest.Links{"self": req.Link(self, "/usage_summary"),
		"shared_spaces": req.Link(self), "service_instance": req.Link("/service_instances/", rest.Escape(i.GUID))}}, nil
}
