// Package receipts stores which clients sent something to which users, and remembers for a short time what is stored.
//
// It must not import a driver, another store, or an HTTP API. Only notifydb imports it.
//
// Imports: base/db, notify/notifydb/query.
package receipts
