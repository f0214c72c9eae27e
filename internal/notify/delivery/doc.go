// Package delivery moves accepted sends to their end: it finds the recipients of
// large audiences, delivers messages, tries again what was refused for now, and
// tells webhooks what became of them.
//
//	expander   Store.ClaimExpansions ─▶ Directory.Page ─▶ Store.Extend        a chunk a turn, many sends side by side
//	dispatcher Store.Claim ─▶ batch: addresses, unsubscribes, suppressions,
//	                                 template ─▶ Channel.Deliver ─┐           several batches in flight
//	finisher   Store.Finish ◀── pending ◀── journal ◀─────────────┘ done()    many outcomes a transaction
//	caller     Store.Callbacks ─▶ POST ─▶ Store.FinishCallback
//
// Nothing is lost: a message is leased, not removed, until its outcome is
// committed. Little is doubled: before done returns, the number of a message that
// was accepted by the next hop is in the journal, a file beside the database.
// What the journal holds when the process starts is recorded as delivered before
// anything is claimed. So a process that is killed doubles at most the messages
// that were accepted while nobody had heard of it yet, one a connection. When the
// journal cannot be written (a full disk), done waits for the database instead.
// The journal outlives the process, not the machine's power: it is not synced.
//
// What cannot be rendered is parked: failed, visible, and replayable. Nothing that
// a client or a template holds ends the process.
//
// It must not import a store, a face, mail, or the platform.
//
// Imports: base/background, base/safedial, notify, notify/template,
// github.com/prometheus/client_golang/prometheus.
package delivery
