// Package preferences stores what users unsubscribed from and which addresses are
// suppressed, and what stays of it when a person is erased. notifydb embeds it.
//
// It must not import a driver, another store, or an HTTP API. Only notifydb imports it.
//
// Imports: base/db, notify, notify/notifydb/catalog, notify/notifydb/query,
// notify/notifydb/topics.
package preferences
