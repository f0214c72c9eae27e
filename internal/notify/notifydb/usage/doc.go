// Package usage counts the bytes of sends, lists and inboxes that are stored of each client,
// and refuses what is too much.
//
// It must not import a driver, another store, or an HTTP API. Only notifydb and its packages
// import it.
//
// Imports: base/db, notify, notify/notifydb/query.
package usage
