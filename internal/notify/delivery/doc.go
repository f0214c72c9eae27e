// Package delivery processes accepted sends: it expands large audiences into
// messages, renders and delivers messages, retries temporary failures, and calls
// webhooks with the results.
//
//	expander   Store.ClaimExpansions ─▶ Directory.Page ─▶ Store.Extend        one chunk per turn, many sends concurrently
//	dispatcher Store.Claim ─▶ batch: addresses, unsubscribes, suppressions,
//	                                 template ─▶ Channel.Deliver ─┐           several batches concurrently
//	finisher   Store.Finish ◀── pending ◀── journal ◀─────────────┘ done()    many outcomes per transaction
//	caller     Store.Callbacks ─▶ POST ─▶ Store.FinishCallback
//
// No message is lost: a message is leased, not removed, until its outcome is
// committed. Duplicates are rare: before done returns, the number of a message
// that the next hop accepted is in the journal, a file beside the database. At
// startup, the messages in the journal are recorded as delivered before anything
// is claimed. So a process that is killed sends again at most the messages whose
// acceptance it had not yet processed, one per connection. When the journal
// cannot be written (a full disk), done waits for the database instead. The
// journal survives the process but not a power cut: it is not synced.
//
// A message that cannot be rendered is parked: it has failed, is listed, and can
// be replayed. No input from a client or a template can crash the process.
//
// It must not import a store, an HTTP API, mail, or the platform.
//
// Imports: base/background, base/clock, base/datadir, base/logging,
// base/pattern, base/tracing, notify, notify/actions, notify/outbound,
// notify/template, notify/tracking,
// github.com/hashicorp/golang-lru/v2/simplelru,
// github.com/prometheus/client_golang/prometheus, golang.org/x/text/language.
package delivery
