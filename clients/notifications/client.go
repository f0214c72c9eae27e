package notifications

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Client sends requests to a notification service. It is safe for concurrent use.
type Client struct {
	base  string
	http  *http.Client
	token TokenSource
}

// TokenSource returns an access token. stale is a token that the service refused: the
// source must not return it again. It is empty otherwise.
type TokenSource func(ctx context.Context, stale string) (string, error)

// Options configure New.
type Options struct {
	// URL is the address of the notification service.
	URL   string
	Token TokenSource
	// HTTP sends the requests; nil is a client with a timeout of a minute for the headers of a response.
	HTTP *http.Client
}

// New returns a client.
func New(o Options) (*Client, error) {
	if u, err := url.Parse(o.URL); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("notifications: %q is not an http or https address", o.URL)
	}
	if o.Token == nil {
		return nil, errors.New("notifications: Options.Token is missing")
	}
	if o.HTTP == nil {
		o.HTTP = defaultHTTP()
	}
	return &Client{base: strings.TrimRight(o.URL, "/"), http: o.HTTP, token: o.Token}, nil
}

// defaultHTTP limits how long a response may take to begin. It does not limit whole
// requests, because a list of recipients may be long.
func defaultHTTP() *http.Client {
	t := &http.Transport{Proxy: http.ProxyFromEnvironment, ResponseHeaderTimeout: time.Minute, ForceAttemptHTTP2: true,
		TLSHandshakeTimeout: 10 * time.Second, MaxIdleConnsPerHost: 16, IdleConnTimeout: 90 * time.Second}
	return &http.Client{Transport: t, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse // a token goes nowhere else
	}}
}

// Error is a response that is not a success.
type Error struct {
	Status int
	// Reasons say what was wrong; empty if the response had none.
	Reasons []string
}

func (e *Error) Error() string {
	if len(e.Reasons) == 0 {
		return fmt.Sprintf("notifications: %d %s", e.Status, http.StatusText(e.Status))
	}
	return "notifications: " + strings.Join(e.Reasons, "; ")
}

// IsNotFound reports whether err says that something does not exist.
func IsNotFound(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Status == http.StatusNotFound
}

// maxResponse limits what is read of a response that is not streamed.
const maxResponse = 64 << 20

// attempts is how often a request is sent at most.
const attempts = 4

// request is one request, which may be sent several times.
type request struct {
	method, path string
	header       http.Header
	// body returns a new reader of the body; nil if there is none. It is called for each attempt.
	body func() (io.Reader, error)
}

// repeatable reports whether a request has no further effect when the first one arrived, although its response did not.
func (r *request) repeatable() bool {
	return r.method != http.MethodPost || r.header.Get("Idempotency-Key") != ""
}

// call sends in as JSON, unless it is nil, and decodes the response into out, unless that is nil.
func (c *Client) call(ctx context.Context, method, path string, in, out any) error {
	r := request{method: method, path: path, header: http.Header{}}
	if in != nil {
		text, err := json.Marshal(in)
		if err != nil {
			return fmt.Errorf("notifications: %w", err)
		}
		r.header.Set("Content-Type", "application/json")
		r.body = func() (io.Reader, error) { return bytes.NewReader(text), nil }
	}
	return c.do(ctx, r, out)
}

// do sends a request until it succeeds or fails for good.
func (c *Client) do(ctx context.Context, r request, out any) error {
	stale := ""
	for attempt := 1; ; attempt++ {
		token, err := c.token(ctx, stale)
		if err != nil {
			return err
		}
		resp, err := c.once(ctx, r, token)
		if err == nil && resp.StatusCode < 300 {
			return decode(resp, out)
		}
		again, wait := r.repeatable(), time.Duration(attempt*attempt)*250*time.Millisecond
		if err == nil {
			err = failure(resp)
			switch resp.StatusCode {
			case http.StatusUnauthorized:
				if stale != "" {
					return err
				}
				stale, again, wait = token, true, 0
			case http.StatusTooManyRequests, http.StatusServiceUnavailable: // nothing was done
				again, wait = true, retryAfter(resp, wait)
			case http.StatusBadGateway, http.StatusGatewayTimeout:
			default:
				return err
			}
		}
		if !again || errors.As(err, new(bodyError)) || attempt == attempts || !sleep(ctx, wait) {
			return err
		}
	}
}

// bodyError is an error of the caller's body: trying again cannot mend it.
type bodyError struct{ error }

func (e bodyError) Unwrap() error { return e.error }

func (c *Client) once(ctx context.Context, r request, token string) (*http.Response, error) {
	var body io.Reader
	if r.body != nil {
		b, err := r.body()
		if err != nil {
			return nil, bodyError{err}
		}
		body = b
	}
	req, err := http.NewRequestWithContext(ctx, r.method, c.base+r.path, body)
	if err != nil {
		return nil, bodyError{fmt.Errorf("notifications: %w", err)}
	}
	for name, values := range r.header {
		req.Header[name] = values
	}
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("notifications: %w", err)
	}
	return resp, nil
}

// sleep returns false if the context ended, or would end before.
func sleep(ctx context.Context, d time.Duration) bool {
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < d {
		return false
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// retryAfter returns how long a response asks to wait, or otherwise.
func retryAfter(resp *http.Response, otherwise time.Duration) time.Duration {
	seconds, err := strconv.Atoi(resp.Header.Get("Retry-After"))
	if err != nil || seconds < 0 {
		return otherwise
	}
	return time.Duration(min(seconds, 60)) * time.Second
}

// failure reads the reasons of a response that is not a success.
func failure(resp *http.Response) error {
	defer resp.Body.Close()
	e := &Error{Status: resp.StatusCode}
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<20)) // without the reasons, the status remains
	var all struct {
		Errors []string `json:"errors"`
		Error  string   `json:"error"`
	}
	if json.Unmarshal(text, &all) == nil {
		e.Reasons = all.Errors
		if all.Error != "" {
			e.Reasons = append(e.Reasons, all.Error)
		}
	}
	return e
}

func decode(resp *http.Response, out any) error {
	defer resp.Body.Close()
	if out == nil {
		return nil
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxResponse)).Decode(out); err != nil {
		return fmt.Errorf("notifications: the response is not what was expected: %w", err)
	}
	return nil
}

// ClientCredentials returns a source of tokens for an OAuth client. authURL is the address of the
// authorization server.
func ClientCredentials(authURL, id, secret string) TokenSource {
	s := &credentials{id: id, secret: secret, http: defaultHTTP()}
	s.url = strings.TrimRight(authURL, "/") + "/oauth/token"
	return s.get
}

// credentials keeps a token until shortly before it expires.
type credentials struct {
	url, id, secret string
	http            *http.Client

	mu      sync.Mutex
	token   string
	expires time.Time
}

func (s *credentials) get(ctx context.Context, stale string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.token != "" && s.token != stale && time.Now().Before(s.expires) {
		return s.token, nil
	}
	form := url.Values{"grant_type": {"client_credentials"}}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url, strings.NewReader(form.Encode()))
	if err != nil {
		return "", fmt.Errorf("notifications: %w", err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.SetBasicAuth(url.QueryEscape(s.id), url.QueryEscape(s.secret))
	resp, err := s.http.Do(req)
	if err != nil {
		return "", fmt.Errorf("notifications: a token: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("notifications: a token for client %q: %w", s.id, failure(resp))
	}
	var t struct {
		AccessToken string `json:"access_token"`
		ExpiresIn   int    `json:"expires_in"`
	}
	if err := decode(resp, &t); err != nil {
		return "", err
	}
	lifetime := time.Duration(t.ExpiresIn) * time.Second
	s.token, s.expires = t.AccessToken, time.Now().Add(lifetime-min(time.Minute, lifetime/10))
	return s.token, nil
}

// FromVCAP returns a client with the credentials of a bound service. services is the value of VCAP_SERVICES. name
// is that of the service instance; with "" the first service of the offering "notifications" is used.
func FromVCAP(services, name string) (*Client, error) {
	var offerings map[string][]struct {
		Name        string
		Credentials struct {
			URL          string
			AuthURL      string `json:"auth_url"`
			ClientID     string `json:"client_id"`
			ClientSecret string `json:"client_secret"`
		}
	}
	if err := json.Unmarshal([]byte(services), &offerings); err != nil {
		return nil, fmt.Errorf("notifications: VCAP_SERVICES: %w", err)
	}
	for offering, instances := range offerings {
		for _, i := range instances {
			if name == "" && offering == "notifications" || name != "" && i.Name == name {
				c := i.Credentials
				return New(Options{URL: c.URL, Token: ClientCredentials(c.AuthURL, c.ClientID, c.ClientSecret)})
			}
		}
	}
	if name == "" {
		return nil, errors.New("notifications: VCAP_SERVICES has no service of the offering notifications; " +
			"create one with cf create-service notifications default NAME, bind it, and restage the app")
	}
	return nil, fmt.Errorf("notifications: VCAP_SERVICES has no service instance %q", name)
}
