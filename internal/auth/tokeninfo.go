package auth

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/go-jose/go-jose/v4"

	"ingot/internal/base/fault"
	"ingot/internal/base/token"
	"ingot/internal/base/web"
)

// getKeys is GET /token_keys: all keys that verify tokens, the signing one
// first.
func (s *Server) getKeys(w http.ResponseWriter, _ *http.Request) error {
	keys, err := s.keys.public()
	return web.Answer(w, http.StatusOK, map[string]any{"keys": keys}, err)
}

// getKey is GET /token_key: the key that signs now.
func (s *Server) getKey(w http.ResponseWriter, _ *http.Request) error {
	keys, err := s.keys.public()
	if err != nil {
		return err
	}
	return web.Answer(w, http.StatusOK, keys[0], nil)
}

// rotateKeys is POST /token_keys/rotate, which UAA does not have. Tokens signed
// with the previous key stay valid. A body may name the algorithm of the new key.
func (s *Server) rotateKeys(w http.ResponseWriter, r *http.Request) error {
	var body struct {
		Algorithm jose.SignatureAlgorithm `json:"algorithm"`
	}
	if r.ContentLength != 0 {
		if err := web.DecodeJSON(r, &body); err != nil {
			return err
		}
	}
	if err := s.keys.rotate(r.Context(), body.Algorithm, maxValidity); err != nil {
		return err
	}
	s.log.InfoContext(r.Context(), "signing key rotated", "algorithms", s.keys.algorithms())
	return s.getKeys(w, r)
}

// resourceServer authenticates the caller of check_token and introspect: a client
// with the authority uaa.resource, by its secret or its own token.
func (s *Server) resourceServer(r *http.Request) error {
	if raw, ok := web.BearerToken(r); ok {
		claims, err := s.verifier.Verify(r.Context(), raw)
		if err != nil {
			return err
		}
		if !claims.HasAny("uaa.resource") {
			return web.Insufficient("uaa.resource")
		}
		return nil
	}
	id, secret, ok := r.BasicAuth()
	if !ok {
		return unauthenticated()
	}
	c, err := s.authenticateClient(r.Context(), credentials{id, secret, true, s.from(r)})
	if err != nil {
		return err
	}
	if !slices.Contains(c.Authorities, "uaa.resource") {
		return web.Insufficient("uaa.resource")
	}
	return nil
}

// subjectAlive reports whether the user and client of a token still exist, which
// a resource server cannot tell from the signature.
func (s *Server) subjectAlive(ctx context.Context, c *token.Claims) (bool, error) {
	if c.UserID != "" {
		if _, err := s.activeUser(ctx, c.UserID); fault.Is(err, fault.Unauthenticated) {
			return false, nil
		} else if err != nil {
			return false, err
		}
	}
	_, err := s.store.Client(ctx, c.ClientID)
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// checkToken is POST /check_token.
func (s *Server) checkToken(w http.ResponseWriter, r *http.Request) error {
	if err := s.resourceServer(r); err != nil {
		return err
	}
	form, err := postForm(r)
	if err != nil {
		return err
	}
	claims, err := s.verifier.Verify(r.Context(), form.Get("token"))
	if fault.Is(err, fault.InvalidToken) {
		return oauthError("invalid_token", "The token is not valid: it expired, was revoked, or was never issued here")
	}
	if err != nil {
		return err
	}
	alive, err := s.subjectAlive(r.Context(), claims)
	if err != nil {
		return err
	}
	if !alive {
		return oauthError("invalid_token", "The user or client of the token does not exist")
	}
	for _, scope := range splitWords(form.Get("scopes")) {
		if !claims.HasAny(scope) {
			return oauthError("invalid_scope", "Some requested scopes are missing: %s", scope)
		}
	}
	return web.Answer(w, http.StatusOK, claims, nil)
}

// introspect is POST /introspect (RFC 7662). An invalid token is not an error:
// the response says that it is not active.
func (s *Server) introspect(w http.ResponseWriter, r *http.Request) error {
	if err := s.resourceServer(r); err != nil {
		return err
	}
	form, err := postForm(r)
	if err != nil {
		return err
	}
	claims, err := s.verifier.Verify(r.Context(), form.Get("token"))
	alive := false
	if err == nil {
		alive, err = s.subjectAlive(r.Context(), claims)
	}
	if fault.Is(err, fault.InvalidToken) || err == nil && !alive {
		return web.Answer(w, http.StatusOK, map[string]bool{"active": false}, nil)
	}
	if err != nil {
		return err
	}
	web.WriteJSON(w, http.StatusOK, struct {
		Active bool `json:"active"`
		*token.Claims
	}{true, claims})
	return nil
}

// userInfo is OpenID Connect's /userinfo.
func (s *Server) userInfo(w http.ResponseWriter, r *http.Request) error {
	claims := token.FromContext(r.Context())
	if !claims.IsUser() {
		return web.Insufficient("openid")
	}
	u, err := s.activeUser(r.Context(), claims.UserID)
	if err != nil {
		return err
	}
	out := map[string]any{
		"sub": u.ID, "user_id": u.ID, "user_name": u.UserName, "origin": u.Origin,
		"given_name": u.GivenName, "family_name": u.FamilyName, "name": strings.TrimSpace(u.GivenName + " " + u.FamilyName),
		"email": u.Email, "email_verified": u.Verified, "phone_number": u.Phone,
	}
	if !u.Login.Previous.IsZero() {
		out["previous_logon_time"] = u.Login.Previous.UnixMilli()
	}
	return web.Answer(w, http.StatusOK, out, nil)
}

// discovery is OpenID Connect's configuration document.
func (s *Server) discovery(w http.ResponseWriter, r *http.Request) error {
	base := s.requestBase(r)
	grants := slices.DeleteFunc(slices.Clone(knownGrants), func(g string) bool {
		return g == GrantPassword &&
			!s.passwordGrant
	})
	web.WriteJSON(w, http.StatusOK, map[string]any{
		"issuer":                                s.issuer,
		"authorization_endpoint":                base + "/oauth/authorize",
		"token_endpoint":                        base + "/oauth/token",
		"jwks_uri":                              base + "/token_keys",
		"userinfo_endpoint":                     base + "/userinfo",
		"introspection_endpoint":                base + "/introspect",
		"end_session_endpoint":                  base + "/logout.do",
		"grant_types_supported":                 grants,
		"response_types_supported":              []string{"code"},
		"subject_types_supported":               []string{"public"},
		"code_challenge_methods_supported":      []string{"S256"},
		"token_endpoint_auth_methods_supported": []string{"client_secret_basic", "client_secret_post", "none"},
		"id_token_signing_alg_values_supported": s.keys.algorithms(),
		"scopes_supported":                      []string{"openid", "profile", "email", "phone", "roles", "user_attributes"},
		"claims_supported": []string{
			"sub", "iss", "aud", "exp", "iat", "auth_time", "azp", "nonce", "user_name", "origin", "email", "email_verified",
			"given_name", "family_name", "phone_number", "user_id", "zid", "scope",
		},
		"ui_locales_supported": []string{"en"},
	})
	return nil
}
