// Package webhooks stores the webhooks of clients and the calls to make. notifydb embeds it.
//
// It must not import a driver, another store, or an HTTP API. Only notifydb imports it.
//
// Imports: base/db, notify, notify/notifydb/query.
package webhooks
