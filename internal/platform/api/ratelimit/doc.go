// Package ratelimit limits the requests of callers to the API, as Cloud Controller does:
// a number of requests of each user or client in an interval, another number for each
// address without a token, and the number of requests of a user that wait for service
// brokers at the same time.
//
// Counts are in memory. Servers that share a database divide the limits among themselves.
//
// It must not read the store: a request over a limit must cost nothing.
//
// Imports:
//
// Imports: base/fault, base/token, base/web, platform,
// github.com/maypok86/otter/v2.
package ratelimit
