// Package files stores what clients upload to attach it to sends, and which sends have it.
// notifydb embeds it.
//
// It must not import a driver, another store, or an HTTP API. Only notifydb imports it.
//
// Imports: base/db, notify, notify/notifydb/query, notify/notifydb/usage.
package files
