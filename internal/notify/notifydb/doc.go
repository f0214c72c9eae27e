// Package notifydb is the store of the notification service on SQLite and
// PostgreSQL: it implements notify.Store, and brings the tables it needs.
//
// What a message costs decides how fast the service is, so its life is three
// things: its row is inserted, many at a time; it is claimed, which writes
// nothing to it; and it is finished, many at a time.
//
//	accept.go   calls of Accept that come together are one transaction
//	extend.go   large audiences, a chunk at a time, nobody twice
//	claim.go    what is due, from three lanes
//	leases.go   who holds what: in memory on SQLite, where this process is the
//	            only one; on PostgreSQL a row for each claim
//	finish.go   outcomes
//
// Only messages that wait are in an index, by lane and due time, so neither
// what is done nor what is not due yet slows a claim down.
//
// Counts of a send to many are kept in rows of their own (notify_counts), in
// shards, of which each transaction takes another: no two workers wait for the
// same row. The few messages of a small send are counted when asked for. How
// many messages wait at all is kept the same way (notify_backlog).
//
// What the contract of notify.Store leaves open, here is so:
//
//   - Text that no database can hold (a NUL byte, or no UTF-8) is the name of
//     nothing: looking it up is ErrNotFound, storing it fault.Unprocessable.
//   - Addresses are the same whatever their case, when recipients that came
//     twice are left out.
//   - NextDue counts a message that is held from the end of its lease on.
//   - A replayed message begins anew: it has no attempts, and goes before bulk
//     mail.
//   - A message that was claimed and is finished after its lease ended is
//     finished all the same.
//   - Deleting a sender deletes its campaign types; deleting a webhook deletes
//     what was to be told to it.
//   - A send that was purged is, for an idempotency key that outlives it, known
//     by its number only.
//
// It must not import a driver, another store, or anything that faces users.
// Nobody but system and tests imports it.
//
// Imports: base/background, base/db, base/fault, notify.
package notifydb
