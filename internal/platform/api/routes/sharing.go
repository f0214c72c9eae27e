package routes

import (
	"net/http"
	"strings"

	"ingot/internal/base/fault"
	"ingot/internal/base/web"
	"ingot/internal/platform"
	"ingot/internal/platform/api/rest"
)

// flagRouteSharing allows routes to be shared and moved. It binds administrators too.
const flagRouteSharing = "route_sharing"

func (a *API) sharingRoutes(g *web.Group) {
	const path = "/v3/routes/{guid}/relationships/shared_spaces"
	g.Handle(http.MethodGet, path, rest.Read, rest.Viewer(a.Server, sharableRoute, presentRouteSpaces))
	g.Handle(http.MethodPost, path, rest.Write, a.shareRoute)
	g.Handle(http.MethodDelete, path+"/{space}", rest.Write, a.unshareRoute)
	g.Handle(http.MethodPatch, "/v3/routes/{guid}/relationships/space", rest.Write, a.moveRoute)
}

// sharedRoute returns the route of the path with its address, if routes may be
// shared and the caller may change it.
func (a *API) sharedRoute(req *rest.Request) (*platform.Route, string, error) {
	if err := rest.NeedEnabled(req.Tx, flagRouteSharing); err != nil {
		return nil, "", err
	}
	route, err := routeFor(req)
	if err != nil {
		return nil, "", err
	}
	d, err := req.Tx.Domains().Get(route.DomainGUID)
	if err != nil {
		return nil, "", err
	}
	return route, platform.RouteURL(route, d), nil
}

func presentRouteSpaces(req *rest.Request, route *platform.Route) (any, error) {
	return map[string]any{"data": rest.ToMany(route.SharedSpaces).Data,
		"links": rest.Links{"self": req.Link("/routes/", rest.Escape(route.GUID), "/relationships/shared_spaces")}}, nil
}

// sharableRoute returns the route of the path if routes may be shared.
func sharableRoute(req *rest.Request) (*platform.Route, error) {
	if err := rest.NeedEnabled(req.Tx, flagRouteSharing); err != nil {
		return nil, err
	}
	return Routes.Find(req)
}

func (a *API) shareRoute(w http.ResponseWriter, r *http.Request) error {
	body, err := rest.ReadRelations(r)
	if err != nil {
		return err
	}
	return a.Perform(w, r, http.StatusOK, func(req *rest.Request) (any, error) {
		route, url, err := a.sharedRoute(req)
		if err != nil {
			return nil, err
		}
		var with, unseen, unwritable []string
		for _, one := range body.Data {
			if _, err := rest.Find(req.Caller, req.Tx.Spaces(), one.GUID, "Space"); fault.Is(err, fault.NotFound) {
				unseen = append(unseen, "'"+one.GUID+"'")
				continue
			} else if err != nil {
				return nil, err
			}
			if _, err := req.Caller.MayInSpace(req.Tx, one.GUID, platform.Develop); fault.Is(err, fault.Forbidden) {
				unwritable = append(unwritable, "'"+one.GUID+"'")
			} else if err != nil {
				return nil, err
			}
			with = append(with, one.GUID)
		}
		var problems []string
		if len(unseen) > 0 {
			problems = append(problems, "Unable to share route "+url+" with spaces ["+strings.Join(unseen, ", ")+
				"]. Ensure the spaces exist and that you have access to them.")
		}
		if len(unwritable) > 0 {
			problems = append(problems, "Unable to share route "+url+" with spaces ["+strings.Join(unwritable, ", ")+
				"]. Write permission is required in order to share a route with a space and the containing organization must not "+
				"be suspended.")
		}
		if len(problems) > 0 {
			return nil, fault.Invalid(strings.Join(problems, "\n"))
		}
		if err := a.Platform.ShareRoute(req.Tx, req.Caller.Actor(), route, url, with); err != nil {
			return nil, err
		}
		return presentRouteSpaces(req, route)
	})
}

// targetSpace returns a space that a route is unshared from or moved to, or why it
// cannot be.
func targetSpace(req *rest.Request, guid string) (*platform.Space, string, error) {
	space, err := rest.Find(req.Caller, req.Tx.Spaces(), guid, "Space")
	if fault.Is(err, fault.NotFound) {
		return nil, "Ensure the space exists and that you have access to it.", nil
	}
	if err != nil {
		return nil, "", err
	}
	standing, err := req.Caller.Standing(req.Tx, space)
	switch {
	case err != nil:
		return nil, "", err
	case !standing.Grants(platform.Operate):
		return nil, "You don't have write permission for the target space.", nil
	case standing.Suspended && !standing.Admin:
		return nil, "The target organization is suspended.", nil
	}
	return space, "", nil
}

func (a *API) unshareRoute(w http.ResponseWriter, r *http.Request) error {
	guid := web.Param(r, "space")
	return a.Perform(w, r, http.StatusNoContent, func(req *rest.Request) (any, error) {
		route, url, err := a.sharedRoute(req)
		if err != nil {
			return nil, err
		}
		space, problem, err := targetSpace(req, guid)
		if err != nil {
			return nil, err
		}
		if problem != "" {
			return nil, fault.Invalid("Unable to unshare route '" + url + "' from space '" + guid + "'. " + problem)
		}
		return nil, a.Platform.UnshareRoute(req.Tx, req.Caller.Actor(), route, url, space)
	})
}

func (a *API) moveRoute(w http.ResponseWriter, r *http.Request) error {
	guid, err := rest.ReadRelation(r)
	if err != nil {
		return err
	}
	if guid == "" {
		return fault.Invalid("Data can't be null: a route always belongs to a space")
	}
	return a.Perform(w, r, http.StatusOK, func(req *rest.Request) (any, error) {
		route, url, err := a.sharedRoute(req)
		if err != nil {
			return nil, err
		}
		if _, err := req.Caller.MayInSpace(req.Tx, route.SpaceGUID, platform.Develop); err != nil {
			return nil, err
		}
		refuse := func(problem string) error {
			return fault.Invalid("Unable to transfer owner of route '" + url + "' to space '" + guid + "'. " + problem)
		}
		space, problem, err := targetSpace(req, guid)
		if err != nil {
			return nil, err
		}
		if problem != "" {
			return nil, refuse(problem)
		}
		d, err := req.Tx.Domains().Get(route.DomainGUID)
		if err != nil {
			return nil, err
		}
		if !platform.UsableIn(d, space.OrgGUID) {
			return nil, refuse("Target space does not have access to route's domain")
		}
		return map[string]string{"status": "ok"}, a.Platform.MoveRoute(req.Tx, req.Caller.Actor(), route, space)
	})
}
