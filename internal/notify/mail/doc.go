// Package mail is the notification service's e-mail channel.
//
//	notify.Outgoing ──▶ compose ──▶ dkim ──▶ smtp ──▶ a mail server
//	                       └──────────────▶ mailbox   without a mail server
//	                                dsn ◀──────────── bounces
//
// address checks addresses for everybody, mailtest is a server for tests.
//
// It must not import a face, a store or another adapter.
//
// Imports: base/background, notify, notify/mail/address, notify/mail/compose,
// notify/mail/dkim, notify/mail/smtp.
package mail
