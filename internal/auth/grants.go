package auth

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"ingot/internal/base/fault"
	"ingot/internal/base/web"
)

// postToken is POST /oauth/token.
func (s *Server) postToken(w http.ResponseWriter, r *http.Request) error {
	// RFC 6749, 5.1: tokens are never cached.
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Pragma", "no-cache")
	form, err := postForm(r)
	if err != nil {
		return err
	}
	cred, err := s.clientCredentials(r, form)
	if err != nil {
		return err
	}
	c, err := s.authenticateClient(r.Context(), cred)
	if err != nil {
		return err
	}
	res, err := s.grant(r.Context(), c, cred, form, loginHint(r, form))
	if err != nil {
		return err
	}
	return web.Answer(w, http.StatusOK, res, nil)
}

// postForm reads a form body. Query parameters are ignored, because they end up
// in logs. RFC 6749 forbids repeated parameters.
func postForm(r *http.Request) (url.Values, error) {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != "application/x-www-form-urlencoded" {
		return nil, oauthError("invalid_request", "The body must be a form (application/x-www-form-urlencoded)")
	}
	if err := r.ParseForm(); err != nil {
		var tooLarge *http.MaxBytesError
		if errors.As(err, &tooLarge) {
			return nil, err
		}
		return nil, oauthError("invalid_request", "Invalid form")
	}
	for name, values := range r.PostForm {
		if len(values) > 1 {
			return nil, oauthError("invalid_request", "The parameter %q is given more than once", name)
		}
	}
	return r.PostForm, nil
}

// loginHint returns the identity provider that the client requests: cf
// --origin.
func loginHint(r *http.Request, form url.Values) string {
	hint := r.URL.Query().Get("login_hint")
	if hint == "" {
		hint = form.Get("login_hint")
	}
	var v struct {
		Origin string `json:"origin"`
	}
	_ = json.Unmarshal([]byte(hint), &v)
	return v.Origin
}

func (s *Server) grant(ctx context.Context, c *Client, cred credentials, form url.Values,
	origin string) (*tokenResponse, error) {
	kind := form.Get("grant_type")
	if !slices.Contains(knownGrants, kind) {
		if kind == "" {
			return nil, oauthError("invalid_request", "Missing grant type")
		}
		return nil, oauthError("unsupported_grant_type", "Unsupported grant type: %s", kind)
	}
	if !c.Allows(kind) {
		return nil, fault.New(fault.Unauthenticated, "Unauthorized grant type: %s", kind).WithKind("unauthorized_client")
	}
	proven := cred.given || !c.Public
	requested := strings.Fields(form.Get("scope"))
	switch kind {
	case GrantClientCredentials:
		if !proven {
			return nil, badClient()
		}
		scopes, err := clientScopes(c, requested)
		if err != nil {
			return nil, err
		}
		return s.mintClient(c, scopes)
	case GrantPassword:
		return s.grantPassword(ctx, c, form, origin, requested, cred.from)
	case GrantRefreshToken:
		return s.grantRefresh(ctx, c, form.Get("refresh_token"), requested, cred.from)
	case GrantAuthorizationCode:
		return s.grantCode(ctx, c, form, proven)
	default:
		return s.grantAssertion(ctx, c, form.Get("assertion"), requested)
	}
}

// grantPassword implements the password grant and UAA's passcodes, which use
// the same grant.
func (s *Server) grantPassword(ctx context.Context, c *Client, form url.Values, origin string, requested []string,
	from string) (*tokenResponse, error) {
	if form.Has("passcode") {
		return s.grantPasscode(ctx, c, form.Get("passcode"), requested, from)
	}
	if !s.passwordGrant {
		return nil, oauthError("unsupported_grant_type",
			"The password grant is disabled on this server. Use `cf login --sso`.")
	}
	u, err := s.authenticateUser(ctx, form.Get("username"), form.Get("password"), origin, from)
	if err != nil {
		return nil, err
	}
	return s.loginAs(ctx, login{user: u, client: c, grant: GrantPassword, authTime: s.revoked.issueTime(u.ID, c.ID)},
		requested)
}

// grantPasscode redeems a passcode. Passcodes are random and long, so guesses
// are limited by address alone: an attacker cannot lock out users.
func (s *Server) grantPasscode(ctx context.Context, c *Client, passcode string, requested []string,
	from string) (*tokenResponse, error) {
	right, err := s.guard.takeCodeAttempt(from)
	if err != nil {
		return nil, err
	}
	code, err := s.takeCode(ctx, passcode, CodePasscode)
	if err != nil && !errors.Is(err, ErrNotFound) {
		right()
		return nil, err
	}
	if err != nil || !code.Used.IsZero() || s.revoked.code(code) {
		return nil, fault.New(fault.Unauthenticated, "Invalid passcode").WithKind("unauthorized")
	}
	right()
	u, err := s.activeUser(ctx, code.UserID)
	if err != nil {
		return nil, err
	}
	s.guard.proved(userSubject(u), from)
	l := login{user: u, client: c, grant: GrantPassword, authTime: code.AuthTime, family: code.Family}
	// A passcode requested with a token grants no more than the token.
	if len(code.Scopes) > 0 {
		l.bound = code.Scopes
	}
	return s.loginAs(ctx, l, requested)
}

// loginAs decides the scopes of a new login and issues its tokens.
func (s *Server) loginAs(ctx context.Context, l login, requested []string) (*tokenResponse, error) {
	names, err := s.groupNames(ctx, l.user.ID)
	if err != nil {
		return nil, err
	}
	if l.bound != nil {
		names = slices.DeleteFunc(names, func(n string) bool { return !slices.Contains(l.bound, n) })
	}
	if l.scopes, err = userScopes(l.client, names, requested); err != nil {
		return nil, err
	}
	return s.issue(ctx, l)
}

// activeUser returns a user that may still log in.
func (s *Server) activeUser(ctx context.Context, id string) (*User, error) {
	u, err := s.store.User(ctx, id)
	if errors.Is(err, ErrNotFound) || err == nil && !u.Active {
		return nil, badUser()
	}
	return u, err
}

// takeCode redeems a one-time code of the given kind that has not expired.
func (s *Server) takeCode(ctx context.Context, text string, kind CodeKind) (*Code, error) {
	code, err := s.store.TakeCode(ctx, fingerprint(text), s.now())
	if err == nil && (code.Kind != kind || !s.now().Before(code.Expires)) {
		err = ErrNotFound
	}
	return code, err
}

// grantCode is the second half of the code flow.
func (s *Server) grantCode(ctx context.Context, c *Client, form url.Values, proven bool) (*tokenResponse, error) {
	bad := oauthError("invalid_grant",
		"The authorization code is not valid: it expired, was used before, or belongs to another client")
	code, err := s.takeCode(ctx, form.Get("code"), CodeAuthorization)
	if errors.Is(err, ErrNotFound) {
		return nil, bad
	}
	if err != nil {
		return nil, err
	}
	if code.ClientID != c.ID || s.revoked.code(code) {
		return nil, bad
	}
	if !code.Used.IsZero() {
		// The code may be stolen: revoke the tokens of its first use.
		s.log.WarnContext(ctx, "authorization code used twice", "client", c.ID, "user", code.UserID)
		expires := s.now().Add(maxValidity)
		return nil, errors.Join(bad, s.store.DeleteFamily(ctx, code.Family),
			s.revoked.add(ctx, Revocation{Kind: RevokeToken, Subject: code.Family, Expires: expires}))
	}
	if code.RedirectURI != form.Get("redirect_uri") {
		return nil, oauthError("invalid_grant", "redirect_uri does not match the authorization request")
	}
	if err := checkPKCE(code.Challenge, form.Get("code_verifier"), proven); err != nil {
		return nil, err
	}
	u, err := s.activeUser(ctx, code.UserID)
	if err != nil {
		return nil, err
	}
	return s.loginAs(ctx, login{
		user: u, client: c, grant: GrantAuthorizationCode, authTime: code.AuthTime, nonce: code.Nonce, family: code.Family,
	}, code.Scopes)
}

func checkPKCE(challenge, verifier string, proven bool) error {
	if challenge == "" {
		if !proven {
			return oauthError("invalid_grant", "A public client must use PKCE")
		}
		if verifier != "" {
			return oauthError("invalid_grant", "code_verifier is given, but the authorization request had no code_challenge")
		}
		return nil
	}
	sum := sha256.Sum256([]byte(verifier))
	if subtle.ConstantTimeCompare([]byte(base64.RawURLEncoding.EncodeToString(sum[:])), []byte(challenge)) != 1 {
		return oauthError("invalid_grant", "code_verifier does not match the code_challenge")
	}
	return nil
}

// grantRefresh rotates a refresh token. The old token stays valid for a short
// time, because two cf processes share one configuration file; after that its
// use means that it was stolen, and the whole login is revoked.
func (s *Server) grantRefresh(ctx context.Context, c *Client, raw string, requested []string,
	from string) (*tokenResponse, error) {
	gone := invalidToken()
	rc, err := s.parseRefresh(ctx, raw)
	if err != nil {
		return nil, err
	}
	old, err := s.store.Refresh(ctx, rc.ID)
	if errors.Is(err, ErrNotFound) {
		return nil, gone
	}
	if err != nil {
		return nil, err
	}
	if old.ClientID != c.ID {
		return nil, gone
	}
	if s.stolen(old) {
		s.log.WarnContext(ctx, "rotated refresh token reused, login revoked", "client", c.ID, "user", old.UserID)
		return nil, errors.Join(gone, s.store.DeleteFamily(ctx, old.Family))
	}
	u, err := s.store.User(ctx, old.UserID)
	if errors.Is(err, ErrNotFound) || err == nil && (!u.Active || s.revoked.refresh(old)) {
		return nil, gone
	}
	if err != nil {
		return nil, err
	}
	scopes, err := s.narrow(ctx, c, old, requested)
	if err != nil {
		return nil, err
	}
	s.guard.proved(userSubject(u), from)
	l := login{user: u, client: c, scopes: scopes, grant: old.Grant, authTime: old.AuthTime, family: old.Family}
	return s.rotate(ctx, l, old)
}

func (s *Server) stolen(r *Refresh) bool {
	return !r.Rotated.IsZero() && s.now().Sub(r.Rotated) > s.grace
}

// narrow returns the login's scopes that the user still has and the client
// requests.
func (s *Server) narrow(ctx context.Context, c *Client, old *Refresh, requested []string) ([]string, error) {
	for _, r := range requested {
		if !slices.Contains(old.Scopes, r) {
			return nil, invalidScope("[%s] is invalid. It was not granted at login", r)
		}
	}
	if len(requested) == 0 {
		requested = old.Scopes
	}
	names, err := s.groupNames(ctx, old.UserID)
	if err != nil {
		return nil, err
	}
	still := slices.DeleteFunc(slices.Clone(requested), func(s string) bool { return !grantable(c.Scopes, s) })
	return userScopes(c, names, still)
}

// rotate replaces a refresh token. If the token was replaced before, it
// continues with the newest of its login, not a second chain: two holders of
// one token conflict sooner or later, and that is detected.
func (s *Server) rotate(ctx context.Context, l login, old *Refresh) (*tokenResponse, error) {
	next := s.newRefresh(l, successor(old.ID))
	// Narrowing the access token does not narrow the login.
	next.Scopes = old.Scopes
	// Rotation does not extend the login: the expiry stays.
	next.Expires = old.Expires
	before, err := s.store.RotateRefresh(ctx, old.ID, s.now(), next)
	if errors.Is(err, ErrNotFound) || err == nil && s.stolen(before) {
		return nil, errors.Join(invalidToken(), s.store.DeleteFamily(ctx, old.Family))
	}
	if err != nil {
		return nil, fmt.Errorf("rotate a refresh token: %w", err)
	}
	if !before.Rotated.IsZero() {
		if next, err = s.newest(ctx, next.ID); err != nil {
			return nil, err
		}
	}
	res, err := s.mintUser(l, strings.TrimSuffix(next.ID, "-r"))
	if err != nil {
		return nil, err
	}
	if res.RefreshToken, err = s.signRefresh(next); err != nil {
		return nil, err
	}
	return res, nil
}

// successor returns the jti of the token that follows a refresh token. It is
// derived from the token, so that a second request finds it; it needs no
// secret, because tokens are signed.
func successor(id string) string {
	return uuid.NewSHA1(uuid.NameSpaceOID, []byte("refresh token after "+id)).String()
}

// newest follows a chain of refresh tokens to its end.
func (s *Server) newest(ctx context.Context, id string) (*Refresh, error) {
	for {
		r, err := s.store.Refresh(ctx, id)
		if errors.Is(err, ErrNotFound) {
			return nil, invalidToken()
		}
		if err != nil {
			return nil, err
		}
		if r.Rotated.IsZero() {
			return r, nil
		}
		id = successor(r.ID) + "-r"
	}
}

// grantAssertion exchanges an access token of this server that has the client
// as audience (RFC 7523). The new token grants no more, expires no later, and
// cannot be refreshed.
func (s *Server) grantAssertion(ctx context.Context, c *Client, assertion string,
	requested []string) (*tokenResponse, error) {
	bad := fault.New(fault.Unauthenticated, "The assertion is not a valid token of this server for this client").
		WithKind("invalid_grant")
	if assertion == "" {
		return nil, oauthError("invalid_request", "assertion is missing")
	}
	claims, err := s.verifier.With(c.ID, s.issuer).Verify(ctx, assertion)
	if fault.Is(err, fault.InvalidToken) || err == nil && claims.UserID == "" {
		return nil, bad
	}
	if err != nil {
		return nil, err
	}
	u, err := s.activeUser(ctx, claims.UserID)
	if err != nil {
		return nil, err
	}
	return s.loginAs(ctx, login{
		user: u, client: c, grant: GrantJWTBearer, authTime: time.Unix(claims.AuthTime, 0), bound: claims.Scope,
		until: claims.Expiry(),
	}, requested)
}
