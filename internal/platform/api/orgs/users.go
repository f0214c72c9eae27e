package orgs

import (
	"context"
	"errors"
	"net/http"
	"unicode/utf8"

	"ingot/internal/base/fault"
	"ingot/internal/base/web"
	"ingot/internal/platform"
	"ingot/internal/platform/actions"
	"ingot/internal/platform/api/listing"
	"ingot/internal/platform/api/rest"
)

// users are presented with their names from the authorization server.
func (a *API) users() rest.Resource[platform.User, userBody] {
	return rest.Resource[platform.User, userBody]{
		Noun: "User", Repo: platform.Tx.Users, Present: a.presentUsers,
		List: listing.Params{Extra: []string{"usernames", "origins"}},
	}
}

func (a *API) userRoutes(g *web.Group) {
	g.Handle(http.MethodGet, "/v3/users", rest.Read, a.listUsers)
	g.Handle(http.MethodPost, "/v3/users", rest.Admin, a.createUser)
	g.Handle(http.MethodGet, "/v3/users/{guid}", rest.Read, a.users().Getter(a.Server))
	g.Handle(http.MethodPatch, "/v3/users/{guid}", rest.Admin, rest.MetadataPatcher(a.Server, a.users(), a.users().Find))
	g.Handle(http.MethodDelete, "/v3/users/{guid}", rest.Admin,
		rest.Deleter(a.Server, "user.delete", a.users().Find, a.deleteUser))
	g.Handle(http.MethodGet, "/v3/organizations/{guid}/users", rest.Read,
		membersOf(a, Organizations, "organization_guid"))
	g.Handle(http.MethodGet, "/v3/spaces/{guid}/users", rest.Read, membersOf(a, Spaces, "space_guid"))
}

// listUsers looks up names in the directory first, because the store has none.
func (a *API) listUsers(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	var where []platform.Cond
	if q.Has("origins") && !q.Has("usernames") {
		return listing.BadQuery("Origins filter cannot be provided without usernames filter.")
	}
	if q.Has("usernames") {
		found, err := a.Directory.UsersByName(r.Context(), listing.SplitValues(q.Get("usernames")), origins(q.Get("origins")))
		if err != nil {
			return fault.Wrap(err, fault.Unavailable, "The authorization server is not available, so users cannot be looked up.")
		}
		guids := []string{}
		for _, u := range found {
			guids = append(guids, u.ID)
		}
		where = append(where, platform.InStrings("guid", guids))
	}
	return a.users().ListerWhere(a.Server, func(*rest.Request) ([]platform.Cond, error) { return where, nil })(w, r)
}

func origins(value string) []string {
	if value == "" {
		return nil
	}
	return listing.SplitValues(value)
}

// membersOf lists the users with a role in the organization or space of the
// path.
func membersOf[T, B any](a *API, place rest.Resource[T, B], field string) web.Handler {
	return a.users().ListerWhere(a.Server, func(req *rest.Request) ([]platform.Cond, error) {
		if _, err := place.Find(req); err != nil {
			return nil, err
		}
		roles, _, err := req.Tx.Roles().List(platform.Where(field, web.Param(req.HTTP, "guid")))
		return []platform.Cond{platform.InStrings("guid",
			rest.GUIDsOf(roles, func(r *platform.Role) string { return r.UserGUID }))}, err
	})
}

type userRequest struct {
	GUID     *string                `json:"guid"`
	Username *string                `json:"username"`
	Origin   *string                `json:"origin"`
	Metadata *actions.MetadataPatch `json:"metadata"`
}

// check refuses a request that names no user, or one in two ways.
func (b *userRequest) check() error {
	switch {
	case b.GUID != nil && b.Username != nil:
		return fault.Invalid("Username cannot be provided with 'guid'")
	case b.GUID != nil && b.Origin != nil:
		return fault.Invalid("Origin cannot be provided with 'guid'")
	case b.GUID != nil && (*b.GUID == "" || utf8.RuneCountInString(*b.GUID) > 200):
		return fault.Invalid("Guid must be between 1 and 200 characters")
	case b.GUID == nil && b.Username == nil && b.Origin != nil:
		return fault.Invalid("Origin can only be provided together with 'username'")
	case b.GUID == nil && (b.Username == nil || *b.Username == ""):
		return fault.Invalid("Guid or 'username' and 'origin' must be provided")
	}
	return nil
}

// originUAA is the origin of users who have a password of the authorization server.
const originUAA = "uaa"

// userOf returns the user of a request without a guid. A user of another identity
// provider is registered with the authorization server if it is unknown there: no login
// has done that yet.
func (a *API) userOf(ctx context.Context, b *userRequest) (DirectoryUser, error) {
	if b.Origin == nil || *b.Origin == "" || *b.Origin == originUAA {
		return a.directoryUser(ctx, *b.Username, b.Origin)
	}
	unavailable := func(err error) error {
		if known := (*fault.Error)(nil); errors.As(err, &known) {
			return err
		}
		return fault.Wrap(err, fault.Unavailable, "The authorization server is not available, so the user cannot be created.")
	}
	found, err := a.Directory.UsersByName(ctx, []string{*b.Username}, []string{*b.Origin})
	if err != nil {
		return DirectoryUser{}, unavailable(err)
	}
	if len(found) > 0 {
		return found[0], nil
	}
	made, err := a.Directory.CreateUser(ctx, *b.Username, *b.Origin)
	if err != nil {
		return DirectoryUser{}, unavailable(err)
	}
	return made, nil
}

func (a *API) createUser(w http.ResponseWriter, r *http.Request) error {
	var body userRequest
	if err := web.DecodeStrict(r, &body); err != nil {
		return err
	}
	if err := body.check(); err != nil {
		return err
	}
	if body.GUID == nil {
		found, err := a.userOf(r.Context(), &body)
		if err != nil {
			return err
		}
		body.GUID = &found.ID
	}
	return rest.Answer(a.Server, w, r, a.users(), http.StatusCreated, func(req *rest.Request) (*platform.User, error) {
		u := &platform.User{Resource: platform.Resource{GUID: *body.GUID}}
		if err := body.Metadata.Apply(&u.Metadata); err != nil {
			return nil, err
		}
		err := a.Platform.CreateUser(req.Tx, u)
		if body.Username != nil && fault.Is(err, fault.Unprocessable) {
			return nil, fault.Wrap(err, fault.Unprocessable, "User with username '%s' already exists.", *body.Username)
		}
		return u, err
	})
}

// deleteUser deletes the user in the platform only; the caller deletes the user of
// the authorization server.
func (a *API) deleteUser(tx platform.Tx, _ actions.Actor, u *platform.User) error {
	return a.Platform.DeleteUser(tx, u)
}

type userBody struct {
	rest.ResourceBody
	Username         *string       `json:"username"`
	PresentationName string        `json:"presentation_name"`
	Origin           *string       `json:"origin"`
	Metadata         rest.Metadata `json:"metadata"`
	Links            rest.Links    `json:"links"`
}

func (a *API) presentUsers(req *rest.Request, users []*platform.User) ([]userBody, error) {
	names := a.names(req.HTTP.Context(), rest.GUIDsOf(users, func(u *platform.User) string { return u.GUID })...)
	return rest.PresentAll(users, func(u *platform.User) userBody {
		b := userBody{
			ResourceBody: rest.PresentResource(&u.Resource), PresentationName: u.GUID,
			Metadata: rest.PresentMetadata(&u.Metadata),
			Links:    rest.Links{"self": req.Link("/users/", rest.Escape(u.GUID))},
		}
		if named, ok := names[u.GUID]; ok {
			b.Username, b.Origin, b.PresentationName = &named.UserName, &named.Origin, named.UserName
		}
		return b
	}), nil
}

// names looks up names in the directory. If it is not available, users are presented
// without names, as in Cloud Foundry.
func (a *API) names(ctx context.Context, guids ...string) map[string]DirectoryUser {
	if len(guids) == 0 {
		return nil
	}
	found, err := a.Directory.UsersByID(ctx, guids)
	if err != nil && ctx.Err() == nil {
		a.Log.WarnContext(ctx, "users are shown without names: the authorization server is not available", "error", err)
	}
	return found
}

// directoryUser returns the user of a name. Without an origin the name must be
// unique among all origins.
func (a *API) directoryUser(ctx context.Context, name string, origin *string) (DirectoryUser, error) {
	var wanted []string
	if origin != nil && *origin != "" {
		wanted = []string{*origin}
	}
	found, err := a.Directory.UsersByName(ctx, []string{name}, wanted)
	switch {
	case err != nil:
		return DirectoryUser{}, fault.Wrap(err, fault.Unavailable,
			"The authorization server is not available, so users cannot be looked up.")
	case len(found) == 0 && origin != nil && *origin != "":
		return DirectoryUser{}, fault.Invalid("No user exists with the username '" + name + "' and origin '" + *origin + "'.")
	case len(found) == 0:
		return DirectoryUser{}, fault.Invalid("No user exists with the username '" + name + "'.")
	case len(found) > 1:
		return DirectoryUser{}, fault.Invalid("Ambiguous user. User with username '" + name +
			"' exists in several origins. Specify an origin.")
	}
	return found[0], nil
}

// Directory returns the names of users. The authorization server implements it
// through its public API.
type Directory interface {
	// UsersByID returns those of ids that are known; the others are absent.
	UsersByID(ctx context.Context, ids []string) (map[string]DirectoryUser, error)
	// UsersByName returns the users of these names, of any origin unless some
	// are given.
	UsersByName(ctx context.Context, names, origins []string) ([]DirectoryUser, error)
	// CreateUser registers a user of another identity provider, who has no password
	// here. A name or origin that is not accepted is a fault.
	CreateUser(ctx context.Context, name, origin string) (DirectoryUser, error)
	// ClientExists reports whether an OAuth client has this id.
	ClientExists(ctx context.Context, id string) (bool, error)
}

// DirectoryUser is a user in the directory.
type DirectoryUser struct {
	ID       string
	UserName string
	Origin   string
}
