// Package httpext serves the part of the notification service's HTTP API that both
// of its versions share and that Cloud Foundry's does not have: sends and
// messages, replays, the size of an audience, statistics, template previews and
// checks, webhooks, the suppression list, the built-in mailbox, the unsubscribe
// page, and the OpenAPI descriptions. A client sees what it sent itself;
// administrators see everything.
//
// It must not import a store, delivery, mail or the other HTTP APIs.
//
// Imports: base/fault, base/look, base/pattern, base/prefer, base/token,
// base/tracing, base/web, notify, notify/actions, notify/attach, notify/cron,
// notify/failover, notify/inbox, notify/provider, notify/recurring,
// notify/template, notify/tracking, github.com/google/uuid,
// golang.org/x/text/language, golang.org/x/time/rate.
package httpext
