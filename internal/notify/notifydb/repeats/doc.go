// Package repeats finds recipients that a send has already, so that none gets a message
// twice.
//
// It must not import a driver, another store, or an HTTP API. Only notifydb imports it.
//
// Imports: base/db, notify.
package repeats
