// Package digits writes numbers for people.
//
// It must not know what the numbers are of.
//
// Imports: the standard library only.
package digits
