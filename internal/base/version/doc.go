// Package version says which Ingot this is.
//
// It may be imported by every package and imports nothing.
package version
