package rest

import (
	"net/http"

	"ingot/internal/base/fault"
	"ingot/internal/base/token"
	"ingot/internal/base/tracing"
	"ingot/internal/base/web"
	"ingot/internal/platform"
	"ingot/internal/platform/actions"
)

// Caller is the user or client of a request.
type Caller struct {
	platform.Caller
	name, mail, kind string
	origin           tracing.Origin
}

// CallerOf returns the caller of a request.
func CallerOf(r *http.Request) Caller {
	c := token.FromContext(r.Context())
	out := Caller{Caller: platform.Caller{GUID: c.CallerID(), Authority: platform.AuthorityOf(c.Scope)}, name: c.UserName,
		mail: c.Email, kind: "user", origin: tracing.OriginOf(r.Context())}
	if !c.IsUser() {
		out.kind, out.name = "client", c.ClientID
	}
	return out
}

// Actor returns the caller for audit events.
func (c Caller) Actor() actions.Actor {
	return actions.Actor{GUID: c.GUID, Type: c.kind, Name: c.name, Mail: c.mail, Admin: c.Admin, Origin: c.origin}
}

// Find returns a resource if the caller may see it; otherwise it is not found.
func Find[T any](c Caller, repo platform.Repo[T], guid, noun string) (*T, error) {
	q := platform.Where("guid", guid)
	q.Reader = c.Reader()
	found, err := repo.First(q)
	if fault.Is(err, fault.NotFound) {
		return nil, fault.Wrap(err, fault.NotFound, "%s not found", noun)
	}
	return found, err
}

// Lookup is like Find, without checking what the caller may see.
func Lookup[T any](repo platform.Repo[T], guid, noun string) (*T, error) {
	found, err := repo.Get(guid)
	if fault.Is(err, fault.NotFound) {
		return nil, fault.Wrap(err, fault.NotFound, "%s not found", noun)
	}
	return found, err
}

// Granted reports whether the caller may do something in a space.
func (c Caller) Granted(tx platform.Tx, spaceGUID string, action platform.Action) (bool, error) {
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

// ShowsSecrets reports whether the caller may see what only developers of an app
// see, such as commands.
func (req *Request) ShowsSecrets(appGUID string) (bool, error) {
	if req.Caller.Grants(platform.ReadSecrets) {
		return true, nil
	}
	app, err := req.Tx.Apps().Get(appGUID)
	if err != nil {
		return false, IgnoreNotFound(err)
	}
	return req.Caller.Granted(req.Tx, app.SpaceGUID, platform.ReadSecrets)
}

// Standing returns what decides what the caller may do in a space.
func (c Caller) Standing(tx platform.Tx, space *platform.Space) (platform.Standing, error) {
	return actions.StandingInSpace(tx, c.Caller, space)
}

// MayInSpace returns an error if the caller may not perform the action in a space
// that it can see.
func (c Caller) MayInSpace(tx platform.Tx, spaceGUID string, action platform.Action) (*platform.Space, error) {
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

// ManagesOrg returns an error if the caller may not manage the organization.
func (c Caller) ManagesOrg(tx platform.Tx, orgGUID string) error {
	standing, err := actions.StandingInOrganization(tx, c.Caller, orgGUID)
	if err != nil {
		return err
	}
	return standing.Check(platform.ManageOrganization)
}

// App returns the app of the path if the caller may perform the action.
func (req *Request) App(action platform.Action) (*platform.App, error) {
	return req.AppNamed(web.Param(req.HTTP, "guid"), action)
}

// AppFor returns a function that returns the app of the path if the caller may perform the action.
func AppFor(action platform.Action) func(*Request) (*platform.App, error) {
	return func(req *Request) (*platform.App, error) { return req.App(action) }
}

// AppNamed is like App, by guid.
func (req *Request) AppNamed(guid string, action platform.Action) (*platform.App, error) {
	app, err := Find(req.Caller, req.Tx.Apps(), guid, "App")
	if err != nil {
		return nil, err
	}
	_, err = req.Caller.MayInSpace(req.Tx, app.SpaceGUID, action)
	return app, err
}

// OfApp returns a function that returns the resource of the path and its app if the caller may
// perform the action on the app.
func OfApp[T, B any](
	s Resource[T, B], appOf func(*T) string, action platform.Action,
) func(*Request) (*T, *platform.App, error) {
	return func(req *Request) (*T, *platform.App, error) {
		item, err := s.Find(req)
		if err != nil {
			return nil, nil, err
		}
		app, err := req.AppNamed(appOf(item), action)
		return item, app, err
	}
}

// Acted returns a function that performs an action on a resource of an app that OfApp finds.
func Acted[T any](find func(*Request) (*T, *platform.App, error),
	act func(platform.Tx, actions.Actor, *platform.App, *T) error,
) func(*Request) (*T, error) {
	return func(req *Request) (*T, error) {
		item, app, err := find(req)
		if err != nil {
			return nil, err
		}
		return item, act(req.Tx, req.Caller.Actor(), app, item)
	}
}

// Space returns the space of the path if the caller may perform the action.
func (req *Request) Space(action platform.Action) (*platform.Space, error) {
	space, err := Find(req.Caller, req.Tx.Spaces(), web.Param(req.HTTP, "guid"), "Space")
	if err != nil {
		return nil, err
	}
	return req.Caller.MayInSpace(req.Tx, space.GUID, action)
}

// InSpace returns a function that returns what find returns if the caller may perform the action in
// the space of the resource.
func InSpace[T any](find func(*Request) (*T, error), spaceOf func(*T) string, action platform.Action,
) func(*Request) (*T, error) {
	return func(req *Request) (*T, error) {
		item, err := find(req)
		if err != nil {
			return nil, err
		}
		_, err = req.Caller.MayInSpace(req.Tx, spaceOf(item), action)
		return item, err
	}
}

// SpaceFor is like AppFor, for spaces.
func SpaceFor(action platform.Action) func(*Request) (*platform.Space, error) {
	return func(req *Request) (*platform.Space, error) { return req.Space(action) }
}

// SpaceNamed returns the space of a relationship if the caller may perform the action there.
func (req *Request) SpaceNamed(guid string, action platform.Action) (*platform.Space, error) {
	if _, err := Find(req.Caller, req.Tx.Spaces(), guid, "Space"); err != nil {
		return nil, NotAccessible(err, "Invalid space. Ensure that the space exists and you have access to it.")
	}
	return req.Caller.MayInSpace(req.Tx, guid, action)
}

// NotAccessible turns the error for a related resource that the caller may not see
// into an error of the request.
func NotAccessible(err error, message string) error {
	if fault.Is(err, fault.NotFound) {
		return fault.Wrap(err, fault.Unprocessable, "%s", message)
	}
	return err
}

// IgnoreNotFound returns nil if a resource does not exist.
func IgnoreNotFound(err error) error {
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	return err
}
