// Package version identifies the build.
//
// Imports: the standard library only.
package version
