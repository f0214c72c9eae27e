// Package homedir reads the home directory of an instance: as a tar stream, and its size.
// The instance may change its files at the same time, and make them as it likes.
//
// It is linked into ingot-init and therefore uses the standard library only.
//
// Imports: the standard library only.
package homedir
