// Package actions has the operations on sends: Service checks a request, reads the first
// recipients of its audiences, and stores it. The HTTP APIs and recurring sends call it.
//
//	request ─▶ check ─▶ Store.Registration ─▶ Directory.Resolve ─▶ Reader.Read ─▶ Store.Accept
//
// It must not import an HTTP API, a store or a channel: the server passes them to New.
//
// Imports: base/fault, base/schema, notify, golang.org/x/time/rate.
package actions
