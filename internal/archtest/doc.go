// Package archtest checks the rules of this repository as tests: what a package
// comment says, which packages may import each other, how long a file may be, where
// routes are registered, what a file must not mention, and which modules are
// linked. Each rule states its reason, and each check is itself tested with
// made-up violations.
//
// It has no code outside its tests.
//
// Imports: the standard library only.
package archtest
