// Package version says which Ingot this is.
//
// Imports: the standard library only.
package version
