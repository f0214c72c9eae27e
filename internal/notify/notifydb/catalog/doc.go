// Package catalog stores what clients define before they send: clients, kinds and their
// schemas, channels and workflows, templates with their partials and versions, senders and
// campaign types, destinations, and the origins of inboxes. notifydb embeds it.
//
// Every send needs its client, kind and template, so their readers share one query or a cache
// (registered.go). The definitions of a client may take a limited number of bytes
// (definitions.go).
//
// It must not import a driver, another store, or an HTTP API. Only notifydb imports it.
//
// Imports: base/background, base/db, notify, notify/notifydb/query.
package catalog
