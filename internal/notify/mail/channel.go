package mail

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"ingot/internal/base/background"
	"ingot/internal/notify"
	"ingot/internal/notify/mail/address"
	"ingot/internal/notify/mail/compose"
	"ingot/internal/notify/mail/dkim"
	"ingot/internal/notify/mail/domaincheck"
	"ingot/internal/notify/mail/mtasts"
	"ingot/internal/notify/mail/pacing"
	"ingot/internal/notify/mail/smtp"
)

// ParseAddress parses exactly one mail address; "Name <a@b>" returns a@b. Its
// errors are for the user.
func ParseAddress(s string) (string, error) { return address.Parse(s) }

// CheckReturn checks the address of bounces, to which the tags of messages are added.
func CheckReturn(s string) error {
	addr, err := address.Parse(s)
	if err != nil {
		return err
	}
	return compose.LeavesRoom(addr)
}

// Identity is the sender of mail.
type Identity = compose.Identity

// DKIM is a signing key.
type DKIM struct {
	Domain   string // empty means that of the identity's address
	Selector string
	Key      []byte // PEM
}

// Options configure a Channel.
type Options struct {
	// URL is the mail server's, see smtp.ParseURL. It is the only route if the Plan has none.
	URL string
	// Plan has further settings.
	Plan     Plan
	Identity Identity
	DKIM     *DKIM // nil means no signatures
	Log      *slog.Logger
	// TLS is the base TLS configuration; nil means the default.
	TLS *tls.Config
	// Policies finds the policy of the sender's domain for mail to it; nil means that it is not checked.
	Policies *mtasts.Checker
	// Quotas counts mail for the plan's warm-up; it may be nil without one.
	Quotas notify.MailQuotas
	// Servers returns how many servers share the rates of domains; nil means one.
	Servers func() int
	// Registry gets the metrics; nil means none.
	Registry prometheus.Registerer
	// Tune may change settings that the URL cannot express; it may be nil.
	Tune func(*smtp.Config)
}

// Channel delivers by SMTP.
type Channel struct {
	routes   []*route
	pacer    *pacing.Pacer
	plan     Plan
	composer *compose.Composer
	signer   *dkim.Signer
	policies *mtasts.Checker
	domain   string // of the sender's address
}

var (
	_ notify.Channel     = (*Channel)(nil)
	_ background.Service = (*Channel)(nil)
)

// NewChannel returns a Channel. It connects when the first message is sent: a
// mail server that is down at startup is no reason to reject mail.
func NewChannel(o Options) (*Channel, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	c := &Channel{domain: domainOf(o.Identity.From), plan: o.Plan, policies: o.Policies}
	var err error
	if c.composer, err = compose.New(o.Identity); err != nil {
		return nil, err
	}
	if o.DKIM != nil {
		if c.signer, err = dkim.New(cmp.Or(o.DKIM.Domain, c.domain), o.DKIM.Selector, o.DKIM.Key); err != nil {
			return nil, err
		}
	}
	if err := c.open(o); err != nil {
		return nil, err
	}
	c.observe(o.Registry)
	return c, nil
}

// Start starts the connection pools.
func (c *Channel) Start(ctx context.Context) error {
	for _, r := range c.routes {
		for _, client := range r.clients() {
			if err := client.Start(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// Stop cancels deliveries in progress and closes connections.
func (c *Channel) Stop() {
	var all background.WaitGroup
	for _, r := range c.routes {
		for _, client := range r.clients() {
			all.Go("mail connections", client.Stop)
		}
	}
	all.Wait()
}

// CheckDomain says what receivers find when they check mail of this channel.
func (c *Channel) CheckDomain(ctx context.Context) notify.DomainReport {
	o := domaincheck.Options{Domain: c.domain, Host: c.routes[0].main.Host()}
	if c.policies != nil {
		o.Policies = c.policies
	}
	for _, r := range c.routes {
		o.Relays = append(o.Relays, domaincheck.Relay{Host: r.main.Host(), Encryption: r.main.Encryption})
	}
	if c.signer != nil {
		o.Domain, o.Selector, o.Key = c.signer.Record()
	}
	return domaincheck.Run(ctx, o)
}

// CheckDomain says what receivers would find when they check mail of a sender, as long as there is
// no mail server.
func CheckDomain(ctx context.Context, from string, policies *mtasts.Checker) notify.DomainReport {
	return domaincheck.Run(ctx, domaincheck.Options{Domain: domainOf(from), Policies: policies})
}

// domainOf returns the domain of an address; empty if it is none.
func domainOf(from string) string {
	parsed, err := address.Parse(from)
	if err != nil {
		return ""
	}
	return address.Domain(parsed)
}

// source composes messages of a batch on demand, just before each is sent.
type source struct {
	*Channel
	batch []notify.Outgoing
	// domains are the recipients', and list the messages of the batch.
	domains []string
	list    []int
}

func (s *source) Len() int            { return len(s.list) }
func (s *source) Domain(i int) string { return s.domains[s.list[i]] }

func (s *source) Message(i int) (*compose.Message, error) {
	m, err := s.composer.Message(&s.batch[s.list[i]], time.Now())
	if err != nil || s.signer == nil {
		return m, err
	}
	if err := s.signer.Sign(m); err != nil {
		return nil, fmt.Errorf("sign the message: %w", err)
	}
	return m, nil
}
