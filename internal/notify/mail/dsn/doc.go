// Package dsn receives delivery status notifications (bounces, RFC 3464) and complaints (RFC 5965) on an
// SMTP listener, so that addresses that do not exist, or whose users call mail unwanted, are not used again.
//
// Anyone can send such a report, so it counts only if it has the tag of a message that this server sent, which only
// those know who handled the mail. A bounce has it in its envelope: it is sent to the return path of the message,
// bounces+TAG@domain. A complaint quotes the return path, or the header with the tag. The callback has to check that
// the message was sent to the recipient of a bounce. A complaint may hide the recipient: it is the message's.
//
// It must not import notify: the callback decides what a report means.
//
// Imports: base/background, notify/mail/address, github.com/emersion/go-smtp,
// github.com/prometheus/client_golang/prometheus.
package dsn
