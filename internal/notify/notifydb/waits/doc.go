// Package waits counts the messages of each client that wait long, by reason and channel, so that no client fills the
// queue with them.
//
// It must not import a driver, another store, or an HTTP API. Only notifydb imports it.
//
// Imports: base/db, notify, notify/notifydb/query.
package waits
