// Package mail is the notification service's e-mail channel.
//
//	notify.Outgoing ──▶ compose ──▶ dkim ──▶ smtp ──▶ a mail server
//	                       └──────────────▶ mailbox   without a mail server
//	                                dsn ◀──────────── bounces
//
// address checks addresses for everybody, mailtest is a server for tests.
//
// It may import notify, run, web, its own sub-packages and the mail libraries.
// It must not import a face, a store or another adapter.
package mail
