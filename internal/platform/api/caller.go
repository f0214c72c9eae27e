package api

import (
	"net/http"

	"ingot/internal/base/fault"
	"ingot/internal/base/token"
	"ingot/internal/base/tracing"
	"ingot/internal/base/web"
	"ingot/internal/platform"
	"ingot/internal/platform/actions"
)

// caller is the user or client of a request.
type caller struct {
	platform.Caller
	name, mail, kind string
	origin           tracing.Origin
}

func callerOf(r *http.Request) caller {
	c := token.FromContext(r.Context())
	out := caller{Caller: platform.Caller{GUID: c.CallerID(), Authority: platform.AuthorityOf(c.Scope)}, name: c.UserName, mail: c.Email, kind: "user", origin: tracing.OriginOf(r.Context())}
	if !c.IsUser() {
		out.kind, out.name = "client", c.ClientID
	}
	return out
}

// actor returns the caller for audit events.
func (c caller) actor() actions.Actor {
	return actions.Actor{GUID: c.GUID, Type: c.kind, Name: c.name, Mail: c.mail, Admin: c.Admin, Origin: c.origin}
}

// find returns a resource if the caller may see it; otherwise it is not found.
func find[T any](c caller, repo platform.Repo[T], guid, noun string) (*T, error) {
	q := platform.Where("guid", guid)
	q.Reader = c.Reader()
	found, err := repo.First(q)
	if fault.Is(err, fault.NotFound) {
		return nil, fault.Wrap(err, fault.NotFound, "%s not found", noun)
	}
	return found, err
}

// lookup is like find, without checking what the caller may see.
func lookup[T any](repo platform.Repo[T], guid, noun string) (*T, error) {
	found, err := repo.Get(guid)
	if fault.Is(err, fault.NotFound) {
		return nil, fault.Wrap(err, fault.NotFound, "%s not found", noun)
	}
	return found, err
}

// granted reports whether the caller may do something in a space.
func (c caller) granted(tx platform.Tx, spaceGUID string, action platform.Action) (bool, error) {
	if c.Grants(action) {
		return true, nil
	}
	space, err := tx.Spaces().Get(spaceGUID)
	if err != nil {
		return false, err
	}
	standing, err := actions.StandingInSpace(tx, c.Caller, space)
	return err == nil && standing.Check(action) == nil, err
}

// showsSecrets reports whether the caller may see what only developers of an app
// see, such as commands.
func (req *request) showsSecrets(appGUID string) (bool, error) {
	if req.caller.Grants(platform.ReadSecrets) {
		return true, nil
	}
	app, err := req.tx.Apps().Get(appGUID)
	if err != nil {
		return false, ignoreNotFound(err)
	}
	return req.caller.granted(req.tx, app.SpaceGUID, platform.ReadSecrets)
}

// standing returns what decides what the caller may do in a space.
func (c caller) standing(tx platform.Tx, space *platform.Space) (platform.Standing, error) {
	return actions.StandingInSpace(tx, c.Caller, space)
}

// mayInSpace returns an error if the caller may not perform the action in a space
// that it can see.
func (c caller) mayInSpace(tx platform.Tx, spaceGUID string, action platform.Action) (*platform.Space, error) {
	space, err := tx.Spaces().Get(spaceGUID)
	if err != nil {
		return nil, err
	}
	standing, err := actions.StandingInSpace(tx, c.Caller, space)
	if err != nil {
		return nil, err
	}
	return space, standing.Check(action)
}

// managesOrg returns an error if the caller may not manage the organization.
func (c caller) managesOrg(tx platform.Tx, orgGUID string) error {
	standing, err := actions.StandingInOrganization(tx, c.Caller, orgGUID)
	if err != nil {
		return err
	}
	return standing.Check(platform.ManageOrganization)
}

// app returns the app of the path if the caller may perform the action.
func (req *request) app(action platform.Action) (*platform.App, error) {
	return req.appNamed(web.Param(req.r, "guid"), action)
}

// appNamed is like app, by guid.
func (req *request) appNamed(guid string, action platform.Action) (*platform.App, error) {
	app, err := find(req.caller, req.tx.Apps(), guid, "App")
	if err != nil {
		return nil, err
	}
	_, err = req.caller.mayInSpace(req.tx, app.SpaceGUID, action)
	return app, err
}

// space returns the space of the path if the caller may perform the action.
func (req *request) space(action platform.Action) (*platform.Space, error) {
	space, err := find(req.caller, req.tx.Spaces(), web.Param(req.r, "guid"), "Space")
	if err != nil {
		return nil, err
	}
	return req.caller.mayInSpace(req.tx, space.GUID, action)
}

// notAccessible turns the error for a related resource that the caller may not see
// into an error of the request.
func notAccessible(err error, message string) error {
	if fault.Is(err, fault.NotFound) {
		return fault.Wrap(err, fault.Unprocessable, "%s", message)
	}
	return err
}

// ignoreNotFound returns nil if a resource does not exist.
func ignoreNotFound(err error) error {
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	return err
}
