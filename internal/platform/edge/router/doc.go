// Package router routes requests to app instances: a routing table and a proxy
// that uses it.
//
//	controller ──Update, Replace──▶ Table ◀──Lookup── Proxy, FastPath ──▶ instance
//
// A table is an immutable snapshot behind one pointer. A change copies the small
// part that it touches and swaps the pointer, so that lookups never wait and see
// either all of a change or nothing of it.
//
// The proxy behaves like Cloud Foundry's gorouter: the same headers to the app,
// the same X-Cf-Routererror values, the same access log line.
//
// Proxy is an http.Handler that supports everything: upgrades, HTTP/2, large
// uploads, route services. FastPath sits in front of the HTTP server as its
// listener and serves plain requests to HTTP/1 instances with its own code, which
// is several times as fast. For anything else it hands the connection to the
// server, with no byte consumed. Both choose instances, retry, count and log in
// the same way (exchange).
//
// An instance that cannot be reached or closes the connection gets no requests for
// a while (passive ejection). A request that reached no instance, or is
// idempotent, is retried on another one; when all have been tried, on those that
// the table has by then.
//
// A client that makes no progress for long loses its connection, so that it does
// not hold resources; a slow one does not (stall.go).
//
// The package must not know where routes come from, which engine runs instances,
// or where access lines go: callers set the routes and pass a function for lines.
//
// Imports: base/background, base/clock, base/connlimit, base/rootless,
// base/safedial, base/seal, base/tracing, base/web, platform/edge/router/http1,
// platform/edge/router/socket, github.com/prometheus/client_golang/prometheus.
package router
