// Package gitfetchtest serves git repositories with git itself, for tests.
//
// Imports: the standard library only.
package gitfetchtest
