package osb

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/google/uuid"
	"github.com/sony/gobreaker/v2"

	"ingot/internal/base/logging"
	"ingot/internal/base/safedial"
	"ingot/internal/base/tracing"
)

// Version is the version of the API that the client uses.
const Version = "2.17"

// Broker is the URL and the credentials of a broker.
type Broker struct {
	GUID     string
	Name     string
	URL      string
	Username string
	Password string
	// Guarded means that a developer registered the broker, so that Options.Guard
	// applies: it must not lead the server to internal addresses.
	Guarded bool
}

// Options configure a client. Zero values mean the defaults.
type Options struct {
	// Timeout limits a call; 60 s by default.
	Timeout time.Duration
	// Trip is the number of consecutive calls that reach no server after which the
	// circuit breaker opens; 5 by default.
	Trip int
	// PlatformURL is the URL of the platform's API. Brokers get the location of its
	// /v2/info, unless it is empty.
	PlatformURL string
	// Rest is how long the circuit breaker stays open; 15 s by default.
	Rest time.Duration
	// Through, if set, wraps the transport.
	Through func(http.RoundTripper) http.RoundTripper
	// Guard decides which addresses guarded brokers may have.
	Guard safedial.Guard
	// Routes are the routes of apps of this server, which may always be brokers.
	Routes safedial.Routes
	// TLS is for connections; nil means the system's certificates.
	TLS *tls.Config
	// Tracer records calls as spans, Metrics counts them; nil ones do not.
	Tracer  *tracing.Tracer
	Metrics *Metrics
}

// Client calls brokers. It is safe for concurrent use.
type Client struct {
	options Options
	http    *http.Client // for brokers of operators
	guarded *http.Client
	// infoLocation is the URL of /v2/info without a scheme.
	infoLocation string

	mu       sync.Mutex
	breakers map[string]*gobreaker.CircuitBreaker[*reply]
}

// New returns a client.
func New(o Options) *Client {
	o.Timeout = cmp.Or(o.Timeout, time.Minute)
	o.Trip = cmp.Or(o.Trip, 5)
	o.Rest = cmp.Or(o.Rest, 15*time.Second)
	transport := &http.Transport{
		TLSHandshakeTimeout: 10 * time.Second, MaxIdleConnsPerHost: 4, IdleConnTimeout: time.Minute, ForceAttemptHTTP2: true,
		MaxResponseHeaderBytes: 64 << 10, TLSClientConfig: o.TLS,
	}
	client := func(g safedial.Guard) *http.Client {
		way := safedial.Transport(transport, g, o.Routes, dialTime)
		if o.Through != nil {
			way = o.Through(way)
		}
		return &http.Client{
			Transport: way,
			// Redirects are not followed, because the request has a password.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}
	}
	return &Client{
		options: o, breakers: map[string]*gobreaker.CircuitBreaker[*reply]{}, http: client(safedial.Everywhere),
		guarded:      client(o.Guard),
		infoLocation: infoLocation(o.PlatformURL),
	}
}

// infoLocation returns the URL of /v2/info below the URL of an API, without a
// scheme, as in the header of Cloud Foundry.
func infoLocation(apiURL string) string {
	u, err := url.Parse(apiURL)
	if err != nil || u.Host == "" {
		return ""
	}
	return u.Host + strings.TrimRight(u.Path, "/") + "/v2/info"
}

const dialTime = 10 * time.Second

// Close closes idle connections.
func (c *Client) Close() {
	c.http.CloseIdleConnections()
	c.guarded.CloseIdleConnections()
}

// Limits of responses.
const (
	maxAnswer      = 1 << 20
	maxCatalog     = 10 << 20
	maxDescription = 1000
)

// call is one request.
type call struct {
	method string
	path   string // below the broker's URL
	query  url.Values
	body   any
	user   string // the originating user
	limit  int64
}

// reply is a complete response.
type reply struct {
	status     int
	body       []byte
	retryAfter time.Duration
}

func (c *Client) breaker(b Broker) *gobreaker.CircuitBreaker[*reply] {
	c.mu.Lock()
	defer c.mu.Unlock()
	// A broker with a changed URL gets a new breaker.
	key := b.GUID + " " + b.URL
	if found := c.breakers[key]; found != nil {
		return found
	}
	made := gobreaker.NewCircuitBreaker[*reply](gobreaker.Settings{
		Name: b.Name, Timeout: c.options.Rest,
		ReadyToTrip: func(n gobreaker.Counts) bool { return int(n.ConsecutiveFailures) >= c.options.Trip },
		IsSuccessful: func(err error) bool {
			return err == nil || errors.Is(err, context.Canceled) || errors.Is(err, errTooLarge)
		},
	})
	c.breakers[key] = made
	return made
}

var errTooLarge = errors.New("the answer is too large")

// do sends a request. The error is a *Error, or that of ctx.
func (c *Client) do(ctx context.Context, b Broker, k call) (*reply, error) {
	k.limit = cmp.Or(k.limit, maxAnswer)
	var untrusted *tls.CertificateVerificationError
	r, err := c.observed(ctx, b, k)
	switch {
	case err == nil:
		return r, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case errors.Is(err, gobreaker.ErrOpenState), errors.Is(err, gobreaker.ErrTooManyRequests):
		return nil, &Error{Outcome: Unavailable, Title: "ServiceBrokerApiUnreachable", Err: err,
			Message: fmt.Sprintf("The service broker '%s' has not responded several times in a row and is not called for a "+
				"moment. Try again later.", b.Name)}
	case isTimeout(err):
		outcome := Unknown
		if neverSent(err) {
			outcome = Unavailable
		}
		return nil, &Error{Outcome: outcome, Title: "ServiceBrokerApiTimeout", Err: err,
			Message: fmt.Sprintf("The request to the service broker '%s' timed out.", b.Name)}
	case safedial.Refused(err):
		return nil, &Error{Outcome: Unavailable, Title: "ServiceBrokerApiUnreachable", Err: err,
			Message: fmt.Sprintf("The service broker '%s' is not called: %s.", b.Name, safedial.ErrPrivate)}
	case errors.As(err, &untrusted):
		return nil, &Error{Outcome: Unavailable, Title: "ServiceBrokerApiUnreachable", Err: err,
			Message: fmt.Sprintf("The certificate of the service broker '%s' is not accepted: %s. Give it a valid one, or ask "+
				"an operator to trust its authority with --trusted-ca.", b.Name, untrusted.Err)}
	case errors.Is(err, errTooLarge):
		return nil, &Error{Outcome: Unknown, Title: "ServiceBrokerBadResponse", Err: err,
			Message: fmt.Sprintf("The service broker '%s' returned an invalid response: it is larger than %d bytes.",
				b.Name, k.limit)}
	}
	outcome := Unknown
	if neverSent(err) {
		outcome = Unavailable
	}
	return nil, &Error{Outcome: outcome, Title: "ServiceBrokerApiUnreachable", Err: err,
		Message: fmt.Sprintf("The service broker '%s' could not be reached. Check that it runs at its address and that the "+
			"address is right.", b.Name)}
}

// observed sends a request through the circuit breaker, counts it and records its span.
func (c *Client) observed(ctx context.Context, b Broker, k call) (*reply, error) {
	began := time.Now()
	ctx, span := c.options.Tracer.Begin(ctx, "broker", "broker "+k.operation(), tracing.Client,
		tracing.String("http.request.method", k.method), tracing.String("ingot.broker.id", b.GUID),
		tracing.String("ingot.broker.name", b.Name))
	defer span.End()
	r, err := c.breaker(b).Execute(func() (*reply, error) { return c.send(ctx, b, k) })
	c.options.Metrics.observe(k, r, err, time.Since(began))
	if err == nil {
		span.Set(tracing.Int("http.response.status_code", r.status))
	}
	result := resultOf(r, err) // the error may contain the address of the broker
	span.FailWhen(result != "ok", result)
	return r, err
}

func isTimeout(err error) bool {
	var t net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &t) && t.Timeout()
}

// neverSent reports whether the broker cannot have received the request.
func neverSent(err error) bool {
	var op *net.OpError
	var bad *net.DNSError
	return errors.As(err, &bad) || errors.As(err, &op) && op.Op == "dial"
}

func (c *Client) send(ctx context.Context, b Broker, k call) (*reply, error) {
	ctx, cancel := context.WithTimeout(ctx, c.options.Timeout)
	defer cancel()
	var body io.Reader
	if k.body != nil {
		text, err := json.Marshal(k.body)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(text)
	}
	address := strings.TrimRight(b.URL, "/") + "/v2/" + k.path
	if len(k.query) > 0 {
		address += "?" + k.query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, k.method, address, body)
	if err != nil {
		return nil, err
	}
	req.SetBasicAuth(b.Username, b.Password)
	req.Header.Set("Accept", "application/json")
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Broker-Api-Version", Version)
	identity := logging.RequestID(ctx)
	if identity == "" {
		identity = uuid.NewString()
	}
	req.Header.Set("X-Broker-Api-Request-Identity", identity)
	req.Header.Set("X-Vcap-Request-Id", identity)
	tracing.Inject(ctx, req.Header)
	if c.infoLocation != "" {
		req.Header.Set("X-Api-Info-Location", c.infoLocation)
	}
	if k.user != "" {
		who, err := json.Marshal(map[string]string{"user_id": k.user})
		if err != nil {
			return nil, err
		}
		req.Header.Set("X-Broker-Api-Originating-Identity", "cloudfoundry "+base64.StdEncoding.EncodeToString(who))
	}
	client := c.http
	if b.Guarded {
		client = c.guarded
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, k.limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(text)) > k.limit {
		return nil, errTooLarge
	}
	return &reply{status: resp.StatusCode, body: text, retryAfter: retryAfter(resp.Header.Get("Retry-After"))}, nil
}

// retryAfter parses seconds; the specification does not allow dates.
func retryAfter(text string) time.Duration {
	n, err := strconv.Atoi(strings.TrimSpace(text))
	if err != nil || n < 0 || n > 7*24*3600 {
		return 0
	}
	return time.Duration(n) * time.Second
}

// decode decodes a body that is a JSON object. Numbers keep all their digits.
func decode(text []byte, to any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	first := bytes.TrimLeft(text, " \t\r\n")
	if len(first) == 0 || first[0] != '{' {
		return errors.New("expected a JSON object")
	}
	if err := d.Decode(to); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("unexpected data after the JSON object")
	}
	return nil
}

// clean returns a text of a broker as one line of limited length.
func clean(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "?"))
	if runes := []rune(text); len(runes) > maxDescription {
		text = string(runes[:maxDescription]) + "…"
	}
	return strings.TrimSpace(text)
}
