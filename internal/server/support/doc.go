// Package support collects what a bug report about a server needs, in one archive without
// secrets.
//
//	facts of the machine ─┐
//	the server's process ─┼─▶ parts, each with a time limit ─▶ Scrubber ─▶ tar.gz with index.txt
//	its admin address ────┘
//
// Nothing is copied as a whole: each part names what it reads. Texts also pass a Scrubber, which
// removes the secrets that the command knows and whatever looks like one. A part that cannot be
// collected, because the server is down or hangs for example, is named in the index with the
// reason. It must not import a wing: the command adds the parts that need one.
//
// Imports: base/background, base/datadir, base/logging, base/mounts,
// base/pattern, github.com/google/nftables, golang.org/x/sys/unix.
package support
