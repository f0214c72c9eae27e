// Package router brings requests to app instances: a table of routes and a
// proxy that looks into it.
//
//	controller ──Set, Remove, Replace──▶ Table ◀──Lookup── Proxy ──▶ instance
//
// A table is an immutable snapshot behind one pointer. A change copies the small
// part that it touches and swaps the pointer, so that lookups never wait and see
// either all of a change or nothing of it.
//
// The proxy answers as Cloud Foundry's gorouter does: the same headers to the
// app, the same X-Cf-Routererror words, the same access log line.
//
// It may import fault, oplog, run, token, web and the standard library; it must
// not know where routes come from, engines, or where access lines go: it is told
// the first and tells the last through a function.
package router
