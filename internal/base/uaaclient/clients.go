package uaaclient

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
)

// OAuthClient is an OAuth client of the authorization server.
type OAuthClient struct {
	ID           string   `json:"client_id"`
	Secret       string   `json:"client_secret,omitempty"`
	GrantTypes   []string `json:"authorized_grant_types"`
	Scopes       []string `json:"scope"`
	Authorities  []string `json:"authorities"`
	RedirectURIs []string `json:"redirect_uri"`
}

const clientsPath = "/oauth/clients"

// FindClient returns the client with this id, or nil if there is none. It requires the scope clients.read.
func (c *Client) FindClient(ctx context.Context, id string) (*OAuthClient, error) {
	var found OAuthClient
	err := c.send(ctx, http.MethodGet, clientsPath+"/"+url.PathEscape(id), nil, &found)
	if StatusOf(err) == http.StatusNotFound {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &found, nil
}

// ClientExists reports whether a client with this id exists.
func (c *Client) ClientExists(ctx context.Context, id string) (bool, error) {
	found, err := c.FindClient(ctx, id)
	return found != nil, err
}

// CreateClient creates a client. The caller cannot grant scopes it does not hold.
func (c *Client) CreateClient(ctx context.Context, o OAuthClient) error {
	var made OAuthClient
	return c.send(ctx, http.MethodPost, clientsPath, o, &made)
}

// DeleteClient deletes a client and revokes its tokens. It is not an error if
// the client does not exist.
func (c *Client) DeleteClient(ctx context.Context, id string) error {
	var gone OAuthClient
	err := c.send(ctx, http.MethodDelete, clientsPath+"/"+url.PathEscape(id), nil, &gone)
	if StatusOf(err) == http.StatusNotFound {
		return nil
	}
	return err
}

// send sends a request with a body and decodes the JSON response. A rejected
// token is replaced once.
func (c *Client) send(ctx context.Context, method, path string, body, into any) error {
	var text []byte
	if body != nil {
		var err error
		if text, err = json.Marshal(body); err != nil {
			return err
		}
	}
	for attempt := 0; ; attempt++ {
		raw, err := c.bearer(ctx)
		if err != nil {
			return err
		}
		req, err := http.NewRequestWithContext(ctx, method, c.o.BaseURL+path, bytes.NewReader(text))
		if err != nil {
			return err
		}
		req.Header.Set("Authorization", "Bearer "+raw)
		if body != nil {
			req.Header.Set("Content-Type", "application/json")
		}
		err = do(c.o.HTTP, req, answerLimit, into)
		if StatusOf(err) == http.StatusUnauthorized && attempt == 0 {
			c.forget(raw)
			continue
		}
		return err
	}
}
