// Package handbooktest finds the commands in the documents, for the tests that parse and run them.
//
// Only tests import it.
//
// Imports: the standard library only.
package handbooktest
