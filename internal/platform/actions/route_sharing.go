package actions

import (
	"slices"

	"ingot/internal/base/fault"
	"ingot/internal/platform"
)

// ShareRoute lets apps of more spaces be destinations of a route. url is its address.
func (p *Platform) ShareRoute(tx platform.Tx, by Actor, r *platform.Route, url string, spaces []string) error {
	for _, guid := range spaces {
		if guid == r.SpaceGUID {
			return fault.New(fault.Unprocessable,
				"Unable to share route '%s' with space '%s'. Routes cannot be shared into the space where they were created.", url,
				guid)
		}
		if !slices.Contains(r.SharedSpaces, guid) {
			r.SharedSpaces = append(r.SharedSpaces, guid)
		}
	}
	if err := p.storeRoute(tx, r); err != nil {
		return err
	}
	return p.recordRoute(tx, "audit.route.share", by, r, map[string]any{"target_space_guids": spaces})
}

// UnshareRoute stops sharing a route with a space. Apps of the space are unmapped,
// because the space may no longer receive its requests.
func (p *Platform) UnshareRoute(tx platform.Tx, by Actor, r *platform.Route, url string, s *platform.Space) error {
	if s.GUID == r.SpaceGUID {
		return fault.New(fault.Unprocessable,
			"Unable to unshare route '%s' from space '%s'. Routes cannot be removed from the space that owns them.", url, s.GUID)
	}
	if !slices.Contains(r.SharedSpaces, s.GUID) {
		return fault.New(fault.Unprocessable,
			"Unable to unshare route '%s' from space '%s'. The route is not shared with this space.", url, s.GUID)
	}
	if err := p.unmapSpace(tx, by, r, s.GUID); err != nil {
		return err
	}
	r.SharedSpaces = slices.DeleteFunc(r.SharedSpaces, func(g string) bool { return g == s.GUID })
	if err := p.storeRoute(tx, r); err != nil {
		return err
	}
	return p.recordRoute(tx, "audit.route.unshare", by, r, map[string]any{"target_space_guid": s.GUID})
}

// unmapSpace removes the destinations of a route that are apps of a space.
func (p *Platform) unmapSpace(tx platform.Tx, by Actor, r *platform.Route, spaceGUID string) error {
	mapped, _, err := tx.Destinations().List(platform.Where("route_guid", r.GUID))
	if err != nil {
		return err
	}
	for _, d := range mapped {
		app, err := tx.Apps().Get(d.AppGUID)
		if err != nil {
			return err
		}
		if app.SpaceGUID != spaceGUID {
			continue
		}
		if err := p.RemoveDestination(tx, by, r, d); err != nil {
			return err
		}
	}
	return nil
}

// MoveRoute makes a space the owner of a route. The previous owner keeps it as a
// shared one, so that its apps stay mapped.
func (p *Platform) MoveRoute(tx platform.Tx, by Actor, r *platform.Route, s *platform.Space) error {
	before := r.SpaceGUID
	if before == s.GUID {
		return nil
	}
	r.SpaceGUID = s.GUID
	r.SharedSpaces = append(slices.DeleteFunc(r.SharedSpaces, func(g string) bool { return g == s.GUID }), before)
	if err := p.storeRoute(tx, r); err != nil {
		return err
	}
	if err := p.routeFits(tx, r); err != nil {
		return err
	}
	return p.recordRoute(tx, "audit.route.transfer-owner", by, r, map[string]any{"original_space_guid": before,
		"target_space_guid": s.GUID})
}

func (p *Platform) storeRoute(tx platform.Tx, r *platform.Route) error {
	announceRoute(tx, r.GUID)
	return tx.Routes().Update(r)
}

func (p *Platform) recordRoute(tx platform.Tx, kind string, by Actor, r *platform.Route, data map[string]any) error {
	target, err := routeTarget(tx, r)
	if err != nil {
		return err
	}
	return p.Record(tx, kind, by, target, data)
}

// forgetRoutes takes a space that is deleted from the routes shared with it.
func (p *Platform) forgetRoutes(tx platform.Tx, spaceGUID string) error {
	shared, _, err := tx.Routes().List(platform.Where("shared_space_guid", spaceGUID))
	for i := 0; i < len(shared) && err == nil; i++ {
		shared[i].SharedSpaces = slices.DeleteFunc(shared[i].SharedSpaces, func(g string) bool { return g == spaceGUID })
		err = p.storeRoute(tx, shared[i])
	}
	return err
}
