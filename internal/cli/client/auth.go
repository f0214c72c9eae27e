package client

import (
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

// ErrLoggedOut is a login that has ended and cannot be renewed.
var ErrLoggedOut = errors.New("the login has ended")

// Root is what an API tells of itself.
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

// Href is the address of a link, or nothing.
func (r *Root) Href(name string) string {
	if l := r.Links[name]; l != nil {
		return strings.TrimRight(l.Href, "/")
	}
	return ""
}

// Discover asks an API where its parts are.
func (c *Client) Discover(ctx context.Context) (*Root, error) {
	var root Root
	_, err := c.Do(ctx, Call{Method: http.MethodGet, URL: "/", Into: &root, Token: Anonymous})
	if err != nil {
		return nil, err
	}
	if root.Links["cloud_controller_v3"] == nil {
		return nil, fmt.Errorf("%s does not answer as a Cloud Foundry API does (it names no v3 API)", c.API)
	}
	return &root, nil
}

func (c *Client) current() Tokens {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.tokens
}

// early is how long before its end a token is renewed.
const early = time.Minute

// Token returns an access token with some time left. It is empty for nobody.
func (c *Client) Token(ctx context.Context) (string, error) {
	t := c.current()
	if t.Access == "" || time.Until(Parse(t.Access).Ends()) > early {
		return t.Access, nil
	}
	return c.renew(ctx, t.Access)
}

// renew gets new tokens, unless somebody just did.
func (c *Client) renew(ctx context.Context, old string) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.tokens.Access != old {
		return c.tokens.Access, nil
	}
	if c.tokens.Refresh == "" {
		if time.Until(Parse(old).Ends()) > 0 {
			return old, nil
		}
		return "", ErrLoggedOut
	}
	t, err := c.Grant(ctx, "cf", "", url.Values{"grant_type": {"refresh_token"}, "refresh_token": {c.tokens.Refresh}})
	if err != nil {
		if s := Status(err); s == http.StatusUnauthorized || s == http.StatusBadRequest {
			return "", fmt.Errorf("%w: %w", ErrLoggedOut, err)
		}
		return "", err
	}
	if t.Refresh == "" {
		t.Refresh = c.tokens.Refresh
	}
	c.tokens = t
	if c.Renewed != nil {
		c.Renewed(t)
	}
	return t.Access, nil
}

// Use makes a login the client's own.
func (c *Client) Use(t Tokens) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tokens = t
}

// Grant asks the authorization server for tokens.
func (c *Client) Grant(ctx context.Context, client, secret string, form url.Values) (Tokens, error) {
	base := c.Login
	if base == "" {
		base = c.API
	}
	var out struct {
		Access  string `json:"access_token"`
		Refresh string `json:"refresh_token"`
	}
	basic := base64.StdEncoding.EncodeToString([]byte(url.QueryEscape(client) + ":" + url.QueryEscape(secret)))
	_, err := c.Do(ctx, Call{
		Method: http.MethodPost, URL: base + "/oauth/token", Body: []byte(form.Encode()), Token: Anonymous, Into: &out,
		ContentType: "application/x-www-form-urlencoded", Header: http.Header{"Authorization": {"Basic " + basic}},
	})
	return Tokens{out.Access, out.Refresh}, err
}

// Claims are what the client wants to know of a token.
type Claims struct {
	UserID   string   `json:"user_id"`
	UserName string   `json:"user_name"`
	ClientID string   `json:"client_id"`
	Origin   string   `json:"origin"`
	Scope    []string `json:"scope"`
	Expires  int64    `json:"exp"`
	ID       string   `json:"jti"`
}

// Parse reads a token without checking it: that is the server's business.
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

// Ends is when a token ends.
func (c Claims) Ends() time.Time { return time.Unix(c.Expires, 0) }

// Name is who a token speaks for.
func (c Claims) Name() string {
	if c.UserName != "" {
		return c.UserName
	}
	return c.ClientID
}

// User is who is logged in.
func (c *Client) User() Claims { return Parse(c.current().Access) }

// Code gets a one-time code for another client, such as the ssh gateway.
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
		return "", fmt.Errorf("the authorization server gives no one-time code for %s (status %d)", client, reply.Status)
	}
	return at.Query().Get("code"), nil
}
