// Package termtest is a screen for tests: it understands the few control
// sequences that package term writes, and wraps lines as terminals do.
//
// It imports the standard library alone, and is imported by tests only.
package termtest
