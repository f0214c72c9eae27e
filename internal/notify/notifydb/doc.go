// Package notifydb implements notify.Store, the store of the notification
// service, on SQLite and PostgreSQL, with its schema migrations.
//
// The cost per message decides the throughput of the service, so a message takes
// three steps: its row is inserted, in batches; it is claimed, which does not
// write to the row; and it is finished, in batches.
//
//	accept.go   concurrent calls of Accept share one transaction
//	load.go     clients of which too many messages wait
//	extend.go   large audiences, in chunks, without duplicate recipients
//	claim.go    due messages, from three priority queues
//	leases.go   which worker holds which message: in memory on SQLite, where this
//	            process is the only one; on PostgreSQL one row per claim
//	finish.go   outcomes
//
// The rest of the interface is in packages that Store embeds: catalog (what clients define
// before they send), browsers (push subscriptions), files, inboxes, occurrences (sends that
// recur), preferences and webhooks. They share usage (bytes per client) and query
// (transactions, lists as arguments). waits counts the messages of clients that wait long,
// repeats finds recipients that a send has already, receipts is who sent something to whom.
//
// Only waiting messages are indexed, by queue and due time, so neither finished
// messages nor those that are not due yet slow down a claim.
//
// Counters of a large send are stored in their own rows (notify_counts), sharded so
// that no two workers wait for the same row. The messages of a small send are
// counted on demand. The total of waiting messages is kept the same way
// (notify_backlog).
//
// Where the contract of notify.Store leaves a choice, this implementation does the
// following:
//
//   - Text that no database can store (a NUL byte, or invalid UTF-8) matches
//     nothing: looking it up returns ErrNotFound, storing it fault.Unprocessable.
//   - Addresses are compared without case when duplicate recipients are removed.
//   - NextDue counts a leased message from the end of its lease on.
//   - A replayed message starts over: it has no attempts, and takes precedence over
//     bulk mail.
//   - A message that is finished after its lease expired is finished nevertheless.
//   - Deleting a sender deletes its campaign types; deleting a webhook deletes its
//     pending calls.
//   - When a send is purged before its idempotency key, the key returns only the
//     number of the send.
//
// It must not import a driver, another store, or an HTTP API. Only system and
// tests import it.
//
// Imports: base/background, base/clock, base/db, base/fault, base/keyed,
// notify, notify/notifydb/browsers, notify/notifydb/catalog,
// notify/notifydb/figures, notify/notifydb/files, notify/notifydb/inboxes,
// notify/notifydb/occurrences, notify/notifydb/preferences,
// notify/notifydb/query, notify/notifydb/reactions, notify/notifydb/receipts,
// notify/notifydb/repeats, notify/notifydb/throttles, notify/notifydb/topics,
// notify/notifydb/usage, notify/notifydb/waits, notify/notifydb/webhooks.
package notifydb
