// Package archive reads untrusted archives, and writes archives.
//
// What is read (application packages, droplets, buildpacks, caches) is
// untrusted and may be malicious. So everything in it is checked:
//
//   - Names. The names seen so far are kept as a tree (see tree.go). An entry is
//     refused if its name is absolute, has "..", a NUL or (zip) a backslash, is too
//     long or too deep, passes through a link or a file, or replaces one kind of entry
//     by another. A file that comes twice is allowed: the last one wins, as in tar.
//   - Links. A symbolic link may point to anything inside the root, through other
//     links too, in any order of the entries. So links are checked once all names
//     are known, and created last: nothing is ever written through a link. A hard
//     link names an earlier file.
//   - Sizes. Bytes are counted while they are inflated; what a header says is only
//     used to refuse sooner. Names, nesting, inflated bytes, their ratio to the
//     archive's size and the memory for a zip's directory are limited.
//   - Modes. The permission bits are kept, setuid, setgid and sticky are not.
//     The owner can always read and write (and enter directories), so that what
//     was extracted can also be removed.
//
// Every refusal is a fault.Unprocessable that names the entry and the reason. An
// error of the source (a reader that failed) is returned unchanged.
//
// Extraction goes through os.Root, so that even a process that changes the
// directory at the same time cannot redirect it outside. The directory must be
// empty, and after an error it is empty again.
//
// It does not know which archives there are, or where they are stored.
//
// Imports: base/fault, github.com/klauspost/compress/flate,
// github.com/klauspost/compress/gzip, github.com/klauspost/compress/zstd.
package archive
