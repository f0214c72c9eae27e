// Package inboxes stores what users have in their inboxes, and tells other servers which
// inboxes changed. notifydb embeds it.
//
// It must not import a driver, another store, or an HTTP API. Only notifydb imports it.
//
// Imports: base/db, notify, notify/notifydb/query, notify/notifydb/usage.
package inboxes
