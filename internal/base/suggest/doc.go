// Package suggest finds the word that somebody may have meant.
//
// Programs, the client and the parser of manifests share it.
//
// Imports: the standard library only.
package suggest
