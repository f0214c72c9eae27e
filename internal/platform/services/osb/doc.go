// Package osb is a client of the Open Service Broker API, version 2.17: it calls
// brokers, which may be slow, down or faulty, and classifies the outcome.
//
// Every call is bounded in time and size, follows no redirect, and goes through
// a circuit breaker of its broker: after several calls in a row that reach
// no server, the next ones fail immediately for a while. An answer is only accepted
// if it follows the specification; anything else is Unknown where the broker
// may have done something, so that the caller can clean up.
//
// It must not import the platform's nouns, its store or its API.
//
// Imports: base/logging, base/safedial, base/tracing, github.com/google/uuid,
// github.com/prometheus/client_golang/prometheus, github.com/sony/gobreaker/v2.
package osb
