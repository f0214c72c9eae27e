// Package bits turns a folder or an archive into what is uploaded as an app:
// it finds the files that .cfignore leaves, reads each of them once for its
// sums, and writes them as a zip whose length is known before it is written.
//
// It must not import anything of this module.
//
// Imports: github.com/klauspost/compress/flate,
// github.com/sabhiram/go-gitignore.
package bits
