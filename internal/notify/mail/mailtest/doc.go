// Package mailtest is a mail server for tests and benchmarks: a fast sink that
// counts what it accepts and misbehaves on demand.
//
// Only tests and benchmarks import it. It must not share code with the client
// it judges.
//
// Imports: the standard library only.
package mailtest
