package client

import (
	"bytes"
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
)

// Client calls one API. Its methods may be used by several goroutines.
type Client struct {
	// API is the address of the platform API, without a slash at its end.
	API string
	// Login is the address of the token endpoint.
	Login string
	// Agent names the program.
	Agent string
	// Warn is told what the API warns of.
	Warn func(string)
	// Renewed is told new tokens, to keep them.
	Renewed func(Tokens)

	http *http.Client

	mu     sync.Mutex
	tokens Tokens
}

// Tokens are a login.
type Tokens struct{ Access, Refresh string }

// New returns a client of an API.
func New(api string, skipTLS bool, tokens Tokens) *Client {
	return &Client{
		API: strings.TrimRight(api, "/"), tokens: tokens, Agent: "ingot",
		http: &http.Client{
			Transport: &http.Transport{
				Proxy:               http.ProxyFromEnvironment,
				DialContext:         (&net.Dialer{Timeout: 15 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
				TLSHandshakeTimeout: 15 * time.Second,
				MaxIdleConnsPerHost: 8, IdleConnTimeout: 30 * time.Second,
				ForceAttemptHTTP2: true,
				TLSClientConfig:   &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: skipTLS}, //nolint:gosec // only when the user asked for it
			},
			// Redirects lead to blob stores, and to pages for people.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

// Close drops idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Call is one request.
type Call struct {
	Method string
	// URL is a path of the API, or a whole address.
	URL   string
	Query url.Values
	// Body is bytes, a Stream, or what becomes JSON. nil is none.
	Body        any
	ContentType string
	Accept      string
	Header      http.Header
	// Into takes a JSON answer.
	Into any
	// Token is what authorizes the call in place of the login; Anonymous is none.
	Token string
}

// Anonymous is the token of calls that need none.
const Anonymous = "-"

// Stream is a body that can be read again when the call is repeated.
type Stream struct {
	Open   func() (io.ReadCloser, error)
	Length int64
}

// Reply is an answer.
type Reply struct {
	Status int
	Header http.Header
	Body   []byte
}

// maxBody bounds what is read of an answer.
const maxBody = 256 << 20

// Do makes a call. An answer of 400 and above is an *Error, with the reply.
func (c *Client) Do(ctx context.Context, call Call) (*Reply, error) {
	reply, err := c.try(ctx, call)
	if err == nil && reply.Status == http.StatusUnauthorized && call.Token == "" && c.current().Refresh != "" {
		// The server may have other ideas than the token's own end.
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
			return reply, fmt.Errorf("%s %s answered something that is not the JSON expected: %w", call.Method, call.URL, err)
		}
	}
	return reply, nil
}

// try makes a call, up to three times where that is harmless.
func (c *Client) try(ctx context.Context, call Call) (*Reply, error) {
	tries := 3
	if call.Method == http.MethodPost {
		tries = 1
	}
	pause := 50 * time.Millisecond
	for {
		reply, err := c.once(ctx, call)
		tries--
		failed := err != nil || reply.Status == http.StatusBadGateway || reply.Status == http.StatusServiceUnavailable || reply.Status == http.StatusGatewayTimeout
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

// finalError is one that another try would only repeat.
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
	body, err := io.ReadAll(io.LimitReader(res.Body, maxBody))
	if err != nil {
		return nil, err
	}
	return &Reply{Status: res.StatusCode, Header: res.Header, Body: body}, nil
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

// warnings passes on what the API wants people to know.
func (c *Client) warnings(h http.Header) {
	if c.Warn == nil {
		return
	}
	for _, line := range h.Values("X-Cf-Warnings") {
		for part := range strings.SplitSeq(line, ",") {
			if text, err := url.QueryUnescape(part); err == nil && text != "" {
				c.Warn(strings.TrimSpace(text))
			}
		}
	}
}

// Get reads something.
func (c *Client) Get(ctx context.Context, path string, query url.Values, into any) error {
	_, err := c.Do(ctx, Call{Method: http.MethodGet, URL: path, Query: query, Into: into})
	return err
}

// Post sends something.
func (c *Client) Post(ctx context.Context, path string, body, into any) (*Reply, error) {
	return c.Do(ctx, Call{Method: http.MethodPost, URL: path, Body: body, Into: into})
}

// Patch changes something.
func (c *Client) Patch(ctx context.Context, path string, body, into any) (*Reply, error) {
	return c.Do(ctx, Call{Method: http.MethodPatch, URL: path, Body: body, Into: into})
}

// Delete removes something, and waits until it is gone.
func (c *Client) Delete(ctx context.Context, path string) error {
	reply, err := c.Do(ctx, Call{Method: http.MethodDelete, URL: path})
	if err != nil {
		return err
	}
	return c.Job(ctx, reply)
}
