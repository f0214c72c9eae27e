package uaaclient

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"ingot/internal/base/fault"
)

// Options configure a Client.
type Options struct {
	BaseURL  string
	ClientID string
	Secret   string
	// HTTP is the client to use; nil means NewHTTPClient.
	HTTP *http.Client
	Now  func() time.Time
}

// Client is a client of the authorization server. It is safe for concurrent
// use.
type Client struct {
	o Options

	mu      sync.Mutex // held while a token is fetched, to fetch only one
	token   string
	renewAt time.Time
}

const (
	// answerLimit limits the size of a response.
	answerLimit = 8 << 20
	// renewEarly is how long before its expiry a token is renewed.
	renewEarly = 30 * time.Second
)

// NewHTTPClient returns a client with timeouts that follows no redirects,
// because a token must not be sent to another server. A nil trust means the
// certificates of the system.
func NewHTTPClient(trust *tls.Config) *http.Client {
	return &http.Client{
		Timeout: 10 * time.Second,
		Transport: &http.Transport{
			Proxy:                 http.ProxyFromEnvironment,
			DialContext:           (&net.Dialer{Timeout: 3 * time.Second}).DialContext,
			TLSClientConfig:       trust,
			TLSHandshakeTimeout:   5 * time.Second,
			ResponseHeaderTimeout: 8 * time.Second,
			IdleConnTimeout:       time.Minute,
			MaxIdleConnsPerHost:   4,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// New returns a client.
func New(o Options) *Client {
	o.BaseURL = strings.TrimRight(o.BaseURL, "/")
	if o.HTTP == nil {
		o.HTTP = NewHTTPClient(nil)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Client{o: o}
}

// Close closes idle connections.
func (c *Client) Close() { c.o.HTTP.CloseIdleConnections() }

// StatusError is a response with an unexpected status.
type StatusError struct {
	URL    string // without its query
	Status int
	// Reason is the server's error code, if it sent one.
	Reason string
}

func (e *StatusError) Error() string {
	text := fmt.Sprintf("%s answered %d", e.URL, e.Status)
	if e.Reason != "" {
		text += " (" + e.Reason + ")"
	}
	return text
}

// Token returns an access token of the client, for requests to other services.
func (c *Client) Token(ctx context.Context) (string, error) { return c.bearer(ctx) }

// bearer returns the cached token, or a new one when it is about to expire.
func (c *Client) bearer(ctx context.Context) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.token != "" && c.o.Now().Before(c.renewAt) {
		return c.token, nil
	}
	form := url.Values{"grant_type": {"client_credentials"}, "response_type": {"token"}}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.o.BaseURL+"/oauth/token",
		strings.NewReader(form.Encode()))
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	// RFC 6749, 2.3.1: both are form-encoded before they go into the header.
	req.SetBasicAuth(url.QueryEscape(c.o.ClientID), url.QueryEscape(c.o.Secret))
	// UAA takes them as they are unless it is told that they are encoded.
	req.Header.Set("X-CF-ENCODED-CREDENTIALS", "true")
	var answer struct {
		AccessToken string  `json:"access_token"`
		ExpiresIn   float64 `json:"expires_in"`
	}
	if err := do(c.o.HTTP, req, answerLimit, &answer); err != nil {
		return "", fmt.Errorf("token for client %s: %w", c.o.ClientID, err)
	}
	if answer.AccessToken == "" {
		return "", fmt.Errorf("token for client %s: no token in the response", c.o.ClientID)
	}
	life := time.Duration(answer.ExpiresIn * float64(time.Second))
	c.token = answer.AccessToken
	// A short-lived token is used for half of its lifetime.
	c.renewAt = c.o.Now().Add(max(life-renewEarly, life/2))
	return c.token, nil
}

// forget discards a rejected token, unless it has been replaced already.
func (c *Client) forget(refused string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.token == refused {
		c.token = ""
	}
}

// StatusOf returns the status of a StatusError in err's chain, or 0.
func StatusOf(err error) int {
	var status *StatusError
	if errors.As(err, &status) {
		return status.Status
	}
	return 0
}

// get reads a JSON document from the server.
func (c *Client) get(ctx context.Context, path string, query url.Values, into any) error {
	return c.fetch(ctx, c.o.HTTP, c.o.BaseURL+path+"?"+query.Encode(), answerLimit, into)
}

// fetch reads a JSON document of at most limit bytes. A token that is rejected
// (keys rotated, revoked) is replaced once.
func (c *Client) fetch(ctx context.Context, h *http.Client, address string, limit int64, into any) error {
	for attempt := 0; ; attempt++ {
		raw, err := c.bearer(ctx)
		if err != nil {
			return err
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
		if err != nil {
			return err
		}
		req.Header.Set("Authorization", "Bearer "+raw)
		err = do(h, req, limit, into)
		if StatusOf(err) == http.StatusUnauthorized && attempt == 0 {
			c.forget(raw)
			continue
		}
		return err
	}
}

func do(h *http.Client, req *http.Request, limit int64, into any) error {
	req.Header.Set("Accept", "application/json")
	res, err := h.Do(req)
	if err != nil {
		// The query may be long and does not help to understand the error.
		var u *url.Error
		if errors.As(err, &u) {
			err = u.Err
		}
		return fmt.Errorf("%s: %w", endpoint(req), err)
	}
	defer res.Body.Close()
	body := io.LimitReader(res.Body, limit)
	if res.StatusCode != http.StatusOK && res.StatusCode != http.StatusCreated {
		var refusal struct {
			Error string `json:"error"`
		}
		_ = json.NewDecoder(body).Decode(&refusal)
		status := &StatusError{URL: endpoint(req), Status: res.StatusCode, Reason: refusal.Error}
		if res.StatusCode == http.StatusServiceUnavailable {
			// The caller gets the same status.
			return fault.Wrap(status, fault.Unavailable, "The authorization server is unavailable. Try again in a few seconds.").
				After(5 * time.Second)
		}
		return status
	}
	if err := json.NewDecoder(body).Decode(into); err != nil {
		return fmt.Errorf("%s: unexpected JSON in the response: %w", endpoint(req), err)
	}
	return nil
}

func endpoint(req *http.Request) string {
	return req.Method + " " + req.URL.Scheme + "://" + req.URL.Host + req.URL.Path
}
