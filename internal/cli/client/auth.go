package client

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// ErrLoggedOut means that the login has expired and cannot be renewed.
var ErrLoggedOut = errors.New("the login has expired")

// Root is the root document of an API.
type Root struct {
	Links map[string]*struct {
		Href string `json:"href"`
		Meta struct {
			Version     string `json:"version"`
			HostKey     string `json:"host_key_fingerprint"`
			OAuthClient string `json:"oauth_client"`
		} `json:"meta"`
	} `json:"links"`
}

// Href returns the address of a link, or "".
func (r *Root) Href(name string) string {
	if l := r.Links[name]; l != nil {
		return strings.TrimRight(l.Href, "/")
	}
	return ""
}

// Discover requests the root document of the API.
func (c *Client) Discover(ctx context.Context) (*Root, error) {
	var root Root
	_, err := c.Do(ctx, Call{Method: http.MethodGet, URL: "/", Into: &root, Token: Anonymous})
	if err != nil {
		return nil, err
	}
	if root.Links["cloud_controller_v3"] == nil {
		return nil, fmt.Errorf("%s is not a Cloud Foundry API (its root has no v3 link)", c.API)
	}
	return &root, nil
}

func (c *Client) current() Tokens {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.tokens
}

// Early is how long before its expiry a token is renewed.
const Early = time.Minute

// Token returns an access token that does not expire soon, or "" without a login.
func (c *Client) Token(ctx context.Context) (string, error) {
	t := c.current()
	if t.Access == "" || time.Until(Parse(t.Access).Ends()) > Early {
		return t.Access, nil
	}
	return c.renew(ctx, t.Access)
}

// renew gets new tokens, unless another goroutine has already replaced the old
// one.
func (c *Client) renew(ctx context.Context, old string) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.tokens.Access != old {
		return c.tokens.Access, nil
	}
	if !c.mayRenew() {
		if time.Until(Parse(old).Ends()) > 0 {
			return old, nil
		}
		return "", ErrLoggedOut
	}
	renew := c.Renew
	if renew == nil {
		renew = func(ctx context.Context, old Tokens, grant Granting) (Tokens, error) { return grant(ctx, old) }
	}
	t, err := renew(ctx, c.tokens, c.grantAgain)
	if err != nil {
		return "", err
	}
	c.tokens = t
	return t.Access, nil
}

// mayRenew reports whether the tokens can be renewed.
func (c *Client) mayRenew() bool {
	return c.tokens.Refresh != "" || c.Secret != "" && c.tokens.Access != ""
}

func (c *Client) renewable() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mayRenew()
}

// grantAgain requests new tokens with the refresh token, or with the secret of a client that
// is logged in itself.
func (c *Client) grantAgain(ctx context.Context, old Tokens) (Tokens, error) {
	form := url.Values{"grant_type": {"refresh_token"}, "refresh_token": {old.Refresh}}
	if old.Refresh == "" {
		form = url.Values{"grant_type": {"client_credentials"}}
	}
	t, err := c.Grant(ctx, cmp.Or(c.ID, "cf"), c.Secret, form)
	if s := Status(err); s == http.StatusUnauthorized || s == http.StatusBadRequest {
		return t, fmt.Errorf("%w: %w", ErrLoggedOut, err)
	}
	t.Refresh = cmp.Or(t.Refresh, old.Refresh)
	return t, err
}

// Use sets the client's tokens.
func (c *Client) Use(t Tokens) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tokens = t
}

// Logout revokes the login at the authorization server and forgets its tokens.
func (c *Client) Logout(ctx context.Context) error {
	t := c.current()
	c.Use(Tokens{})
	id := Parse(t.Refresh).ID
	if id == "" {
		return nil // a client's own token has no login
	}
	_, err := c.Do(ctx, Call{Method: http.MethodDelete, URL: c.authorization() + "/oauth/token/revoke/" +
		url.PathEscape(id), Token: t.Refresh})
	return err
}

// authorization returns the address of the authorization server.
func (c *Client) authorization() string {
	if c.Login != "" {
		return c.Login
	}
	return c.API
}

// Grant requests tokens from the authorization server.
func (c *Client) Grant(ctx context.Context, client, secret string, form url.Values) (Tokens, error) {
	var out struct {
		Access  string `json:"access_token"`
		Refresh string `json:"refresh_token"`
	}
	basic := base64.StdEncoding.EncodeToString([]byte(url.QueryEscape(client) + ":" + url.QueryEscape(secret)))
	_, err := c.Do(ctx, Call{
		Method: http.MethodPost, URL: c.authorization() + "/oauth/token", Body: []byte(form.Encode()),
		Token: Anonymous, Into: &out,
		ContentType: "application/x-www-form-urlencoded", Header: http.Header{"Authorization": {"Basic " + basic}},
	})
	return Tokens{out.Access, out.Refresh}, err
}

// Claims are the claims of a token that the client uses.
type Claims struct {
	UserID   string   `json:"user_id"`
	UserName string   `json:"user_name"`
	ClientID string   `json:"client_id"`
	Origin   string   `json:"origin"`
	Scope    []string `json:"scope"`
	Expires  int64    `json:"exp"`
	Issued   int64    `json:"iat"`
	ID       string   `json:"jti"`
}

// Parse decodes a token without verifying it, which is left to the server.
func Parse(token string) Claims {
	var c Claims
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return c
	}
	if content, err := base64.RawURLEncoding.DecodeString(parts[1]); err == nil {
		_ = json.Unmarshal(content, &c) // an unreadable token has no claims
	}
	return c
}

// Ends returns when a token expires.
func (c Claims) Ends() time.Time { return time.Unix(c.Expires, 0) }

// Name returns the name of the token's user or client.
func (c Claims) Name() string {
	if c.UserName != "" {
		return c.UserName
	}
	return c.ClientID
}

// User returns the claims of the logged-in user or client.
func (c *Client) User() Claims { return Parse(c.current().Access) }

// Code requests a one-time code for another client, such as the ssh gateway.
func (c *Client) Code(ctx context.Context, uaa, client string) (string, error) {
	reply, err := c.Do(ctx, Call{
		Method: http.MethodGet, URL: uaa + "/oauth/authorize",
		Query: url.Values{"response_type": {"code"}, "client_id": {client}},
	})
	if err != nil {
		return "", err
	}
	at, err := url.Parse(reply.Header.Get("Location"))
	if err != nil || at.Query().Get("code") == "" {
		return "", fmt.Errorf("the authorization server issued no one-time code for %s (status %d)", client, reply.Status)
	}
	return at.Query().Get("code"), nil
}
