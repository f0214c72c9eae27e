// Package mailtest is a mail server for tests and benchmarks: a fast sink that
// counts what it accepts and misbehaves on demand.
//
// It may import the standard library; only tests and benchmarks import it. It
// must not share code with the client it judges.
package mailtest
