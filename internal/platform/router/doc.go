// Package router brings requests to app instances: a table of routes and a
// proxy that looks into it.
//
//	controller ──Update, Replace──▶ Table ◀──Lookup── Proxy, Express ──▶ instance
//
// A table is an immutable snapshot behind one pointer. A change copies the small
// part that it touches and swaps the pointer, so that lookups never wait and see
// either all of a change or nothing of it.
//
// The proxy answers as Cloud Foundry's gorouter does: the same headers to the
// app, the same X-Cf-Routererror words, the same access log line.
//
// There are two ways through it. Proxy is an http.Handler and does everything:
// upgrades, HTTP/2, large uploads, route services. Express sits before the HTTP
// server as its listener, and serves plain requests to HTTP/1 instances with code
// of its own, which is several times as fast; at the first thing that is not
// plain it gives the connection to the server, with nothing of it consumed. Both
// choose instances, repeat requests, count and tell in the same way (exchange).
//
// An instance that cannot be reached or hangs up gets no requests for a while
// (passive ejection). What reached nobody, or may be done twice, goes to another
// instance; when none is left, to those that the table has by then.
//
// A client that stands still for long loses its connection, so that it does not
// keep what is held for it; one that is slow does not (stalls, patience).
//
// It must not know where routes come from, engines, or where access lines go:
// it is told the first and tells the last through a function.
//
// Imports: base/background, base/safedial, base/seal, base/web, platform,
// github.com/prometheus/client_golang/prometheus, golang.org/x/sys/unix.
package router
