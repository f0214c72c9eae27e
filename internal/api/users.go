package api

import (
	"context"
	"net/http"
	"time"
	"unicode/utf8"

	"ingot/internal/fault"
	"ingot/internal/token"
	"ingot/internal/web"
)

// User is somebody who can have roles: a person or a client of the
// authorization server, known here by its id there.
type User struct {
	GUID    string
	Created time.Time
	Updated time.Time
}

func errUserNotFound() error { return fault.New(fault.NotFound, "User not found") }

func (a *API) createUser(w http.ResponseWriter, r *http.Request) error {
	var body struct {
		GUID string `json:"guid"`
	}
	if err := web.DecodeStrict(r, &body); err != nil {
		return err
	}
	if n := utf8.RuneCountInString(body.GUID); n < 1 || n > 200 {
		return fault.Invalid("Guid must be between 1 and 200 characters")
	}
	now := a.now().UTC()
	u := &User{GUID: body.GUID, Created: now, Updated: now}
	err := a.store.CreateUser(r.Context(), u)
	if fault.Is(err, fault.Conflict) {
		return fault.Wrap(err, fault.Unprocessable, "User with guid '%s' already exists.", u.GUID)
	}
	if err != nil {
		return err
	}
	web.WriteJSON(w, http.StatusCreated, a.presentUser(r, u))
	return nil
}

func (a *API) getUser(w http.ResponseWriter, r *http.Request) error {
	u, err := a.findUser(r)
	if err != nil {
		return err
	}
	web.WriteJSON(w, http.StatusOK, a.presentUser(r, u))
	return nil
}

// findUser returns the user of the path. One whom the caller may not see does
// not exist for him.
func (a *API) findUser(r *http.Request) (*User, error) {
	guid, claims := web.Param(r, "guid"), token.FromContext(r.Context())
	if !readsAll(claims) && callerID(claims) != guid {
		return nil, errUserNotFound()
	}
	u, err := a.store.User(r.Context(), guid)
	if fault.Is(err, fault.NotFound) {
		return nil, errUserNotFound()
	}
	return u, err
}

// deleteUser forgets the user here; the authorization server's record is the
// caller's to delete.
func (a *API) deleteUser(w http.ResponseWriter, r *http.Request) error {
	job := a.finishedJob("user.delete")
	err := a.store.DeleteUser(r.Context(), web.Param(r, "guid"), job)
	if fault.Is(err, fault.NotFound) {
		return errUserNotFound()
	}
	if err != nil {
		return err
	}
	acceptJob(w, r, job)
	return nil
}

type userBody struct {
	GUID             string           `json:"guid"`
	Created          string           `json:"created_at"`
	Updated          string           `json:"updated_at"`
	Username         *string          `json:"username"`
	PresentationName string           `json:"presentation_name"`
	Origin           *string          `json:"origin"`
	Metadata         metadata         `json:"metadata"`
	Links            map[string]*link `json:"links"`
}

func (a *API) presentUser(r *http.Request, u *User) userBody {
	b := userBody{
		GUID: u.GUID, Created: timestamp(u.Created), Updated: timestamp(u.Updated),
		PresentationName: u.GUID, Metadata: emptyMetadata(),
		Links: map[string]*link{"self": href(baseURL(r), "/v3/users/", escape(u.GUID))},
	}
	if named, ok := a.names(r.Context(), u.GUID)[u.GUID]; ok {
		b.Username, b.Origin, b.PresentationName = &named.UserName, &named.Origin, named.UserName
	}
	return b
}

// names asks the directory. While it is away users are shown without their
// names, as Cloud Foundry does: their guids are what counts.
func (a *API) names(ctx context.Context, guids ...string) map[string]DirectoryUser {
	if a.directory == nil {
		return nil
	}
	found, err := a.directory.UsersByID(ctx, guids)
	if err != nil && ctx.Err() == nil {
		a.log.WarnContext(ctx, "users are shown without names: the authorization server could not be asked", "error", err)
	}
	return found
}
