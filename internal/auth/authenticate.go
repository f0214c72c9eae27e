package auth

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"ingot/internal/fault"
)

func unauthenticated() error {
	return fault.New(fault.Unauthenticated, "Full authentication is required to access this resource").WithKind("unauthorized")
}

func badClient() error {
	return fault.New(fault.Unauthenticated, "Bad credentials").WithKind("invalid_client")
}

func badUser() error {
	return fault.New(fault.Unauthenticated, "Bad credentials").WithKind("unauthorized")
}

// goneToken refuses a refresh token.
func goneToken() error {
	return fault.New(fault.Unauthenticated, "The token expired, was revoked, or the token ID is incorrect.").WithKind("invalid_token")
}

// maxNameBytes bounds names that strangers send, before we remember them.
const maxNameBytes = 255

// lockedText is compared by cf, which then stops asking for the password.
const lockedText = "Your account has been locked because of too many failed attempts to login."

func oauthError(kind, format string, args ...any) error {
	return fault.New(fault.BadRequest, format, args...).WithKind(kind)
}

// credentials are a client's id and secret as a request gave them.
type credentials struct {
	id, secret string
	given      bool // a secret was given, if only an empty one
}

// clientCredentials reads HTTP Basic or the form, not both.
func clientCredentials(r *http.Request, form url.Values) (credentials, error) {
	id, secret, basic := r.BasicAuth()
	if !basic {
		return credentials{form.Get("client_id"), form.Get("client_secret"), form.Has("client_secret")}, nil
	}
	// Clients that follow RFC 6749 to the letter encode both parts and say so
	// by this header; others send them raw.
	if strings.EqualFold(r.Header.Get("X-CF-ENCODED-CREDENTIALS"), "true") {
		var err1, err2 error
		id, err1 = url.QueryUnescape(id)
		secret, err2 = url.QueryUnescape(secret)
		if err1 != nil || err2 != nil {
			return credentials{}, badClient()
		}
	}
	if inForm := form.Get("client_id"); inForm != "" && inForm != id {
		return credentials{}, oauthError("invalid_request", "client_id in the form and in the Authorization header differ")
	}
	return credentials{id, secret, true}, nil
}

// authenticateClient proves a client. Public clients need no secret; what
// they may do is for the grant to say.
func (s *Server) authenticateClient(ctx context.Context, cred credentials) (*Client, error) {
	if cred.id == "" {
		return nil, unauthenticated()
	}
	if len(cred.id) > maxNameBytes || len(cred.secret) > maxSecretBytes {
		return nil, badClient() // before anything is remembered of it
	}
	if err := s.limits.client(cred.id); err != nil {
		return nil, err
	}
	c, err := s.store.Client(ctx, cred.id)
	if errors.Is(err, ErrNotFound) {
		return nil, badClient()
	}
	if err != nil {
		return nil, err
	}
	if c.Public && !cred.given {
		return c, nil
	}
	for _, hash := range c.Secrets {
		if s.remembered.knows(hash, cred.secret) {
			return c, nil
		}
	}
	if err := s.limits.guess(c.ID); err != nil {
		return nil, err
	}
	for _, hash := range c.Secrets {
		ok, err := s.hash.matches(ctx, hash, cred.secret)
		if err != nil {
			return nil, err
		}
		if ok {
			s.remembered.add(hash, cred.secret)
			return c, nil
		}
	}
	s.log.InfoContext(ctx, "wrong client secret", "client", c.ID)
	return nil, badClient()
}

// authenticateUser proves a user by name and password. Unknown names, users of
// other origins and deactivated users answer alike and as slowly.
func (s *Server) authenticateUser(ctx context.Context, name, password, origin string) (*User, error) {
	if origin == "" {
		origin = OriginUAA
	}
	if name == "" || password == "" || len(name) > maxNameBytes || len(origin) > maxNameBytes {
		return nil, badUser()
	}
	if err := s.limits.user(name); err != nil {
		return nil, err
	}
	u, err := s.store.UserByName(ctx, name, origin)
	if errors.Is(err, ErrNotFound) || err == nil && u.PasswordHash == "" {
		return nil, s.refuseStranger(ctx, name, password)
	}
	if err != nil {
		return nil, err
	}
	if u.Login.locked(s.now()) {
		return nil, fault.New(fault.Unauthenticated, lockedText).WithKind("unauthorized")
	}
	ok, err := s.hash.matches(ctx, u.PasswordHash, password)
	if err != nil {
		return nil, err
	}
	updated, err := s.store.UpdateUser(ctx, u.ID, func(u *User) error {
		if ok && u.Active {
			u.Login.succeeded(s.now())
		} else if !ok {
			u.Login.failed(s.now())
		}
		return nil
	})
	switch {
	case errors.Is(err, ErrNotFound):
		return nil, badUser()
	case err != nil:
		return nil, err
	case !ok:
		s.log.InfoContext(ctx, "wrong password", "user", u.ID, "failures", updated.Login.Failures)
		return nil, badUser()
	case !updated.Active:
		return nil, badUser()
	}
	return updated, nil
}

// refuseStranger answers for a name that nobody has just as for one with a
// wrong password: as slowly, and locked after as many tries.
func (s *Server) refuseStranger(ctx context.Context, name, password string) error {
	key := strings.ToLower(name)
	state, _ := s.strangers.GetIfPresent(key)
	if state.locked(s.now()) {
		return fault.New(fault.Unauthenticated, lockedText).WithKind("unauthorized")
	}
	if _, err := s.hash.matches(ctx, s.decoy, password); err != nil {
		return err
	}
	state.failed(s.now())
	s.strangers.Set(key, state)
	return badUser()
}

// groupNames returns all scopes a user has, defaults included.
func (s *Server) groupNames(ctx context.Context, userID string) ([]string, error) {
	groups, err := s.store.GroupsOf(ctx, userID)
	if err != nil {
		return nil, err
	}
	names := append([]string{}, defaultGroups...)
	for _, g := range groups {
		names = append(names, g.Name)
	}
	return unique(names), nil
}
