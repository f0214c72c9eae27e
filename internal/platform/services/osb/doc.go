// Package osb is a client of the Open Service Broker API, version 2.17: it asks
// brokers, which may be slow, down, or wrong, and says in one word how it went.
//
// Every call is bounded in time and size, follows no redirect, and goes through
// a circuit breaker of its broker: after several calls in a row that found
// nobody, the next ones fail at once for a while. An answer is only believed if
// it is what the specification says; anything else is Unknown where the broker
// may have done something, so that the caller can clean up.
//
// It must not import the nouns, stores or faces.
//
// Imports: base/safedial, github.com/google/uuid, github.com/sony/gobreaker/v2.
package osb
