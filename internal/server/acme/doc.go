// Package acme obtains certificates from a certificate authority with ACME (RFC 8555), when
// a client first asks for a name, and renews them in time. The protocol, renewal and OCSP
// come from certmagic, which only this package imports.
//
//	handshake ─▶ Manager.Certificate ── in memory ─────────────────────▶ certificate
//	                  │ not in memory                                       ▲
//	                  ▼                                                     │
//	               Decide ─▶ one order per name ─▶ Store, or the authority ─┘
//
// Options.Decide decides which names get certificates. Orders are limited, per
// owner and together, and a failed one is not repeated for a while: every name that anyone
// sends in a handshake arrives here, and authorities count orders.
//
// Certificates, keys and locks are in a Store that several servers share, so that one server
// orders and all serve; each can answer the authority's challenges for the others.
//
// certmagic's own handling of names on demand is not used: it starts goroutines in which a
// panic would end the process, renews only when a client comes, and has no limits.
//
// Imports: base/background, github.com/caddyserver/certmagic,
// github.com/mholt/acmez/v3/acme,
// github.com/prometheus/client_golang/prometheus, go.uber.org/zap,
// go.uber.org/zap/zapcore, golang.org/x/time/rate.
package acme
