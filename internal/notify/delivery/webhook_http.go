package delivery

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"time"

	"ingot/internal/base/safedial"
	"ingot/internal/notify"
)

// WebhookOptions limit the addresses of webhooks.
type WebhookOptions struct {
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

func (o WebhookOptions) guard() safedial.Guard {
	if o.Private {
		return safedial.Everywhere
	}
	return o.Guard
}

// lookupTimeout limits the lookup of a webhook's host name.
const lookupTimeout = 5 * time.Second

// Check returns why a webhook with this URL would never be called, by the
// addresses that its host name has now. They are checked again at every call.
func (o WebhookOptions) Check(ctx context.Context, webhookURL string) error {
	u, err := url.Parse(webhookURL)
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
// under the webhook's secret.
const SignatureHeader = "X-Ingot-Signature"

// Sign returns the value of SignatureHeader.
func Sign(secret string, at time.Time, body []byte) string {
	t := strconv.FormatInt(at.Unix(), 10)
	h := hmac.New(sha256.New, []byte(secret))
	h.Write([]byte(t + "."))
	h.Write(body)
	return "t=" + t + ",v1=" + hex.EncodeToString(h.Sum(nil))
}

// poster sends the HTTP requests.
type poster struct {
	client *http.Client
}

func newPoster(o WebhookOptions) poster {
	if o.Timeout <= 0 {
		o.Timeout = 10 * time.Second
	}
	transport := &http.Transport{
		TLSClientConfig:        o.TLS,
		TLSHandshakeTimeout:    o.Timeout,
		MaxIdleConns:           callsFetched,
		IdleConnTimeout:        30 * time.Second,
		MaxResponseHeaderBytes: 64 << 10,
		ForceAttemptHTTP2:      true,
	}
	// Checked on the address that is dialled, so that a DNS name cannot change
	// between the check and the call.
	return poster{client: &http.Client{
		Transport: safedial.Transport(transport, o.guard(), o.Routes, o.Timeout), Timeout: o.Timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

func (p poster) close() { p.client.CloseIdleConnections() }

// maxAnswer is how much of a response is read, so that the connection can be
// reused.
const maxAnswer = 64 << 10

// do makes one call. Its errors contain no address except the webhook's own.
func (p poster) do(ctx context.Context, cb notify.Callback, now time.Time) error {
	if err := notify.CheckWebhookURL(cb.URL); err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, cb.URL, bytes.NewReader(cb.Payload))
	if err != nil {
		return errors.New("invalid URL")
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("User-Agent", "ingot-notifications")
	r.Header.Set(SignatureHeader, Sign(cb.Secret, now, cb.Payload))
	answer, err := p.client.Do(r)
	if err != nil {
		return fmt.Errorf("call: %w", err)
	}
	defer answer.Body.Close()
	if _, err := io.CopyN(io.Discard, answer.Body, maxAnswer); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read the response: %w", err)
	}
	if answer.StatusCode < 200 || answer.StatusCode > 299 {
		return fmt.Errorf("status %s, want 2xx", answer.Status)
	}
	return nil
}
