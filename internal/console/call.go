package console

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"ingot/internal/base/fault"
	"ingot/internal/base/logging"
	"ingot/internal/base/web"
)

// caller calls the APIs for a user.
type caller struct {
	ctx     context.Context
	session *Session
	to      http.Handler
	from    string // the address of the browser
	header  http.Header
}

// browser returns the address of the browser that sent a request. The APIs limit what comes
// from one address: without it, all users behind a proxy would share a limit.
func (c *Console) browser(r *http.Request) string {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if client := c.options.Proxies.Client(r); err == nil && client.IsValid() {
		return netip.AddrPortFrom(client, peer.Port()).String()
	}
	return r.RemoteAddr
}

func (c *Console) platform(r *http.Request, s *Session) *caller {
	return &caller{ctx: r.Context(), session: s, to: c.options.Platform, from: c.browser(r)}
}

// notifications returns a caller of the notification service.
func (c *Console) notifications(r *http.Request, s *Session) *caller {
	return &caller{ctx: r.Context(), session: s, to: c.options.Notifications, from: c.browser(r)}
}

// auth returns a caller of the authorization server: users, groups and clients.
func (c *Console) auth(r *http.Request, s *Session) *caller {
	return &caller{ctx: r.Context(), session: s, to: c.authServer(), from: c.browser(r)}
}

// authServer returns the handler of the authorization server: this one, or another.
func (c *Console) authServer() http.Handler {
	if c.options.AuthURL == "" {
		return c.options.Platform
	}
	return remote{c.options.AuthURL, c.options.AuthClient}
}

// remote sends requests to another server.
type remote struct {
	url    string
	client *http.Client
}

// answerSize limits the answers of another server.
const answerSize = 16 << 20

// ServeHTTP implements http.Handler for a recorder.
func (o remote) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	out, err := http.NewRequestWithContext(r.Context(), r.Method, o.url+r.RequestURI, r.Body)
	if err == nil {
		out.Header = r.Header
		var resp *http.Response
		client := *o.client
		client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
		if resp, err = client.Do(out); err == nil {
			defer resp.Body.Close()
			var body []byte
			body, err = io.ReadAll(io.LimitReader(resp.Body, answerSize+1))
			if len(body) > answerSize {
				err = errors.New("the response is too long")
			}
			if err == nil {
				w.Header().Set("Location", resp.Header.Get("Location"))
				w.WriteHeader(resp.StatusCode)
				_, err = w.Write(body)
			}
		}
	}
	if err != nil {
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprint(w, `{"error_description":"The authorization server cannot be reached. Try again in a moment."}`)
	}
}

// request returns a request with the user's token.
func (c *caller) request(method, path string, body any) (*http.Request, error) {
	var b bytes.Buffer
	if body != nil {
		if err := json.NewEncoder(&b).Encode(body); err != nil {
			return nil, err
		}
	}
	req, err := http.NewRequestWithContext(c.ctx, method, path, &b)
	if err != nil {
		return nil, err
	}
	req.RequestURI, req.RemoteAddr = path, c.from
	req.Header.Set("Authorization", "Bearer "+c.session.Secrets.Access)
	req.Header.Set("Content-Type", "application/json")
	maps.Copy(req.Header, c.header)
	if id := logging.RequestID(c.ctx); id != "" {
		req.Header.Set(web.RequestIDHeader, id)
	}
	return req, nil
}

// do calls an API and decodes its answer into out, unless out is nil. An error response is
// an error with its code and its text.
func (c *caller) do(method, path string, body, out any) error {
	return c.with(nil, method, path, body, out)
}

// with is do with additional headers.
func (c *caller) with(header map[string]string, method, path string, body, out any) error {
	raw, err := c.raw(header, method, path, body)
	if err != nil || out == nil {
		return err
	}
	if err := json.Unmarshal(raw, out); err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	return nil
}

// raw calls an API and returns the body of its answer.
func (c *caller) raw(header map[string]string, method, path string, body any) ([]byte, error) {
	req, err := c.request(method, path, body)
	if err != nil {
		return nil, err
	}
	for name, value := range header {
		req.Header.Set(name, value)
	}
	w := newRecorder()
	c.to.ServeHTTP(w, req)
	if err := c.ctx.Err(); err != nil {
		return nil, err // the browser is gone, and so may be the response
	}
	if w.status >= http.StatusBadRequest {
		return nil, errorOf(w.status, w.body.Bytes())
	}
	return w.body.Bytes(), nil
}

func (c *caller) get(out any, path string, q url.Values) error {
	if len(q) > 0 {
		path += "?" + q.Encode()
	}
	return c.do(http.MethodGet, path, nil, out)
}

// list is a page of a list of the API.
type list[T any] struct {
	Resources  []T `json:"resources"`
	Pagination struct {
		Total int `json:"total_results"`
	} `json:"pagination"`
}

// most is how many resources a list of the API returns at most.
const most = 5000

// all returns the resources of a list, up to the most that one page has. The page of the
// console says so if there are more, unless q has per_page.
func all[T any](c *caller, path string, q url.Values) ([]T, error) {
	if q == nil {
		q = url.Values{}
	}
	whole := q.Get("per_page") == ""
	if whole {
		q.Set("per_page", strconv.Itoa(most))
	}
	var l list[T]
	err := c.get(&l, path, q)
	if whole {
		noteCut(c.ctx, path, len(l.Resources), l.Pagination.Total)
	}
	return l.Resources, err
}

// errorText is the text of an error: of the platform an object with detail, of the notification
// service a string.
type errorText string

// UnmarshalJSON implements json.Unmarshaler.
func (e *errorText) UnmarshalJSON(raw []byte) error {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		*e = errorText(text)
		return nil
	}
	var v struct {
		Detail string `json:"detail"`
	}
	err := json.Unmarshal(raw, &v)
	*e = errorText(v.Detail)
	return err
}

// errorOf returns the error that a response of an API stands for.
func errorOf(status int, body []byte) error {
	var v struct {
		Errors      []errorText `json:"errors"`
		Description string      `json:"error_description"`
	}
	text := ""
	if json.Unmarshal(body, &v) == nil {
		text = v.Description
		for _, e := range v.Errors {
			text = strings.TrimSpace(text + " " + string(e))
		}
	}
	if text == "" {
		text = http.StatusText(status)
	}
	code := fault.BadGateway
	switch status {
	case http.StatusUnauthorized:
		code = fault.Unauthenticated
	case http.StatusForbidden:
		code = fault.Forbidden
	case http.StatusNotFound:
		code = fault.NotFound
	case http.StatusBadRequest, http.StatusUnprocessableEntity:
		code = fault.Unprocessable
	case http.StatusConflict:
		code = fault.Conflict
	case http.StatusTooManyRequests:
		code = fault.RateLimited
	case http.StatusServiceUnavailable, http.StatusInsufficientStorage:
		code = fault.Unavailable
	}
	return fault.New(code, "%s", text)
}

// recorder keeps a response in memory.
type recorder struct {
	header http.Header
	status int
	wrote  bool
	body   bytes.Buffer
}

func newRecorder() *recorder { return &recorder{header: http.Header{}, status: http.StatusOK} }

func (w *recorder) Header() http.Header { return w.header }

func (w *recorder) WriteHeader(status int) {
	if !w.wrote {
		w.status, w.wrote = status, true
	}
}

func (w *recorder) Write(b []byte) (int, error) {
	w.wrote = true
	return w.body.Write(b)
}
