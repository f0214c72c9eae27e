// Package topics stores the topics of clients, who subscribed to them, and who left them.
// notifydb embeds it.
//
// Subscribers are rows by a hash of their name: it places them in a list, of which a send
// remembers how far it has read, and stays when those who left are erased.
//
// It must not import a driver, another store, or an HTTP API. Only notifydb and
// its packages import it.
//
// Imports: base/db, notify, notify/notifydb/catalog, notify/notifydb/query.
package topics
