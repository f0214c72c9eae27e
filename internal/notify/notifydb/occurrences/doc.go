// Package occurrences stores sends that recur, and which of their occurrences are due.
// notifydb embeds it.
//
// It must not import a driver, another store, or an HTTP API. Only notifydb imports it.
//
// Imports: base/db, notify, notify/notifydb/catalog, notify/notifydb/query.
package occurrences
