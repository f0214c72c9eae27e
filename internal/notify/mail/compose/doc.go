// Package compose formats messages as RFC 5322 text.
//
// No value from a caller can add a header or a line: values are checked or
// encoded where they are written, not where they come from. The body of a shared
// notify.Body is encoded once, so that each further message costs only its
// headers. No line of a message begins with a dot, and every line ends
// with CR LF, so that the text can be sent without further escaping.
//
// It must not import packages that send or store messages.
//
// Imports: notify, notify/mail/address.
package compose
