package outbound

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"ingot/internal/base/safedial"
	"ingot/internal/notify"
)

// Options limit the addresses that clients may have called.
type Options struct {
	// Private allows addresses of this machine and of private networks.
	// Otherwise a client could use the service to reach internal targets.
	Private bool
	// Guard permits some private networks.
	Guard safedial.Guard
	// Routes are the routes of apps of this server, which are always allowed.
	Routes safedial.Routes
	// TLS is for connections; nil means the system's certificates.
	TLS *tls.Config
	// Timeout limits a call; the default is 10 s.
	Timeout time.Duration
}

func (o Options) guard() safedial.Guard {
	if o.Private {
		return safedial.Everywhere
	}
	return o.Guard
}

// lookupTimeout limits the lookup of a host name.
const lookupTimeout = 5 * time.Second

// Check returns why an address would never be called, by the addresses that its
// host name has now. They are checked again at every call.
func (o Options) Check(ctx context.Context, address string) error {
	u, err := url.Parse(address)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	return safedial.Check(o.guard(), o.Routes, u, func(host string) ([]netip.Addr, error) {
		return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	})
}

// SignatureHeader carries t=UNIXTIME,v1=HEX, the HMAC-SHA256 of "UNIXTIME.BODY"
// under the secret that the receiver shares.
const SignatureHeader = "X-Ingot-Signature"

// Sign returns the value of SignatureHeader.
func Sign(secret string, at time.Time, body []byte) string {
	t := strconv.FormatInt(at.Unix(), 10)
	h := hmac.New(sha256.New, []byte(secret))
	h.Write([]byte(t + "."))
	h.Write(body)
	return "t=" + t + ",v1=" + hex.EncodeToString(h.Sum(nil))
}

// Client makes calls.
type Client struct {
	client *http.Client
}

const userAgent = "ingot-notifications"

// manyIdle is how many connections are kept for further calls.
const manyIdle = 64

// New returns a client.
func New(o Options) *Client {
	if o.Timeout <= 0 {
		o.Timeout = 10 * time.Second
	}
	transport := &http.Transport{
		TLSClientConfig:        o.TLS,
		TLSHandshakeTimeout:    o.Timeout,
		MaxIdleConns:           manyIdle,
		IdleConnTimeout:        30 * time.Second,
		MaxResponseHeaderBytes: 64 << 10,
		ForceAttemptHTTP2:      true,
	}
	// Checked on the address that is dialled, so that a DNS name cannot change
	// between the check and the call.
	return &Client{client: &http.Client{
		Transport: safedial.Transport(transport, o.guard(), o.Routes, o.Timeout), Timeout: o.Timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Close closes idle connections.
func (c *Client) Close() { c.client.CloseIdleConnections() }

// Call is a POST of a JSON document.
type Call struct {
	URL string
	// Secret signs it; empty means that it is not signed.
	Secret string
	Body   []byte
	// Key is sent as the header Idempotency-Key, by which receivers recognize what comes again.
	Key string
	At  time.Time
}

// Answer is what the receiver said.
type Answer struct {
	Status int
	// RetryAfter is when it asked to be called again; zero if it did not.
	RetryAfter time.Duration
	// Text is the beginning of the response.
	Text string
}

// OK reports whether the receiver accepted the call.
func (a Answer) OK() bool { return a.Status >= 200 && a.Status <= 299 }

// String returns the status with its name.
func (a Answer) String() string {
	return strings.TrimSpace(fmt.Sprint(a.Status, " ", http.StatusText(a.Status)))
}

const (
	// MaxAnswer is how much of a response is read, so that the connection can be
	// reused.
	MaxAnswer = 64 << 10
	// maxText is how much of it an Answer has.
	maxText = 200
)

// Post makes one call. Its errors contain no address, because those of some receivers are secrets.
func (c *Client) Post(ctx context.Context, call Call) (Answer, error) {
	if err := notify.CheckWebhookURL(call.URL); err != nil {
		return Answer{}, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, call.URL, bytes.NewReader(call.Body))
	if err != nil {
		return Answer{}, errors.New("invalid URL")
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("User-Agent", userAgent)
	if call.Secret != "" {
		r.Header.Set(SignatureHeader, Sign(call.Secret, call.At, call.Body))
	}
	if call.Key != "" {
		r.Header.Set("Idempotency-Key", call.Key)
	}
	answer, body, err := c.do(r, call.At)
	answer.Text = strings.TrimSpace(string(body[:min(len(body), maxText)]))
	return answer, err
}

// retryAfter reads seconds or a date; zero if it is neither, or not in the future.
func retryAfter(value string, now time.Time) time.Duration {
	if seconds, err := strconv.ParseUint(value, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second
	}
	if at, err := http.ParseTime(value); err == nil {
		return max(0, at.Sub(now))
	}
	return 0
}
