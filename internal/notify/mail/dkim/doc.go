// Package dkim signs messages (RFC 6376), so that receivers can verify the domain
// they come from and that their unsubscribe headers were not changed (RFC 8058).
//
// It must not import packages that send or store messages.
//
// Imports: notify/mail/address, notify/mail/compose,
// github.com/emersion/go-msgauth/dkim.
package dkim
