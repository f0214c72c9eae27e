package page

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"ingot/internal/base/background"
	"ingot/internal/base/cfapi"
	"ingot/internal/base/fault"
	"ingot/internal/base/logging"
	"ingot/internal/base/web"
)

// Caller calls the APIs for a user.
type Caller struct {
	ctx     context.Context
	Session *Session
	to      http.Handler
	from    string // the address of the browser
}

// Browser returns the address of the browser that sent a request. The APIs limit what comes
// from one address: without it, all users behind a proxy would share a limit.
func (c *Console) Browser(r *http.Request) string {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if client := c.Options.Proxies.Client(r); err == nil && client.IsValid() {
		return netip.AddrPortFrom(client, peer.Port()).String()
	}
	return r.RemoteAddr
}

// Platform returns a caller of the platform API and the log cache.
func (c *Console) Platform(r *http.Request, s *Session) *Caller {
	return &Caller{ctx: r.Context(), Session: s, to: c.Options.Platform, from: c.Browser(r)}
}

// Notifications returns a caller of the notification service.
func (c *Console) Notifications(r *http.Request, s *Session) *Caller {
	return &Caller{ctx: r.Context(), Session: s, to: c.Options.Notifications, from: c.Browser(r)}
}

// Auth returns a caller of the authorization server: users, groups and clients.
func (c *Console) Auth(r *http.Request, s *Session) *Caller {
	return &Caller{ctx: r.Context(), Session: s, to: c.authServer(), from: c.Browser(r)}
}

// authServer returns the handler of the authorization server: this one, or another.
func (c *Console) authServer() http.Handler {
	if c.Options.AuthURL == "" {
		return c.Options.Platform
	}
	return remote{c.Options.AuthURL, c.Options.AuthClient}
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

// Request returns a request with the user's token.
func (c *Caller) Request(method, path string, body any) (*http.Request, error) {
	var b bytes.Buffer
	if body != nil {
		if err := json.NewEncoder(&b).Encode(body); err != nil {
			return nil, err
		}
	}
	return c.request(method, path, "application/json", &b)
}

// request returns a request with a body of a media type.
func (c *Caller) request(method, path, kind string, body io.Reader) (*http.Request, error) {
	req, err := http.NewRequestWithContext(c.ctx, method, path, body)
	if err != nil {
		return nil, err
	}
	req.RequestURI, req.RemoteAddr = path, c.from
	req.Header.Set("Authorization", "Bearer "+c.Session.Secrets.Access)
	req.Header.Set("Content-Type", kind)
	if id := logging.RequestID(c.ctx); id != "" {
		req.Header.Set(web.RequestIDHeader, id)
	}
	return req, nil
}

// Serve sends a request made by Request, and writes the response to w as it arrives.
func (c *Caller) Serve(w http.ResponseWriter, req *http.Request) { c.to.ServeHTTP(w, req) }

// Redirected calls an API that answers with a redirect, and returns the query of its target.
func (c *Caller) Redirected(path string) (url.Values, error) {
	req, err := c.Request(http.MethodGet, path, nil)
	if err != nil {
		return nil, err
	}
	w := newRecorder()
	c.to.ServeHTTP(w, req)
	if w.status >= http.StatusBadRequest {
		return nil, ErrorOf(w.status, w.body.Bytes())
	}
	to, err := url.Parse(w.header.Get("Location"))
	if err != nil {
		return nil, fmt.Errorf("GET %s: %w", path, err)
	}
	return to.Query(), nil
}

// Do calls an API and decodes its answer into out, unless out is nil. An error response is
// an error with its code and its text.
func (c *Caller) Do(method, path string, body, out any) error {
	return c.With(nil, method, path, body, out)
}

// With is like Do, with additional headers.
func (c *Caller) With(header map[string]string, method, path string, body, out any) error {
	raw, err := c.Raw(header, method, path, body)
	if err != nil || out == nil {
		return err
	}
	if err := json.Unmarshal(raw, out); err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	return nil
}

// Raw calls an API and returns the body of its answer.
func (c *Caller) Raw(header map[string]string, method, path string, body any) ([]byte, error) {
	req, err := c.Request(method, path, body)
	if err != nil {
		return nil, err
	}
	for name, value := range header {
		req.Header.Set(name, value)
	}
	return c.answer(req)
}

// Upload sends a file of a media type as it is read, and decodes the answer into out.
func (c *Caller) Upload(path, kind string, file io.Reader, out any) error {
	req, err := c.request(http.MethodPost, path, kind, io.NopCloser(file))
	if err != nil {
		return err
	}
	raw, err := c.answer(req)
	if err != nil {
		return err
	}
	return json.Unmarshal(raw, out)
}

// Order sends a text of a media type to an API that works on it in a job, and returns the path of the job.
func (c *Caller) Order(path, kind, text string) (job string, err error) {
	req, err := c.request(http.MethodPost, path, kind, strings.NewReader(text))
	if err != nil {
		return "", err
	}
	w := newRecorder()
	c.to.ServeHTTP(w, req)
	if w.status >= http.StatusBadRequest {
		return "", ErrorOf(w.status, w.body.Bytes())
	}
	at, err := url.Parse(w.header.Get("Location"))
	if err != nil {
		return "", fmt.Errorf("POST %s: %w", path, err)
	}
	return at.EscapedPath(), nil
}

// answer sends a request and returns the body of its answer.
func (c *Caller) answer(req *http.Request) ([]byte, error) {
	w := newRecorder()
	c.to.ServeHTTP(w, req)
	if err := c.ctx.Err(); err != nil {
		return nil, err // the browser is gone, and so may be the response
	}
	if w.status >= http.StatusBadRequest {
		return nil, ErrorOf(w.status, w.body.Bytes())
	}
	return w.body.Bytes(), nil
}

// Get reads a resource or a list.
func (c *Caller) Get(out any, path string, q url.Values) error {
	if len(q) > 0 {
		path += "?" + q.Encode()
	}
	return c.Do(http.MethodGet, path, nil, out)
}

// MaxResources is how many resources a list of the API returns at most.
const MaxResources = 5000

// All returns the resources of a list, up to the most that one page has. The page of the
// console says so if there are more, unless q has per_page.
func All[T any](c *Caller, path string, q url.Values) ([]T, error) {
	l, err := AllWith[T, json.RawMessage](c, path, q)
	return l.Resources, err
}

// AllWith is All for a list that includes other resources.
func AllWith[T, I any](c *Caller, path string, q url.Values) (l cfapi.List[T, I], err error) {
	if q == nil {
		q = url.Values{}
	}
	whole := q.Get("per_page") == ""
	if whole {
		q.Set("per_page", strconv.Itoa(MaxResources))
	}
	err = c.Get(&l, path, q)
	if whole {
		noteCut(c.ctx, path, len(l.Resources), l.Pagination.Total)
	}
	return l, err
}

// List returns a function for Together that reads a list with All.
func List[T any](c *Caller, into *[]T, path string, q url.Values) func() error {
	return func() (err error) {
		*into, err = All[T](c, path, q)
		return err
	}
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

// ErrorOf returns the error that a response of an API stands for.
func ErrorOf(status int, body []byte) error {
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
	case http.StatusRequestEntityTooLarge:
		code = fault.TooLarge
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

// Together calls functions at the same time and returns their first error.
func Together(calls ...func() error) error {
	errs := make([]error, len(calls))
	var group background.WaitGroup
	for i, call := range calls {
		group.Try("console", &errs[i], call)
	}
	group.Wait()
	return cmp.Or(errs...)
}

// Gone reports whether an error says that a resource does not exist.
func Gone(err error) bool { return fault.Is(err, fault.NotFound) }
