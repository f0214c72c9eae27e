// Package testkit holds what tests of all packages share: waiting for a condition
// without an event, clocks that tests advance or set, an address that refuses
// connections, a certificate authority, and the small programs that instances need.
//
// Only tests import it.
//
// Imports: the standard library only.
package testkit
