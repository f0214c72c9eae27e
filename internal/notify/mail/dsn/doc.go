// Package dsn receives delivery status notifications (bounces, RFC 3464) and complaints (RFC 5965) on an
// SMTP listener, so that addresses that do not exist, or whose users call mail unwanted, are not used again.
//
// Anyone can send such a report, so it counts only if it names a message that this
// server sent: by its VERP recipient, bounces+ID@domain, or by the Message-ID of
// the returned message. Message ids cannot be guessed; the callback has to check
// that the message was sent to the recipient of a bounce. A complaint may hide the recipient: it is the message's.
//
// It must not import notify: the callback decides what a report means.
//
// Imports: base/background, notify/mail/address, github.com/emersion/go-smtp,
// github.com/prometheus/client_golang/prometheus.
package dsn
