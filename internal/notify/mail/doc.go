// Package mail is the notification service's e-mail channel.
//
//	notify.Outgoing ──▶ pacing ──▶ compose ──▶ dkim ──▶ smtp ──▶ a mail server, or one of several
//	                       └──────────────▶ mailbox   without a mail server
//	                                dsn ◀──────────── bounces
//
// Package address parses mail addresses for all of them; mailtest is a mail server
// for tests.
//
// It must not import an HTTP API, a store or another adapter.
//
// Imports: base/background, base/pattern, notify, notify/failover,
// notify/mail/address, notify/mail/compose, notify/mail/dkim,
// notify/mail/domaincheck, notify/mail/mtasts, notify/mail/pacing,
// notify/mail/smtp, github.com/prometheus/client_golang/prometheus.
package mail
