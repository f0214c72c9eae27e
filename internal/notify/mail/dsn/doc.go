// Package dsn takes in the reports that mail servers send about messages they
// could not deliver (RFC 3464), on a listener of its own, so that addresses
// which do not exist are not written to again.
//
// Anybody can send such a report, so one counts only if it names a message of
// ours: by its VERP recipient, bounces+ID@domain, or by the Message-ID of what
// it returns. Message ids cannot be guessed; whoever is called has to see that
// the message was sent to the reported recipient.
//
// It must not import notify: what a bounce means is decided there.
//
// Imports: base/background, notify/mail/address, github.com/emersion/go-smtp.
package dsn
