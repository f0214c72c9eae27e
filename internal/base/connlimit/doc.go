// Package connlimit limits the number of open connections, per source and in
// total, and keeps accepting connections during a flood or a shortage of file
// descriptors.
//
// Imports: base/clock, golang.org/x/sys/unix.
package connlimit
