// Package suggest finds the closest match for a misspelled word.
//
// The server, the client and the manifest parser share it.
//
// Imports: the standard library only.
package suggest
