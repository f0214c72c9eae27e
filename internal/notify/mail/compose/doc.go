// Package compose writes messages as RFC 5322 text.
//
// Nothing that a caller gives can add a header or a line: values are checked or
// encoded where they are written, not where they come from. The encoded body of
// a shared notify.Body is made once, so that each further message costs its
// headers only. No line of a message begins with a dot, and every line ends
// with CR LF, so that it can be sent as it is.
//
// It must not import how messages are sent or kept.
//
// Imports: notify, notify/mail/address.
package compose
