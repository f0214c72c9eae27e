// Package notify holds the types and rules of the notification service: clients
// register notification kinds, store templates, and send to audiences; each send
// becomes one message per recipient, which channels deliver.
//
//	httpv1, httpv2 ──▶ actions: Service.Send ──▶ Store.Accept ──▶ response
//	                                               │ one transaction: send, first recipients, idempotency key
//	        delivery: expander ─── Directory.Page ─▶ Store.Extend      (large audiences, in chunks)
//	        delivery: dispatcher ─ Store.Claim ─▶ template ─▶ Channel ─▶ journal ─▶ Store.Finish
//
//	        a send with a time: Store.Accept ─▶ schedule ─ delivery: Store.Activate ─▶ as any other
//
//	states of a message
//
//	    queued ──▶ delivered                      accepted by the next hop
//	      │  ├───▶ unsubscribed                   the user wants it on no channel
//	      │  ├───▶ undeliverable                  suppressed, no usable address, or expired
//	      │  ├───▶ canceled                       its send was canceled
//	      │  ├───▶ skipped                        by the kind's workflow, or the user wants it on other channels only
//	      │  ├───▶ failed                         rejected permanently, or cannot be rendered (parked)
//	      │  └───▶ retry ──▶ delivered | unsubscribed | undeliverable | canceled | failed
//	      │          ▲│ rejected temporarily: waits, longer each time, until the last attempt
//	      │          └┘
//	      └── replayed by an operator from failed: back to queued
//
// The interfaces here are implemented elsewhere: Store by notify/notifydb,
// Directory by notify/audience, Channel by notify/mail.
//
// It must not import an HTTP API, a store, mail, the platform or the authorization
// server: the last two are reached over HTTP through the Directory.
//
// Imports: base/fault, base/pattern, notify/cron, golang.org/x/text/language.
package notify
