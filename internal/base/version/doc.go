// Package version has the version of the build, which `ingot version`, the API and
// the logs show.
//
// Imports: base/pattern.
package version
