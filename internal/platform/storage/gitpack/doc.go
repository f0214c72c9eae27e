// Package gitpack reads the packs that git sends: the objects of a repository, most of them
// compressed, many as differences from others.
//
// What is read is untrusted. So an object is never held in memory as a whole unless it is
// small: its content goes to a temporary file, which is removed as soon as it is created,
// and memory holds a fixed number of bytes per object. The number of objects, the bytes of
// packs and of contents together, the bytes that are unpacked for them, the length of chains of
// differences, and the number, depth and names of files are limited (see Limits); nothing is
// recursive. Every refusal is a fault.Unprocessable or fault.TooLarge that names the reason.
//
// Objects are identified by SHA-1, as git does. A collision is no use to an attacker: all
// objects belong to one app, whose developers can change its code anyway.
//
//	read.go   a pack, and the differences in it
//	stream.go where a pack ends
//	delta.go  one difference
//	spill.go  the temporary file
//	graph.go  commits and trees: what a commit needs
//	files.go  the files of a commit, checked, and their zip
//	write.go  a pack of what a commit needs
//
// It does not know what a commit is deployed to, or how packs are transferred.
//
// Imports: base/fault, github.com/klauspost/compress/flate,
// github.com/klauspost/compress/zlib.
package gitpack
