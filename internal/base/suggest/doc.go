// Package suggest finds the word that somebody may have meant.
//
// It imports the standard library alone, and must not import anything of this
// module: programs, the client and the parser of manifests share it.
package suggest
