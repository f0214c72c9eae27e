package mail

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/notify"
	"ingot/internal/notify/mail/address"
	"ingot/internal/notify/mail/compose"
	"ingot/internal/notify/mail/dkim"
	"ingot/internal/notify/mail/domaincheck"
	"ingot/internal/notify/mail/smtp"
)

// ParseAddress parses exactly one mail address; "Name <a@b>" returns a@b. Its
// errors are for the user.
func ParseAddress(s string) (string, error) { return address.Parse(s) }

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
	// URL is the mail server's, see smtp.ParseURL.
	URL      string
	Identity Identity
	DKIM     *DKIM // nil means no signatures
	Log      *slog.Logger
	// TLS is the base TLS configuration; nil means the default.
	TLS *tls.Config
	// Tune may change settings that the URL cannot express; it may be nil.
	Tune func(*smtp.Config)
}

// Channel delivers by SMTP.
type Channel struct {
	client   *smtp.Client
	composer *compose.Composer
	signer   *dkim.Signer
	domain   string // of the sender's address
}

var (
	_ notify.Channel     = (*Channel)(nil)
	_ background.Service = (*Channel)(nil)
)

// NewChannel returns a Channel. It connects when the first message is sent: a
// mail server that is down at startup is no reason to reject mail.
func NewChannel(o Options) (*Channel, error) {
	config, err := smtp.ParseURL(o.URL)
	if err != nil {
		return nil, err
	}
	config.TLS = o.TLS
	if o.Tune != nil {
		o.Tune(&config)
	}
	c := &Channel{domain: domainOf(o.Identity.From)}
	if c.composer, err = compose.New(o.Identity); err != nil {
		return nil, err
	}
	if o.DKIM != nil {
		if c.signer, err = dkim.New(cmp.Or(o.DKIM.Domain, c.domain), o.DKIM.Selector, o.DKIM.Key); err != nil {
			return nil, err
		}
	}
	log := o.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	c.client = smtp.New(config, log)
	return c, nil
}

// Start starts the connection pool.
func (c *Channel) Start(ctx context.Context) error { return c.client.Start(ctx) }

// Stop cancels deliveries in progress and closes connections.
func (c *Channel) Stop() { c.client.Stop() }

// CheckDomain says what receivers find when they check mail of this channel.
func (c *Channel) CheckDomain(ctx context.Context) notify.DomainReport {
	o := domaincheck.Options{Domain: c.domain, Host: c.client.Host(), Encrypted: c.client.Encrypted}
	if c.signer != nil {
		o.Domain, o.Selector, o.Key = c.signer.Record()
	}
	return domaincheck.Run(ctx, o)
}

// CheckDomain says what receivers would find when they check mail of a sender, as long as there is
// no mail server.
func CheckDomain(ctx context.Context, from string) notify.DomainReport {
	return domaincheck.Run(ctx, domaincheck.Options{Domain: domainOf(from)})
}

// domainOf returns the domain of an address; empty if it is none.
func domainOf(from string) string {
	parsed, err := address.Parse(from)
	if err != nil {
		return ""
	}
	return address.Domain(parsed)
}

// Deliver implements notify.Channel.
func (c *Channel) Deliver(ctx context.Context, batch []notify.Outgoing, done func(int, notify.Result)) {
	c.client.Deliver(ctx, &source{c, batch}, done)
}

// source composes the messages of a batch on demand, just before each is sent.
type source struct {
	*Channel
	batch []notify.Outgoing
}

func (s *source) Len() int            { return len(s.batch) }
func (s *source) Domain(i int) string { return address.Domain(s.batch[i].To) }

func (s *source) Message(i int) (*compose.Message, error) {
	m, err := s.composer.Message(&s.batch[i], time.Now())
	if err != nil || s.signer == nil {
		return m, err
	}
	if err := s.signer.Sign(m); err != nil {
		return nil, fmt.Errorf("sign the message: %w", err)
	}
	return m, nil
}
