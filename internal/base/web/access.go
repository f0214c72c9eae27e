package web

import (
	"net/http"
	"strings"

	"ingot/internal/base/fault"
	"ingot/internal/base/token"
)

// Access is the authorization decision of a route. The zero value rejects every
// request.
type Access struct {
	kind   accessKind
	scopes []string
	reason string
	// password: the token may be the password of basic authentication.
	password bool
}

type accessKind int

const (
	refuse accessKind = iota
	public
	own
	bearer
)

// Public allows every request; reason justifies it.
func Public(reason string) Access { return Access{kind: public, reason: reason} }

// Own leaves authentication to the handler because it does not use a bearer
// token; reason says what it uses.
func Own(reason string) Access { return Access{kind: own, reason: reason} }

// Scope requires a valid token with at least one of scopes.
func Scope(scopes ...string) Access {
	if len(scopes) == 0 {
		panic("web: Scope without a scope; use Token")
	}
	return Access{kind: bearer, scopes: scopes}
}

// Token requires a valid token; reason says how the handler authorizes the
// request.
func Token(reason string) Access { return Access{kind: bearer, reason: reason} }

// OrPassword also accepts the token as the password of basic authentication, with any user
// name, for clients that have no other way to send it.
func (a Access) OrPassword() Access {
	a.password = true
	return a
}

// BearerToken returns the token of the Authorization header. The scheme is
// case-insensitive: cf sends "bearer", others "Bearer".
func BearerToken(r *http.Request) (string, bool) {
	scheme, raw, ok := strings.Cut(r.Header.Get("Authorization"), " ")
	if !ok || !strings.EqualFold(scheme, "bearer") || raw == "" || strings.Contains(raw, " ") {
		return "", false
	}
	return raw, true
}

// decide applies the decision and returns the request with its claims.
func (a Access) decide(r *http.Request, v *token.Verifier) (*http.Request, error) {
	switch a.kind {
	case public, own:
		return r, nil
	case bearer:
		raw, ok := BearerToken(r)
		if !ok && a.password {
			_, raw, ok = r.BasicAuth()
		}
		if !ok || v == nil {
			return nil, fault.New(fault.Unauthenticated, "Authentication error").WithKind("unauthorized")
		}
		claims, err := v.Verify(r.Context(), raw)
		if err != nil {
			return nil, err
		}
		if len(a.scopes) > 0 && !claims.HasAny(a.scopes...) {
			return nil, Insufficient(a.scopes...)
		}
		return r.WithContext(token.NewContext(r.Context(), claims)), nil
	default:
		return nil, Insufficient()
	}
}

// Insufficient returns the error for an authenticated caller without
// permission.
func Insufficient(scopes ...string) *fault.Error {
	e := fault.New(fault.Forbidden, "You are not authorized to perform the requested action").
		WithKind("insufficient_scope")
	e.Need = scopes
	return e
}
