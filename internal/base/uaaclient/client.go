package uaaclient

import (
	"context"
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

// Options say which server, and as whom.
type Options struct {
	BaseURL  string
	ClientID string
	Secret   string
	// HTTP is the client to use; nil means NewHTTPClient.
	HTTP *http.Client
	Now  func() time.Time
}

// Client asks the authorization server. It is safe for concurrent use.
type Client struct {
	o Options

	mu      sync.Mutex // held while a token is fetched, so that one is enough
	token   string
	renewAt time.Time
}

const (
	// answerLimit bounds what we read of an answer.
	answerLimit = 8 << 20
	// renewEarly is how long before its end a token is no longer used.
	renewEarly = 30 * time.Second
)

// NewHTTPClient returns a client that gives up on a server that does not
// answer, and follows no redirects: a token must not travel to another place.
func NewHTTPClient() *http.Client {
	return &http.Client{
		Timeout: 10 * time.Second,
		Transport: &http.Transport{
			Proxy:                 http.ProxyFromEnvironment,
			DialContext:           (&net.Dialer{Timeout: 3 * time.Second}).DialContext,
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
		o.HTTP = NewHTTPClient()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Client{o: o}
}

// Close drops idle connections.
func (c *Client) Close() { c.o.HTTP.CloseIdleConnections() }

// StatusError is an answer that is not the one hoped for.
type StatusError struct {
	URL    string // without its query
	Status int
	// Reason is the server's own word for it, if it gave one.
	Reason string
}

func (e *StatusError) Error() string {
	text := fmt.Sprintf("%s answered %d", e.URL, e.Status)
	if e.Reason != "" {
		text += " (" + e.Reason + ")"
	}
	return text
}

// Token returns an access token of the client, for calls to other services.
func (c *Client) Token(ctx context.Context) (string, error) { return c.bearer(ctx) }

// bearer returns a token, a new one when the last is about to expire.
func (c *Client) bearer(ctx context.Context) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.token != "" && c.o.Now().Before(c.renewAt) {
		return c.token, nil
	}
	form := url.Values{"grant_type": {"client_credentials"}, "response_type": {"token"}}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.o.BaseURL+"/oauth/token", strings.NewReader(form.Encode()))
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
		return "", fmt.Errorf("token for client %s: the answer holds none", c.o.ClientID)
	}
	life := time.Duration(answer.ExpiresIn * float64(time.Second))
	c.token = answer.AccessToken
	// A token shorter than twice the margin is used for half of its life.
	c.renewAt = c.o.Now().Add(max(life-renewEarly, life/2))
	return c.token, nil
}

// forget drops a token that was refused, unless it has been replaced already.
func (c *Client) forget(refused string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.token == refused {
		c.token = ""
	}
}

// StatusOf is the status of a StatusError in err's chain, else 0.
func StatusOf(err error) int {
	var status *StatusError
	if errors.As(err, &status) {
		return status.Status
	}
	return 0
}

// get reads a JSON document of the server.
func (c *Client) get(ctx context.Context, path string, query url.Values, into any) error {
	return c.fetch(ctx, c.o.HTTP, c.o.BaseURL+path+"?"+query.Encode(), answerLimit, into)
}

// fetch reads a JSON document of at most limit bytes. A token that is refused
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
		// The query may be long and is not needed to understand what failed.
		var u *url.Error
		if errors.As(err, &u) {
			err = u.Err
		}
		return fmt.Errorf("%s: %w", place(req), err)
	}
	defer res.Body.Close()
	body := io.LimitReader(res.Body, limit)
	if res.StatusCode != http.StatusOK && res.StatusCode != http.StatusCreated {
		var refusal struct {
			Error string `json:"error"`
		}
		_ = json.NewDecoder(body).Decode(&refusal)
		status := &StatusError{URL: place(req), Status: res.StatusCode, Reason: refusal.Error}
		if res.StatusCode == http.StatusServiceUnavailable {
			// Whoever asked us is told the same.
			return fault.Wrap(status, fault.Unavailable, "The authorization server cannot answer at the moment. Try again in a few seconds.").After(5 * time.Second)
		}
		return status
	}
	if err := json.NewDecoder(body).Decode(into); err != nil {
		return fmt.Errorf("%s: the answer is not the JSON expected: %w", place(req), err)
	}
	return nil
}

func place(req *http.Request) string {
	return req.Method + " " + req.URL.Scheme + "://" + req.URL.Host + req.URL.Path
}
