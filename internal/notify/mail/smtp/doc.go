// Package smtp sends messages to a mail server, many over few connections.
//
//	Client.Deliver ── queue ──▶ worker ── conn ──▶ server
//	                    ▲          │
//	                    └ not sent ┘    a worker a connection; what a lost
//	                                    connection had not sent goes back
//
// A connection that may pipeline sends the envelope of the next message behind
// the content of the present one, one round trip a message:
//
//	C: MAIL₁ RCPT₁ DATA                  S: 250 250 354
//	C: content₁ .  MAIL₂ RCPT₂ DATA      S: 250 (done₁ is called here) 250 250 354
//	C: content₂ .  …
//
// The content of the next message is not transmitted before done was called
// for the one before. Every wait has a deadline. A server that hangs, talks
// nonsense or goes away costs at most the message whose content it had, and that
// one is tried again later; several such failures in a row open a breaker, and
// the rest is postponed without another try.
//
// It must not import how messages are made or kept.
//
// Imports: base/background, notify, notify/mail/compose,
// github.com/sony/gobreaker/v2.
package smtp
