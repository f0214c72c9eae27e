// Package reactions stores how often recipients opened a message and followed its links, and counts that in figures.
// notifydb embeds it.
//
// It must not import a driver, another store, or an HTTP API. Only notifydb imports it.
//
// Imports: base/db, notify, notify/notifydb/figures, notify/notifydb/query.
package reactions
