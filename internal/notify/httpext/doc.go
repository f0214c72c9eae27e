// Package httpext serves the part of the notification service's HTTP API that both
// of its versions share and that Cloud Foundry's does not have: a client's own
// sends and messages, replays, template previews, webhooks, the suppression list,
// the unsubscribe page, and the OpenAPI descriptions.
//
// It must not import a store, delivery, mail or the other HTTP APIs.
//
// Imports: base/fault, base/token, base/web, notify, notify/template,
// github.com/google/uuid.
package httpext
