// Package smtp is an SMTP client that sends many messages over a few pooled
// connections.
//
//	Client.Deliver ── queue ──▶ worker ── conn ──▶ server
//	                    ▲          │
//	                    └ not sent ┘    one worker per connection; messages that a
//	                                    lost connection had not sent are requeued
//
// With PIPELINING, a connection sends the envelope of the next message right after
// the content of the current one, which needs one round trip per message:
//
//	C: MAIL₁ RCPT₁ DATA                  S: 250 250 354
//	C: content₁ .  MAIL₂ RCPT₂ DATA      S: 250 (done₁ is called here) 250 250 354
//	C: content₂ .  …
//
// The content of the next message is not sent before done was called for the
// previous one. Every wait has a deadline. A server that hangs, sends invalid
// replies or disconnects affects at most the message whose content it had
// received, and that message is retried later; several such failures in a row open
// a circuit breaker, and the other messages are postponed without another attempt.
//
// It must not import packages that decide what is sent, or the store.
//
// A Gate limits the messages to each domain at a time. A connection whose message waits too long for an answer lends
// its slot, so that another connection can be opened for other messages.
//
// Imports: base/background, notify, notify/failover, notify/mail/compose.
package smtp
