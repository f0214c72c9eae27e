// Package termtest is a screen for tests: it understands the few control
// sequences that package term writes, and wraps lines as terminals do.
//
// Imports: the standard library only.
package termtest
