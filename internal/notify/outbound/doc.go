// Package outbound makes the HTTP calls of the notification service to addresses that its clients chose: signed,
// bounded in time and size, without redirects, and not into private networks.
//
// It must not import a store, an HTTP API or delivery.
//
// Imports: base/background, base/safedial, notify.
package outbound
