// Package dkim signs messages (RFC 6376), so that receivers can tell that the
// domain answers for them and that nobody changed the unsubscribe headers
// (RFC 8058).
//
// It must not import how messages are sent or kept.
//
// Imports: notify/mail/address, notify/mail/compose,
// github.com/emersion/go-msgauth/dkim.
package dkim
