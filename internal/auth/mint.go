package auth

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"ingot/internal/base/token"
)

// Lifetimes of tokens whose client sets none. A user's access token lives an
// hour: long enough that `cf logs` in one terminal and cf commands in another
// rarely meet the rotation of the refresh token they share.
const (
	defaultAccessValidity  = time.Hour
	defaultClientValidity  = 12 * time.Hour
	defaultRefreshValidity = 30 * 24 * time.Hour
	// maxValidity is the longest lifetime of a client's tokens, and so
	// limits how long a retired signing key is needed.
	maxValidity = 90 * 24 * time.Hour
)

// tokenResponse is the answer of the token endpoint.
type tokenResponse struct {
	AccessToken string `json:"access_token"`
	// TokenType is lower case: cf stores it as the scheme and compares so.
	TokenType    string `json:"token_type"`
	IDToken      string `json:"id_token,omitempty"`
	RefreshToken string `json:"refresh_token,omitempty"`
	ExpiresIn    int64  `json:"expires_in"`
	Scope        string `json:"scope"`
	JTI          string `json:"jti"`
}

func newID() string { return uuid.NewString() }

func validity(own, fallback time.Duration) time.Duration {
	if own <= 0 {
		own = fallback
	}
	return min(own, maxValidity)
}

// mintClient issues a client's own token.
func (s *Server) mintClient(c *Client, scopes []string) (*tokenResponse, error) {
	claims := s.claims(c, scopes, GrantClientCredentials, s.revoked.issueTime("", c.ID),
		validity(c.AccessValidity, defaultClientValidity))
	claims.Subject = c.ID
	claims.Authorities = scopes
	return s.respond(claims)
}

// login is an authenticated user at a client. All tokens of the login share it.
type login struct {
	user     *User
	client   *Client
	scopes   []string
	grant    string
	authTime time.Time
	nonce    string
	family   string // empty starts a new one
	// bound, if set, limits the scopes that may be granted to those of the
	// credential that authenticated the user.
	bound []string
	// until, if set, is when the access token expires; there is no refresh
	// token then.
	until time.Time
}

// mintUser issues an access token for a login. jti pairs it with the refresh
// token, as UAA does.
func (s *Server) mintUser(l login, jti string) (*tokenResponse, error) {
	claims := s.claims(l.client, l.scopes, l.grant, s.revoked.issueTime(l.user.ID, l.client.ID),
		validity(l.client.AccessValidity, defaultAccessValidity))
	claims.ID = jti
	claims.Subject = l.user.ID
	claims.UserID = l.user.ID
	claims.UserName = l.user.UserName
	claims.Email = l.user.Email
	claims.Origin = l.user.Origin
	claims.AuthTime = l.authTime.Unix()
	// `cf logout` revokes the login of a token with this claim.
	claims.Revocable = true
	if !l.until.IsZero() {
		claims.ExpiresAt = min(claims.ExpiresAt, l.until.Unix())
	}
	return s.respond(claims)
}

func (s *Server) claims(c *Client, scopes []string, grant string, now time.Time, life time.Duration) *token.Claims {
	return &token.Claims{
		ID:        newID(),
		Issuer:    s.issuer,
		Audience:  audience(c, scopes),
		Scope:     scopes,
		ClientID:  c.ID,
		CID:       c.ID,
		AZP:       c.ID,
		GrantType: grant,
		ZoneID:    ZoneID,
		IssuedAt:  now.Unix(),
		ExpiresAt: now.Add(life).Unix(),
	}
}

func (s *Server) respond(claims *token.Claims) (*tokenResponse, error) {
	raw, err := s.sign(claims)
	if err != nil {
		return nil, err
	}
	s.minted.WithLabelValues(claims.GrantType).Inc()
	return &tokenResponse{
		AccessToken: raw,
		TokenType:   "bearer",
		ExpiresIn:   claims.ExpiresAt - claims.IssuedAt,
		Scope:       strings.Join(claims.Scope, " "),
		JTI:         claims.ID,
	}, nil
}

func (s *Server) sign(claims any) (string, error) {
	// Package jwt would encode, decode and encode the claims again, to merge several.
	payload, err := json.Marshal(claims)
	if err != nil {
		return "", fmt.Errorf("encode a token: %w", err)
	}
	signed, err := s.keys.current().Sign(payload)
	if err != nil {
		return "", fmt.Errorf("sign a token: %w", err)
	}
	return signed.CompactSerialize()
}

// refreshClaims are the claims of a refresh token. What it permits is in the
// store, under the token's id.
type refreshClaims struct {
	ID        string   `json:"jti"`
	Subject   string   `json:"sub"`
	Issuer    string   `json:"iss"`
	Audience  []string `json:"aud"`
	ClientID  string   `json:"client_id"`
	CID       string   `json:"cid"`
	Revocable bool     `json:"revocable"`
	IssuedAt  int64    `json:"iat"`
	ExpiresAt int64    `json:"exp"`
}

// newRefresh creates a refresh token of a login, without storing it.
func (s *Server) newRefresh(l login, jti string) *Refresh {
	now := s.revoked.issueTime(l.user.ID, l.client.ID)
	return &Refresh{
		ID: jti + "-r", Family: l.family, UserID: l.user.ID, ClientID: l.client.ID, Scopes: l.scopes, Grant: l.grant,
		AuthTime: l.authTime, Issued: now, Expires: now.Add(validity(l.client.RefreshValidity, defaultRefreshValidity)),
	}
}

func (s *Server) signRefresh(r *Refresh) (string, error) {
	return s.sign(&refreshClaims{
		ID: r.ID, Subject: r.UserID, Issuer: s.issuer, Audience: []string{r.ClientID}, ClientID: r.ClientID, CID: r.ClientID,
		Revocable: true, IssuedAt: r.Issued.Unix(), ExpiresAt: r.Expires.Unix(),
	})
}

// issue returns an access token for a new login and, if the client may refresh,
// a refresh token, which is stored first.
func (s *Server) issue(ctx context.Context, l login) (*tokenResponse, error) {
	// The first token of a login has the login's id, so that a second use of
	// its code can revoke it.
	if l.family == "" {
		l.family = newID()
	}
	jti := l.family
	res, err := s.mintUser(l, jti)
	if err != nil {
		return nil, err
	}
	if l.client.Allows(GrantRefreshToken) && l.until.IsZero() {
		r := s.newRefresh(l, jti)
		if err := s.store.SaveRefresh(ctx, r); err != nil {
			return nil, fmt.Errorf("store a refresh token: %w", err)
		}
		if res.RefreshToken, err = s.signRefresh(r); err != nil {
			return nil, err
		}
	}
	if slices.Contains(l.scopes, "openid") && l.until.IsZero() {
		if res.IDToken, err = s.mintID(l); err != nil {
			return nil, err
		}
	}
	return res, nil
}

// mintID issues an OpenID Connect ID token.
func (s *Server) mintID(l login) (string, error) {
	now := s.now()
	claims := map[string]any{
		// Marked, so that no API accepts it as an access token.
		"token_use": token.UseID,
		"iss":       s.issuer, "sub": l.user.ID, "aud": []string{l.client.ID}, "azp": l.client.ID, "cid": l.client.ID,
		"zid": ZoneID,
		"iat": now.Unix(), "exp": now.Add(validity(l.client.AccessValidity, defaultAccessValidity)).Unix(),
		"auth_time": l.authTime.Unix(), "jti": newID(), "origin": l.user.Origin, "user_id": l.user.ID,
		"user_name": l.user.UserName, "email": l.user.Email, "email_verified": l.user.Verified, "scope": []string{"openid"},
		"given_name": l.user.GivenName, "family_name": l.user.FamilyName,
	}
	if l.nonce != "" {
		claims["nonce"] = l.nonce
	}
	return s.sign(claims)
}
