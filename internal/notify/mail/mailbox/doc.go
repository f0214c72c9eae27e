// Package mailbox catches mail instead of sending it, and shows it on a web
// page: what a newcomer who has no mail server sees of a notification.
//
// The newest messages are kept, each in a file of its own, bounded in number
// and bytes. What is in them was written by strangers: pages run no script, and
// the HTML of a message is shown in a frame that can do nothing.
//
// It must not import a face or how mail is sent.
//
// Imports: base/fault, base/web, notify, notify/mail/compose.
package mailbox
