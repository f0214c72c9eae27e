// Package httpv1 is version 1 of the notification service's HTTP API: what a
// client reaches that sends no X-NOTIFICATIONS-VERSION header, or 1.
//
// Messages of errors are those of Cloud Foundry's notification service where it
// has one: its clients show them. Bodies are JSON, read strictly where that
// service does so, and leniently where its clients rely on it (sends).
//
// It must not import a store, delivery, mail or the other faces.
//
// Imports: base/fault, base/token, base/web, notify, notify/template,
// github.com/google/uuid.
package httpv1
