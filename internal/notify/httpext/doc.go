// Package httpext is what the notification service offers beyond its two
// versions, under both: a client's own sends and messages, replays, previews of
// templates, webhooks, the list of suppressed addresses, the page on which a
// recipient unsubscribes, and the OpenAPI description of all of it.
//
// It must not import a store, delivery, mail or the other faces.
//
// Imports: base/fault, base/token, base/web, notify, notify/template,
// github.com/google/uuid.
package httpext
