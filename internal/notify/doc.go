// Package notify is the notification service's nouns and rules: clients
// register kinds, keep templates, and send to audiences; a send becomes
// messages, one a recipient, which channels deliver.
//
//	face (httpv1, httpv2) ──▶ Service.Send ──▶ Store.Accept ──▶ answered
//	                                             │ one transaction: send, first recipients, idempotency key
//	        delivery: expander ─ Directory.Page ─▶ Store.Extend      (large audiences, chunk by chunk)
//	        delivery: workers ── Store.Claim ─▶ template ─▶ Channel ─▶ journal ─▶ Store.Finish
//
//	life of a message
//
//	    queued ──▶ delivered                      the next hop took it
//	      │  ├───▶ undeliverable                  unsubscribed, suppressed, or no usable address
//	      │  ├───▶ failed                         refused for good, or cannot be rendered (parked)
//	      │  └───▶ retry ──▶ delivered | undeliverable | failed
//	      │          ▲│ refused for now: waits, longer each time, until the last attempt
//	      │          └┘
//	      └── replayed by an operator from failed: back to queued
//
// The interfaces here are owned by this package and implemented elsewhere: the
// Store by db/notifydb, the Directory by notify/audience, Channels by mail.
//
// It must not import a face, a store, mail, the platform or the authorization
// server: those are reached over HTTP through the Directory.
//
// Imports: base/fault, golang.org/x/time/rate.
package notify
