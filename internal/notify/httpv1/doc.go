// Package httpv1 serves version 1 of the notification service's HTTP API: requests
// with X-NOTIFICATIONS-VERSION: 1 or without that header.
//
// Error messages are those of Cloud Foundry's notification service where it
// has one, because its clients show them. Bodies are JSON, decoded strictly where
// that service does so, and leniently where its clients rely on it (sends).
//
// It must not import a store, delivery, mail or the other HTTP APIs.
//
// Imports: base/fault, base/pattern, base/token, base/tracing, base/web,
// notify, notify/actions, notify/template, github.com/google/uuid.
package httpv1
