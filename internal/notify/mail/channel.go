package mail

import (
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
	"ingot/internal/notify/mail/smtp"
)

// ParseAddress reads exactly one mail address; "Name <a@b>" gives a@b. Its
// errors are for the user.
func ParseAddress(s string) (string, error) { return address.Parse(s) }

// Identity is who the mail is from.
type Identity = compose.Identity

// DKIM is a key to sign with.
type DKIM struct {
	Domain   string // empty takes that of the identity's address
	Selector string
	Key      []byte // PEM
}

// Options make a Channel.
type Options struct {
	// URL is the mail server's, see smtp.ParseURL.
	URL      string
	Identity Identity
	DKIM     *DKIM // nil does not sign
	Log      *slog.Logger
	// TLS is the base of TLS configurations; nil is the usual one.
	TLS *tls.Config
	// Tune may change what the URL cannot say; nil leaves it.
	Tune func(*smtp.Config)
	// Now is the clock; nil is the real one.
	Now func() time.Time
}

// Channel delivers by SMTP.
type Channel struct {
	client   *smtp.Client
	composer *compose.Composer
	signer   *dkim.Signer
	now      func() time.Time
}

var (
	_ notify.Channel     = (*Channel)(nil)
	_ background.Service = (*Channel)(nil)
)

// NewChannel checks the options. Nothing is connected before the first message:
// a mail server that is down at start is no reason not to accept mail for it.
func NewChannel(o Options) (*Channel, error) {
	config, err := smtp.ParseURL(o.URL)
	if err != nil {
		return nil, err
	}
	config.TLS = o.TLS
	if o.Tune != nil {
		o.Tune(&config)
	}
	c := &Channel{now: o.Now}
	if c.now == nil {
		c.now = time.Now
	}
	if c.composer, err = compose.New(o.Identity); err != nil {
		return nil, err
	}
	if o.DKIM != nil {
		domain := o.DKIM.Domain
		if domain == "" {
			from, err := address.Parse(o.Identity.From)
			if err != nil {
				return nil, err
			}
			domain = address.Domain(from)
		}
		if c.signer, err = dkim.New(domain, o.DKIM.Selector, o.DKIM.Key); err != nil {
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

// Start begins to keep connections.
func (c *Channel) Start(ctx context.Context) error { return c.client.Start(ctx) }

// Stop ends what is under way and closes connections.
func (c *Channel) Stop() { c.client.Stop() }

// Deliver implements notify.Channel.
func (c *Channel) Deliver(ctx context.Context, batch []notify.Outgoing, done func(int, notify.Result)) {
	c.client.Deliver(ctx, &source{c, batch}, done)
}

// source composes a batch as the client asks for it, which is just before each
// message is sent.
type source struct {
	*Channel
	batch []notify.Outgoing
}

func (s *source) Len() int            { return len(s.batch) }
func (s *source) Domain(i int) string { return address.Domain(s.batch[i].To) }

func (s *source) Message(i int) (*compose.Message, error) {
	m, err := s.composer.Message(&s.batch[i], s.now())
	if err != nil || s.signer == nil {
		return m, err
	}
	if err := s.signer.Sign(m); err != nil {
		return nil, fmt.Errorf("the message cannot be signed: %w", err)
	}
	return m, nil
}
