// Package apitest runs the notification service for tests of its HTTP APIs: the
// real store and service, a directory of fake users, and no delivery. Every
// response is validated against the service's own OpenAPI description.
//
// Only tests import it.
//
// Imports: base/db, base/db/dbtest, base/fault, base/token, base/web,
// base/web/openapitest, notify, notify/actions, notify/httpext, notify/httpv1,
// notify/httpv2, notify/inbox, notify/mail/compose, notify/mail/mailbox,
// notify/notifydb, notify/template, notify/tracking,
// github.com/go-jose/go-jose/v4, github.com/go-jose/go-jose/v4/jwt.
package apitest
