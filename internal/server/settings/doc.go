// Package settings checks values that operators give in flags: listen addresses, host names and URLs. Its errors say
// what is expected, with an example, and never quote a value that may contain a password.
//
// Imports: the standard library only.
package settings
