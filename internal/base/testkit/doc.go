// Package testkit holds what tests of all packages share: waiting for a condition
// that has no event of its own, a clock that tests advance, an address that refuses
// connections, and the small programs that instances need.
//
// Only tests import it.
//
// Imports: the standard library only.
package testkit
