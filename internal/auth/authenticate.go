package auth

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"ingot/internal/base/fault"
	"ingot/internal/base/web"
)

func unauthenticated() error {
	return fault.New(fault.Unauthenticated, "Full authentication is required to access this resource").
		WithKind("unauthorized")
}

func badClient() error {
	return fault.New(fault.Unauthenticated, "Bad credentials").WithKind("invalid_client")
}

func badUser() error {
	return fault.New(fault.Unauthenticated, "Bad credentials").WithKind("unauthorized")
}

// invalidToken returns the error for an invalid refresh token.
func invalidToken() error {
	return fault.New(fault.Unauthenticated, "The token expired, was revoked, or the token ID is incorrect.").
		WithKind("invalid_token")
}

// maxNameBytes limits unauthenticated names before they are stored in memory.
const maxNameBytes = 255

// lockedText is matched by cf, which then stops asking for the password.
const lockedText = "Your account has been locked because of too many failed attempts to login."

func oauthError(kind, format string, args ...any) error {
	return fault.New(fault.BadRequest, format, args...).WithKind(kind)
}

// credentials are the client id and secret of a request.
type credentials struct {
	id, secret string
	given      bool   // a secret was given, if only an empty one
	from       string // the address it came from
}

// clientCredentials reads HTTP Basic credentials or the form, not both.
func (s *Server) clientCredentials(r *http.Request, form url.Values) (credentials, error) {
	id, secret, basic := r.BasicAuth()
	if !basic {
		return credentials{form.Get("client_id"), form.Get("client_secret"), form.Has("client_secret"), s.from(r)}, nil
	}
	// Clients that strictly follow RFC 6749 encode both parts and say so with
	// this header; others send them raw.
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
	return credentials{id, secret, true, s.from(r)}, nil
}

// from returns the client's address, for limits.
func (s *Server) from(r *http.Request) string {
	return web.AddressKey(s.proxies.Client(r))
}

// authenticateClient authenticates a client. Public clients need no secret; the
// grant decides what they may do.
func (s *Server) authenticateClient(ctx context.Context, cred credentials) (*Client, error) {
	if cred.id == "" {
		return nil, unauthenticated()
	}
	if len(cred.id) > maxNameBytes || len(cred.secret) > maxSecretBytes {
		return nil, badClient() // before anything is stored in memory
	}
	if err := s.limits.client(cred.id, cred.from); err != nil {
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
	ok, err := s.guard.prove(ctx, clientSubject(c, cred.secret), cred.from, cred.secret)
	if err != nil {
		return nil, err
	}
	if !ok {
		s.log.InfoContext(ctx, "wrong client secret", "client", c.ID, "from", cred.from)
		return nil, badClient()
	}
	return c, nil
}

// clientSubject is a client whose secret is checked. An empty secret, as that
// of cf, does not count as a guess.
func clientSubject(c *Client, secret string) subject {
	return subject{key: "client\x00" + c.ID, exists: true, client: true, hashes: c.Secrets, open: secret == ""}
}

func userSubject(u *User) subject {
	return subject{key: userKey(u.UserName, u.Origin), exists: true, hashes: []string{u.PasswordHash}}
}

func userKey(name, origin string) string { return "user\x00" + origin + "\x00" + strings.ToLower(name) }

// authenticateUser authenticates a user by name and password. Unknown names,
// users of other origins and deactivated users get the same response in the
// same time.
func (s *Server) authenticateUser(ctx context.Context, name, password, origin, from string) (*User, error) {
	if origin == "" {
		origin = OriginUAA
	}
	if name == "" || password == "" || len(name) > maxNameBytes || len(origin) > maxNameBytes {
		return nil, badUser()
	}
	u, err := s.store.UserByName(ctx, name, origin)
	var who subject
	switch {
	case errors.Is(err, ErrNotFound) || err == nil && u.PasswordHash == "":
		// An unknown name is treated like a wrong password: with the same
		// delay, and locked after as many attempts, so that a lock does not
		// reveal which users exist.
		who = subject{key: userKey(name, origin), hashes: []string{s.decoy}}
	case err != nil:
		return nil, err
	default:
		who = userSubject(u)
	}
	ok, err := s.guard.prove(ctx, who, from, password)
	if err != nil {
		return nil, err
	}
	if !ok {
		if who.exists {
			s.log.InfoContext(ctx, "wrong password", "user", u.ID, "from", from)
		}
		return nil, badUser()
	}
	updated, err := s.store.UpdateUser(ctx, u.ID, func(u *User) error {
		if u.Active {
			u.Login.succeeded(s.now())
		}
		return nil
	})
	switch {
	case errors.Is(err, ErrNotFound):
		return nil, badUser()
	case err != nil:
		return nil, err
	// A password that was changed meanwhile is no longer valid.
	case !updated.Active || updated.PasswordHash != u.PasswordHash:
		return nil, badUser()
	}
	return updated, nil
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
