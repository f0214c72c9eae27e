// Package termtest is a terminal screen for tests: it interprets the few control
// sequences that package term writes, and wraps lines as terminals do.
//
// Imports: the standard library only.
package termtest
