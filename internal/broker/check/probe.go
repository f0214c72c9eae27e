package check

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/base/pattern"
)

// Version is the version of the API.
const Version = "2.17"

// The headers of the API.
const (
	versionHeader  = "X-Broker-API-Version"
	originHeader   = "X-Broker-API-Originating-Identity"
	identityHeader = "X-Broker-API-Request-Identity"
)

// Options configure a run of the checks.
type Options struct {
	URL                string
	Username, Password string
	// Service and Plan select the plan to test. If empty, one plan of each
	// offering is tested, a free one if possible.
	Service, Plan string
	// Client is used for requests; nil means one with a timeout.
	Client *http.Client
	// Poll is the interval for polling the last operation; 0 means a second. A
	// broker's Retry-After takes precedence.
	Poll time.Duration
	// Patience is how long an asynchronous operation may take; 0 means 10
	// minutes.
	Patience time.Duration
}

// Run checks a broker. It returns an error if the broker could not be reached or
// the options are invalid; violations are in the report.
func Run(ctx context.Context, o Options) (*Report, error) {
	u, err := url.Parse(o.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, errors.New("the broker's URL must look like https://HOST:PORT")
	}
	if u.User != nil {
		return nil, errors.New("give the user name and the password apart from the URL")
	}
	if o.Client == nil {
		o.Client = &http.Client{Timeout: 5 * time.Minute}
	}
	o.Poll = cmp.Or(o.Poll, time.Second)
	o.Patience = cmp.Or(o.Patience, 10*time.Minute)
	r := &runner{ctx: ctx, o: o, base: strings.TrimRight(o.URL, "/"), report: &Report{URL: o.URL, Version: Version,
		Began: time.Now().UTC()}}
	if err := r.reachable(); err != nil {
		return nil, err
	}
	r.all()
	r.report.Seconds = time.Since(r.report.Began).Seconds()
	return r.report, ctx.Err()
}

type runner struct {
	ctx     context.Context //nolint:containedctx // of the one run
	o       Options
	base    string
	report  *Report
	subject string
}

func (r *runner) reachable() error {
	req, err := http.NewRequestWithContext(r.ctx, http.MethodGet, r.base+"/v2/catalog", nil)
	if err != nil {
		return err
	}
	resp, err := r.o.Client.Do(req)
	if err != nil {
		return fmt.Errorf("connect to the broker: %w", err)
	}
	return resp.Body.Close()
}

// probe is a check in progress.
type probe struct {
	r      *runner
	result Result
}

// stop is the panic value that ends a check.
type stop struct{}

// check runs a check, which passes if f returns.
func (r *runner) check(section, name string, f func(p *probe)) bool {
	p := &probe{r: r, result: Result{Section: section, Subject: r.subject, Name: name, Outcome: Pass}}
	func() {
		defer func() {
			if e := recover(); e != nil {
				if _, ok := e.(stop); !ok {
					panic(e)
				}
			}
		}()
		f(p)
	}()
	r.report.add(p.result)
	return p.result.Outcome == Pass || p.result.Outcome == Warn
}

func (p *probe) end(o Outcome, format string, args ...any) {
	p.result.Outcome, p.result.Reason = o, fmt.Sprintf(format, args...)
	panic(stop{})
}

func (p *probe) fail(format string, args ...any) { p.end(Fail, format, args...) }
func (p *probe) skip(why string)                 { p.end(Skip, "%s", why) }

// warn continues the check, which may still fail.
func (p *probe) warn(format string, args ...any) {
	p.result.Outcome, p.result.Reason = Warn, fmt.Sprintf(format, args...)
}

// call is a request.
type call struct {
	method, path string
	query        url.Values
	body         any // a string is sent unchanged
	user         *string
	password     *string
	version      *string
	header       http.Header
}

// answer is a response.
type answer struct {
	status int
	header http.Header
	text   []byte
	object map[string]any // nil if the body is not a JSON object
}

func (a *answer) string(name string) string {
	s, _ := a.object[name].(string)
	return s
}

// do sends a request. The check fails if there is no response.
func (p *probe) do(c call) *answer {
	target := p.r.base + c.path
	shown := c.path
	if len(c.query) > 0 {
		target += "?" + c.query.Encode()
		shown += "?" + c.query.Encode()
	}
	var content []byte
	switch body := c.body.(type) {
	case nil:
	case string:
		content = []byte(body)
	default:
		var err error
		if content, err = json.Marshal(body); err != nil {
			p.fail("the request cannot be made: %v", err)
		}
	}
	req, err := http.NewRequestWithContext(p.r.ctx, c.method, target, bytes.NewReader(content))
	if err != nil {
		p.fail("the request cannot be made: %v", err)
	}
	user, password, version := p.r.o.Username, p.r.o.Password, Version
	if c.user != nil {
		user = *c.user
	}
	if c.password != nil {
		password = *c.password
	}
	if c.version != nil {
		version = *c.version
	}
	if user != "" || password != "" {
		req.SetBasicAuth(user, password)
	}
	if version != "" {
		req.Header.Set(versionHeader, version)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set(originHeader, "cloudfoundry "+
		base64.StdEncoding.EncodeToString([]byte(`{"user_id":"683ea748-3092-4ff4-b656-39cacc4d5360"}`)))
	for name, values := range c.header {
		req.Header[name] = values
	}
	p.result.Exchanges = append(p.result.Exchanges,
		Exchange{Sent: strings.TrimSpace(c.method + " " + shown + " " + short(content))})
	x := &p.result.Exchanges[len(p.result.Exchanges)-1]
	resp, err := p.r.o.Client.Do(req)
	if err != nil {
		x.Got = "no answer"
		p.fail("no response: %v", err)
	}
	defer resp.Body.Close()
	a := &answer{status: resp.StatusCode, header: resp.Header}
	const longest = 8 << 20
	if a.text, err = io.ReadAll(io.LimitReader(resp.Body, longest+1)); err == nil && len(a.text) > longest {
		err = errors.New("it is longer than 8 MiB")
	}
	if err != nil {
		x.Got = resp.Status
		p.fail("incomplete response: %v", err)
	}
	_ = json.Unmarshal(a.text, &a.object) // callers check that it is an object
	x.Got = strings.TrimSpace(resp.Status + " " + short(a.text))
	return a
}

// credentialValue matches the values in the credentials of a response.
var credentialValue = pattern.OnUse(`"credentials"\s*:\s*\{[^{}]*\}`)

// short returns a body for the report: on one line, truncated, without
// credentials.
func short(body []byte) string {
	s := strings.Join(strings.Fields(string(body)), " ")
	s = credentialValue().ReplaceAllString(s, `"credentials":{…}`)
	if len(s) > 400 {
		s = s[:400] + "…"
	}
	return s
}

// want fails the check unless the status is one of these and the body an object.
func (p *probe) want(a *answer, statuses ...int) *answer {
	found := false
	var words []string
	for _, s := range statuses {
		found = found || a.status == s
		words = append(words, fmt.Sprintf("%d %s", s, http.StatusText(s)))
	}
	if !found {
		p.fail("status %d, want %s", a.status, strings.Join(words, " or "))
	}
	if a.object == nil {
		p.fail("the body is not a JSON object")
	}
	for _, name := range []string{"error", "description"} {
		if v, there := a.object[name]; there && a.status >= http.StatusBadRequest {
			if s, ok := v.(string); !ok || s == "" {
				p.fail("%s must be a non-empty string", name)
			}
		}
	}
	return a
}

// poll polls the last operation until it has ended, and returns its state, or
// "gone" for status 410.
func (p *probe) poll(path string, s subject, operation string) string {
	query := s.query()
	if operation != "" {
		query.Set("operation", operation)
	}
	deadline := time.Now().Add(p.r.o.Patience)
	for {
		a := p.do(call{method: http.MethodGet, path: path + "/last_operation", query: query})
		if a.status == http.StatusGone {
			return "gone"
		}
		p.want(a, http.StatusOK)
		switch state := a.string("state"); state {
		case "succeeded", "failed":
			return state
		case "in progress":
		default:
			p.fail("state is %q, want in progress, succeeded or failed", a.object["state"])
		}
		if time.Now().After(deadline) {
			p.fail("still in progress after %v", p.r.o.Patience)
		}
		if len(p.result.Exchanges) > 20 {
			p.result.Exchanges = append(p.result.Exchanges[:10], p.result.Exchanges[15:]...)
		}
		wait := p.r.o.Poll
		if after, err := time.ParseDuration(a.header.Get("Retry-After") + "s"); err == nil && after > 0 {
			wait = min(after, time.Minute)
		}
		if !background.Sleep(p.r.ctx, wait) {
			p.fail("interrupted")
		}
	}
}

// newID returns a random id.
func newID() string {
	b := make([]byte, 16)
	_, _ = rand.Read(b) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
