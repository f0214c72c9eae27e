package token

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"time"
)

// Claims are the claims of a verified access token, as in UAA.
type Claims struct {
	ID        string   `json:"jti"`
	Subject   string   `json:"sub"`
	Issuer    string   `json:"iss"`
	Audience  Audience `json:"aud,omitempty"`
	Scope     []string `json:"scope"`
	ClientID  string   `json:"client_id"`
	CID       string   `json:"cid,omitempty"`
	AZP       string   `json:"azp,omitempty"`
	GrantType string   `json:"grant_type,omitempty"`
	UserID    string   `json:"user_id,omitempty"`
	UserName  string   `json:"user_name,omitempty"`
	Email     string   `json:"email,omitempty"`
	Origin    string   `json:"origin,omitempty"`
	ZoneID    string   `json:"zid,omitempty"`
	// Authorities repeats the scopes of a client's own token, as UAA does.
	Authorities []string `json:"authorities,omitempty"`
	Revocable   bool     `json:"revocable,omitempty"`
	// Use is UseID in Ingot's ID tokens, which identify a user to a client and
	// grant no access.
	Use       string `json:"token_use,omitempty"`
	AuthTime  int64  `json:"auth_time,omitempty"`
	IssuedAt  int64  `json:"iat"`
	NotBefore int64  `json:"nbf,omitempty"`
	ExpiresAt int64  `json:"exp"`
}

// UseID marks an ID token.
const UseID = "id"

// IsUser reports whether the token belongs to a user, not only to a client.
func (c *Claims) IsUser() bool { return c.UserID != "" }

// CallerID is the id of the user, or of the client when it acts for itself.
func (c *Claims) CallerID() string {
	if c.IsUser() {
		return c.UserID
	}
	return c.ClientID
}

// HasAny reports whether the token carries at least one of scopes.
func (c *Claims) HasAny(scopes ...string) bool {
	return slices.ContainsFunc(scopes, func(s string) bool { return slices.Contains(c.Scope, s) })
}

// Expiry returns the time at which the token expires.
func (c *Claims) Expiry() time.Time { return time.Unix(c.ExpiresAt, 0).UTC() }

// Audience is a JWT audience: a list that may be written as a single string.
type Audience []string

// UnmarshalJSON accepts a list or a string.
func (a *Audience) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '"' {
		var s string
		if err := json.Unmarshal(b, &s); err != nil {
			return err
		}
		*a = Audience{s}
		return nil
	}
	return json.Unmarshal(b, (*[]string)(a))
}

type contextKey struct{}

// NewContext returns ctx carrying claims.
func NewContext(ctx context.Context, c *Claims) context.Context {
	return context.WithValue(ctx, contextKey{}, c)
}

// FromContext returns the claims of the request, or nil when the route needs
// none.
func FromContext(ctx context.Context) *Claims {
	c, _ := ctx.Value(contextKey{}).(*Claims)
	return c
}

// Display returns how the caller is shown to others: the user's name, or the client's id.
func (c *Claims) Display() string { return cmp.Or(c.UserName, c.UserID, c.ClientID) }
