// Package pacing decides when mail goes to a receiving domain, so that one that is slow or asks for less delays no
// other.
//
//	                    Admit                            Gate                         Answered
//	message ──▶ quota of the warm-up plan ──▶ permits of the domain, ──▶ mail server ──▶ how long it took,
//	            rate, shared by clients       more with quick answers                   421, 450, 451, 452
//	            room for slow domains                 │
//	                 │                                │ the domain became slow
//	                 └── later: no attempt ◀──────────┘
//
//	quick ── answers take a second ──▶ slow: other connections, bounded room
//	  ▲                                  │
//	  └──────── half a second ───────────┘
//
// What it learns of a domain stays on this server and is forgotten when the domain is idle; configured rates are
// divided by the number of servers, and the quotas of the warm-up plan are kept by the store.
//
// Imports: base/background, notify, notify/mail/smtp.
package pacing
