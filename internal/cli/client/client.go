package client

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
)

// Client calls one API. Its methods are safe for concurrent use.
type Client struct {
	// API is the address of the platform API, without a trailing slash.
	API string
	// Login is the address of the token endpoint.
	Login string
	// Agent is the User-Agent header.
	Agent string
	// Warn is called with warnings of the API.
	Warn func(string)
	// ID and Secret are those of the login's OAuth client, if it is not cf.
	ID, Secret string
	// Renew, if it is set, renews tokens by calling grant, so that commands which share a
	// login take turns, and saves the new ones.
	Renew func(ctx context.Context, old Tokens, grant Granting) (Tokens, error)

	http *http.Client

	mu     sync.Mutex
	tokens Tokens
}

// Tokens are the tokens of a login.
type Tokens struct{ Access, Refresh string }

// Granting requests new tokens in place of old ones.
type Granting func(ctx context.Context, old Tokens) (Tokens, error)

// Trust says which certificates of servers are accepted.
type Trust struct {
	// Any accepts every certificate.
	Any bool
	// CA are certificates in PEM form that are accepted in addition to those of the system.
	CA string
}

// roots returns the certificates that are trusted, nil for those of the system.
func (t Trust) roots() *x509.CertPool {
	if t.CA == "" {
		return nil
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	pool.AppendCertsFromPEM([]byte(t.CA))
	return pool
}

// New returns a client for an API.
func New(api string, trust Trust, tokens Tokens) *Client {
	return &Client{
		API: strings.TrimRight(api, "/"), tokens: tokens, Agent: "ingot",
		http: &http.Client{
			Transport: &http.Transport{
				Proxy:               http.ProxyFromEnvironment,
				DialContext:         (&net.Dialer{Timeout: 15 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
				TLSHandshakeTimeout: 15 * time.Second,
				MaxIdleConnsPerHost: 8, IdleConnTimeout: 30 * time.Second,
				ForceAttemptHTTP2: true,
				TLSClientConfig: &tls.Config{
					MinVersion:         tls.VersionTLS12,
					RootCAs:            trust.roots(),
					InsecureSkipVerify: trust.Any, //nolint:gosec // only when the user asked for it
				},
			},
			// Redirects lead to blob stores and to web pages; the client does not
			// follow them.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

// Close closes idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Call is one request.
type Call struct {
	Method string
	// URL is a path of the API, or an absolute URL.
	URL   string
	Query url.Values
	// Body is a []byte, a Stream, a value to encode as JSON, or nil.
	Body        any
	ContentType string
	Accept      string
	Header      http.Header
	// Into receives the JSON of the response.
	Into any
	// Token authorizes the call instead of the client's login. Use Anonymous to
	// send none.
	Token string
}

// Anonymous is the Token of calls without authorization.
const Anonymous = "-"

// Stream is a body that can be read again when the call is retried.
type Stream struct {
	Open   func() (io.ReadCloser, error)
	Length int64
}

// Reply is a response.
type Reply struct {
	Status int
	Header http.Header
	Body   []byte
}

// maxBody limits the length of a response.
const maxBody = 256 << 20

// Do makes a call. For status 400 and above it returns an *Error and the reply.
func (c *Client) Do(ctx context.Context, call Call) (*Reply, error) {
	reply, err := c.try(ctx, call)
	if err == nil && reply.Status == http.StatusUnauthorized && call.Token == "" && c.renewable() {
		// The server may reject a token before its expiry.
		if _, renewErr := c.renew(ctx, c.current().Access); renewErr == nil {
			reply, err = c.try(ctx, call)
		}
	}
	if err != nil {
		return nil, err
	}
	c.warnings(reply.Header)
	if reply.Status >= http.StatusBadRequest {
		return reply, newError(call, reply)
	}
	if call.Into != nil && len(reply.Body) > 0 && reply.Status != http.StatusNoContent {
		if err := json.Unmarshal(reply.Body, call.Into); err != nil {
			return reply, fmt.Errorf("%s %s returned unexpected JSON: %w", call.Method, call.URL, err)
		}
	}
	return reply, nil
}

// try makes a call, up to three times if repeating it is safe.
func (c *Client) try(ctx context.Context, call Call) (*Reply, error) {
	tries := 3
	if call.Method == http.MethodPost {
		tries = 1
	}
	pause := 50 * time.Millisecond
	for {
		reply, err := c.once(ctx, call)
		tries--
		failed := err != nil || reply.Status == http.StatusBadGateway || reply.Status == http.StatusServiceUnavailable ||
			reply.Status == http.StatusGatewayTimeout
		var final *finalError
		if !failed || tries == 0 || ctx.Err() != nil || errors.As(err, &final) {
			return reply, explain(c.API, err)
		}
		if waitErr := wait(ctx, pause); waitErr != nil {
			return nil, waitErr
		}
		pause *= 4
	}
}

// finalError is an error that a retry would only repeat.
type finalError struct{ error }

func (e *finalError) Unwrap() error { return e.error }

func (c *Client) once(ctx context.Context, call Call) (*Reply, error) {
	req, err := c.request(ctx, call)
	if err != nil {
		return nil, &finalError{err}
	}
	switch call.Token {
	case Anonymous:
	case "":
		token, err := c.Token(ctx)
		if err != nil {
			return nil, &finalError{err}
		}
		if token != "" {
			req.Header.Set("Authorization", "bearer "+token)
		}
	default:
		req.Header.Set("Authorization", "bearer "+call.Token)
	}
	res, err := c.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	body, err := readBody(res.Body, maxBody)
	if err != nil {
		return nil, err
	}
	return &Reply{Status: res.StatusCode, Header: res.Header, Body: body}, nil
}

// readBody reads a response of up to most bytes.
func readBody(r io.Reader, most int64) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(r, most+1))
	if err == nil && int64(len(body)) > most {
		return nil, &finalError{fmt.Errorf("the response is longer than %d MiB", most>>20)}
	}
	return body, err
}

func (c *Client) request(ctx context.Context, call Call) (*http.Request, error) {
	address := call.URL
	if !strings.Contains(address, "://") {
		address = c.API + "/" + strings.TrimLeft(address, "/")
	}
	if len(call.Query) > 0 {
		separator := "?"
		if strings.Contains(address, "?") {
			separator = "&"
		}
		address += separator + call.Query.Encode()
	}
	kind := call.ContentType
	var body io.Reader
	length := int64(-1)
	switch b := call.Body.(type) {
	case nil:
	case []byte:
		body = bytes.NewReader(b)
	case Stream:
		r, err := b.Open()
		if err != nil {
			return nil, err
		}
		body, length = r, b.Length
	default:
		content, err := json.Marshal(b)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(content)
		if kind == "" {
			kind = "application/json"
		}
	}
	req, err := http.NewRequestWithContext(ctx, call.Method, address, body)
	if err != nil {
		return nil, err
	}
	if length >= 0 {
		req.ContentLength = length
	}
	req.Header.Set("User-Agent", c.Agent)
	req.Header.Set("Accept", "application/json")
	if call.Accept != "" {
		req.Header.Set("Accept", call.Accept)
	}
	if kind != "" {
		req.Header.Set("Content-Type", kind)
	}
	for name, values := range call.Header {
		req.Header[name] = values
	}
	return req, nil
}

// warnings passes on the warnings of the API.
func (c *Client) warnings(h http.Header) {
	if c.Warn == nil {
		return
	}
	for _, line := range slices.Concat(h.Values("X-Cf-Warnings"), h.Values("X-Notifications-Warnings")) {
		for part := range strings.SplitSeq(line, ",") {
			if text, err := url.QueryUnescape(part); err == nil && text != "" {
				c.Warn(strings.TrimSpace(text))
			}
		}
	}
}

// Get sends a GET request.
func (c *Client) Get(ctx context.Context, path string, query url.Values, into any) error {
	_, err := c.Do(ctx, Call{Method: http.MethodGet, URL: path, Query: query, Into: into})
	return err
}

// Post sends a POST request.
func (c *Client) Post(ctx context.Context, path string, body, into any) (*Reply, error) {
	return c.Do(ctx, Call{Method: http.MethodPost, URL: path, Body: body, Into: into})
}

// Patch sends a PATCH request.
func (c *Client) Patch(ctx context.Context, path string, body, into any) (*Reply, error) {
	return c.Do(ctx, Call{Method: http.MethodPatch, URL: path, Body: body, Into: into})
}

// Delete deletes a resource and waits until it is gone.
func (c *Client) Delete(ctx context.Context, path string) error {
	reply, err := c.Do(ctx, Call{Method: http.MethodDelete, URL: path})
	if err != nil {
		return err
	}
	return c.Job(ctx, reply)
}
