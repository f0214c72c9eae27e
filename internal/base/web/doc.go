// Package web is the plumbing under every HTTP face of Ingot: the route table
// with its authorization decisions, request ids, limits, panic recovery, and
// the one place where errors become responses.
//
//	Server ─▶ Pipeline (request id, recovery, access log) ─▶ Mux ─▶ route:
//	          limits ─▶ Access decision ─▶ handler ─▶ error to body
//
// A route cannot be registered without an Access, and nothing outside this
// package may make a router of its own (package archtest checks it), so that no
// route escapes the decision.
//
// It must not know any service.
//
// Imports: base/background, base/fault, base/logging, base/token,
// github.com/go-chi/chi/v5, github.com/go-chi/chi/v5/middleware,
// github.com/google/uuid, github.com/prometheus/client_golang/prometheus.
package web
