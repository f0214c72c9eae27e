// Package bits turns a folder or an archive into the upload of an app: it finds
// the files that .cfignore does not exclude, reads each of them once to compute
// its checksums, and writes them as a zip whose length is known in advance.
//
// It must not import anything of this module.
//
// Imports: base/pushignore, github.com/klauspost/compress/flate.
package bits
