// Package limit counts attempts that can be given back, such as a login that turned out to be
// right. For limits without that, use golang.org/x/time/rate.
//
// Imports: the standard library only.
package limit
