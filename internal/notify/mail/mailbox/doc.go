// Package mailbox stores outgoing mail instead of sending it, and shows it on a
// web page, for installations without a mail server.
//
// The newest messages are kept, each in its own file, limited in number
// and bytes. Their content is untrusted: pages run no script, and
// the HTML of a message is shown in a sandboxed frame.
//
// It must not import another HTTP API or a package that sends mail.
//
// Imports: base/fault, base/look, base/web, notify, notify/mail/compose.
package mailbox
