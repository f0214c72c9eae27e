// Package throttles stores how many messages of a kind recipients got recently, and how much mail receiving
// domains got on a day. notifydb embeds it.
//
// It must not import a driver, another store, or an HTTP API. Only notifydb imports it.
//
// Imports: base/db, notify, notify/notifydb/query, notify/notifydb/repeats.
package throttles
