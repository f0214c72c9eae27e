package auth

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"ingot/internal/base/fault"
	"ingot/internal/base/web"
)

// codeValidity is how long a one-time code can be used.
const codeValidity = 5 * time.Minute

// authorization is a validated request for a code.
type authorization struct {
	client   *Client
	redirect string // the URL to redirect the browser to
	asked    string // redirect_uri as given, for the comparison at the token endpoint
	state    string
	scopes   []string
	pkce     string
	nonce    string
}

// getAuthorize is GET /oauth/authorize: the first half of the code flow. A user
// authenticates with the session of the login page, or with an access token
// (which is how cf gets the one-time code for ssh).
func (s *Server) getAuthorize(w http.ResponseWriter, r *http.Request) error {
	ctx := r.Context()
	w.Header().Set("Cache-Control", "no-store")
	a, err := s.parseAuthorize(ctx, r)
	if err != nil {
		// Never redirect without a valid client and redirect URI.
		return err
	}
	if err := a.check(r.URL.Query()); err != nil {
		a.refuse(w, r, err)
		return nil
	}
	who, err := s.whoIs(r)
	if err != nil {
		return err
	}
	if who == nil {
		if r.URL.Query().Get("prompt") == "none" {
			a.refuse(w, r, oauthError("login_required", "The user is not logged in"))
			return nil
		}
		http.Redirect(w, r, "/login?return_to="+url.QueryEscape(r.URL.RequestURI()), http.StatusFound)
		return nil
	}
	code, err := s.newCode(ctx, a, who)
	if fault.CodeOf(err) == fault.BadRequest {
		a.refuse(w, r, err)
		return nil
	}
	if err != nil {
		return err
	}
	http.Redirect(w, r, a.location("code", //nolint:gosec // to an address registered for the client, compared exactly
		code), http.StatusFound)
	return nil
}

// parseAuthorize validates the client and the redirect URI.
func (s *Server) parseAuthorize(ctx context.Context, r *http.Request) (*authorization, error) {
	q := r.URL.Query()
	c, err := s.store.Client(ctx, q.Get("client_id"))
	if errors.Is(err, ErrNotFound) {
		return nil, oauthError("invalid_client", "Client %q does not exist", q.Get("client_id"))
	}
	if err != nil {
		return nil, err
	}
	if !c.Allows(GrantAuthorizationCode) {
		return nil, oauthError("unauthorized_client", "The client %s may not use authorization codes", c.ID)
	}
	a := &authorization{
		client: c, asked: q.Get("redirect_uri"), state: q.Get("state"), scopes: strings.Fields(q.Get("scope")),
		nonce: q.Get("nonce"),
	}
	switch {
	case a.asked == "" && len(c.RedirectURIs) == 1:
		a.redirect = c.RedirectURIs[0]
	case slices.Contains(c.RedirectURIs, a.asked), s.ownRedirect(r, c, a.asked):
		a.redirect = a.asked
	default:
		return nil, oauthError("invalid_request", "Invalid redirect %s did not match one of the registered values", a.asked)
	}
	return a, nil
}

// ownRedirect reports whether a redirect URI is a path of this server that is registered for
// the client, at the address under which the browser reached it. This server may have many
// names.
func (s *Server) ownRedirect(r *http.Request, c *Client, asked string) bool {
	path, ok := strings.CutPrefix(asked, s.requestBase(r))
	return ok && strings.HasPrefix(path, "/") && slices.Contains(c.RedirectURIs, path)
}

// check validates the rest of the request once the client is known.
func (a *authorization) check(q url.Values) error {
	if q.Get("response_type") != "code" {
		return oauthError("unsupported_response_type", "Only response_type=code is supported")
	}
	a.pkce = q.Get("code_challenge")
	method := q.Get("code_challenge_method")
	switch {
	case a.pkce == "" && a.client.Public:
		return oauthError("invalid_request", "A public client must use PKCE: code_challenge is missing")
	case a.pkce != "" && method != "S256":
		return oauthError("invalid_request", "code_challenge_method must be S256")
	case a.pkce != "" && len(a.pkce) != 43:
		return oauthError("invalid_request", "code_challenge is not a SHA-256 in base64url")
	}
	return nil
}

func (a *authorization) location(key, value string) string {
	u, err := url.Parse(a.redirect)
	if err != nil {
		return a.redirect
	}
	q := u.Query()
	q.Set(key, value)
	if a.state != "" {
		q.Set("state", a.state)
	}
	u.RawQuery = q.Encode()
	return u.String()
}

// refuse redirects the browser to the client with an error.
func (a *authorization) refuse(w http.ResponseWriter, r *http.Request, err error) {
	var e *fault.Error
	kind, text := "server_error", "The authorization server failed"
	if errors.As(err, &e) {
		kind, text = e.Kind, e.Message
	}
	to := a.location("error", kind)
	http.Redirect(w, r, to+ //nolint:gosec // to an address registered for the client, compared exactly
		"&error_description="+url.QueryEscape(text), http.StatusFound)
}

// principal is the authenticated user of a request.
type principal struct {
	user     *User
	authTime time.Time
	// scopes limits what may be granted to those of the token; nil means that
	// the user logged in interactively and has all its scopes.
	scopes []string
}

// whoIs returns the authenticated user, or nil.
func (s *Server) whoIs(r *http.Request) (*principal, error) {
	ctx := r.Context()
	if raw, ok := web.BearerToken(r); ok {
		claims, err := s.verifier.Verify(ctx, raw)
		if err != nil {
			return nil, err
		}
		if !claims.IsUser() {
			return nil, web.Insufficient("uaa.user")
		}
		u, err := s.activeUser(ctx, claims.UserID)
		if err != nil {
			return nil, err
		}
		return &principal{u, time.Unix(claims.AuthTime, 0), claims.Scope}, nil
	}
	session, err := s.session(r)
	if err != nil || session == nil {
		return nil, err
	}
	u, err := s.activeUser(ctx, session.UserID)
	if fault.Is(err, fault.Unauthenticated) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &principal{u, session.AuthTime, nil}, nil
}

// newCode stores and returns a one-time code. There is no consent page, so only
// clients with preapproved scopes get one.
func (s *Server) newCode(ctx context.Context, a *authorization, who *principal) (string, error) {
	names, err := s.groupNames(ctx, who.user.ID)
	if err != nil {
		return "", err
	}
	if who.scopes != nil {
		names = slices.DeleteFunc(names, func(n string) bool { return !slices.Contains(who.scopes, n) })
	}
	scopes, err := userScopes(a.client, names, a.scopes)
	if err != nil {
		return "", err
	}
	for _, scope := range scopes {
		if !slices.Contains(a.client.AutoApprove, "true") && !grantable(a.client.AutoApprove, scope) {
			return "", oauthError("access_denied", "The client %s is not approved for the scope %s (see its autoapprove)",
				a.client.ID, scope)
		}
	}
	text := randomText(32)
	return text, s.store.SaveCode(ctx, &Code{
		Hash: fingerprint(text), Kind: CodeAuthorization, ClientID: a.client.ID, UserID: who.user.ID, Scopes: scopes,
		RedirectURI: a.asked, Challenge: a.pkce, Nonce: a.nonce, AuthTime: who.authTime,
		Expires: s.now().Add(codeValidity), Family: newID(),
	})
}
