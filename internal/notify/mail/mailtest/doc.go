// Package mailtest is a mail server for tests and benchmarks: it counts and
// discards messages, and misbehaves on demand.
//
// Only tests and benchmarks import it. It must not share code with the client
// it tests.
//
// Imports: base/testkit.
package mailtest
