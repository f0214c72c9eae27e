// Package web is the foundation of the HTTP APIs of Ingot (all but the bundled
// broker, which uses another library): the route table with its
// authorization decisions, request ids, limits, panic recovery, and the mapping
// of errors to responses.
//
//	Server ─▶ Pipeline (request id, recovery, access log) ─▶ Mux ─▶ route:
//	          limits ─▶ Access decision ─▶ handler ─▶ error to body
//
// A route cannot be registered without an Access, and no other package may
// create a router (package archtest checks this), so that no route lacks an
// authorization decision.
//
// It must not import any service.
//
// Imports: base/background, base/fault, base/logging, base/suggest, base/token,
// base/tracing, github.com/go-chi/chi/v5, github.com/go-chi/chi/v5/middleware,
// github.com/google/uuid, github.com/prometheus/client_golang/prometheus.
package web
