// Package browsers stores which browsers users have subscribed to push notifications. notifydb
// embeds it.
//
// It must not import a driver, another store, or an HTTP API. Only notifydb imports it.
//
// Imports: base/db, notify, notify/notifydb/query, notify/notifydb/usage.
package browsers
