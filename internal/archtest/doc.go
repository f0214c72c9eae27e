// Package archtest holds the rules of this repository that a machine can check, as
// tests: what a package's comment says, who may import whom, how long a file may
// be, where routes are registered, what must not be named in a file, and which
// modules are linked. Each rule carries its reason, and each check is itself
// tested with made-up violations.
//
// It has no code outside its tests.
//
// Imports: the standard library only.
package archtest
