package mtasts

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"time"

	"ingot/internal/base/safedial"
	"ingot/internal/notify/mail/smtp"
)

const (
	// maxPolicy is how long a policy may be.
	maxPolicy = 64 << 10
	// fetchTimeout limits the request for a policy, dialTimeout a connection.
	fetchTimeout = 15 * time.Second
	dialTimeout  = 10 * time.Second
)

// Options configure a Checker.
type Options struct {
	// Guard permits private networks; others than public addresses are refused without it.
	Guard safedial.Guard
	// TLS has the trusted authorities; nil means those of the system.
	TLS *tls.Config
	// Resolver is nil for that of the system.
	Resolver *net.Resolver
	// PolicyPort and MailPort are 443 and 25 if they are empty; tests have others.
	PolicyPort, MailPort string
}

// Checker finds policies and looks at mail servers.
type Checker struct {
	o      Options
	dialer *net.Dialer
	client *http.Client
}

// New returns a Checker.
func New(o Options) *Checker {
	o.PolicyPort, o.MailPort = cmp.Or(o.PolicyPort, "443"), cmp.Or(o.MailPort, "25")
	// The guard sees the address that is dialed, so a name cannot lead elsewhere than was checked.
	c := &Checker{o: o, dialer: &net.Dialer{Timeout: dialTimeout, Control: o.Guard.Control, Resolver: o.Resolver}}
	c.client = &http.Client{
		Timeout: fetchTimeout,
		Transport: &http.Transport{
			DialContext: c.dialer.DialContext, TLSClientConfig: o.TLS, TLSHandshakeTimeout: dialTimeout,
			MaxResponseHeaderBytes: maxPolicy, DisableKeepAlives: true, ForceAttemptHTTP2: true,
		},
		// RFC 8461, section 3.3: a redirect is not followed.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return c
}

// URL is where the policy of a domain is.
func (c *Checker) URL(domain string) string {
	host := "mta-sts." + domain
	if c.o.PolicyPort != "443" {
		host = net.JoinHostPort(host, c.o.PolicyPort)
	}
	return (&url.URL{Scheme: "https", Host: host, Path: "/.well-known/mta-sts.txt"}).String()
}

// Policy fetches the policy of a domain. Its errors are for the operator.
func (c *Checker) Policy(ctx context.Context, domain string) (Policy, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, c.URL(domain), http.NoBody)
	if err != nil {
		return Policy{}, errors.New("the domain is not a host name")
	}
	r.Header.Set("User-Agent", "ingot-notifications")
	answer, err := c.client.Do(r)
	if err != nil {
		if within := new(url.Error); errors.As(err, &within) {
			err = within.Err
		}
		return Policy{}, err
	}
	defer answer.Body.Close()
	switch {
	case answer.StatusCode/100 == 3:
		return Policy{}, fmt.Errorf("the server replied with a redirect (%s), which senders do not follow", answer.Status)
	case answer.StatusCode != http.StatusOK:
		return Policy{}, fmt.Errorf("the server replied %s", answer.Status)
	}
	if kind, _, _ := mime.ParseMediaType(answer.Header.Get("Content-Type")); kind != "text/plain" {
		return Policy{}, fmt.Errorf("its type is %.60q, want text/plain", kind)
	}
	content, err := io.ReadAll(io.LimitReader(answer.Body, maxPolicy+1))
	switch {
	case err != nil:
		return Policy{}, fmt.Errorf("the answer was not complete: %w", err)
	case len(content) > maxPolicy:
		return Policy{}, fmt.Errorf("it is longer than %d bytes", maxPolicy)
	}
	return ParsePolicy(string(content))
}

// ErrUnreachable means that a mail server could not be asked: many networks block port 25.
var ErrUnreachable = errors.New("not reachable from this server")

// Certificate connects to a receiving mail server as senders do, and returns why it does not
// offer encryption with a valid certificate for its name; nil if it does.
func (c *Checker) Certificate(ctx context.Context, host string) error {
	config, err := smtp.ParseURL("smtp://" + net.JoinHostPort(host, c.o.MailPort) + "?starttls=required&timeout=15s")
	if err != nil {
		return err
	}
	config.TLS = c.o.TLS
	config.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := c.dialer.DialContext(ctx, network, address)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrUnreachable, err)
		}
		return conn, nil
	}
	return smtp.Greet(ctx, config)
}
