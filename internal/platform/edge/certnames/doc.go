// Package certnames decides which host names may have certificates: those of the server, and those
// of routes.
//
// It must not know who issues certificates.
//
// Imports: platform.
package certnames
