// Package dkim signs messages (RFC 6376), so that receivers can tell that the
// domain answers for them and that nobody changed the unsubscribe headers
// (RFC 8058).
//
// It may import mail/compose, emersion/go-msgauth and the standard library. It
// must not import how messages are sent or kept.
package dkim
