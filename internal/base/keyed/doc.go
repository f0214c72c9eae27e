// Package keyed provides a mutex with a separate lock for each name.
//
// Imports: the standard library only.
package keyed
