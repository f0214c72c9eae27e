// Package connlimit bounds how many connections are open at once, per source and
// together, and accepts connections in a way that neither a flood nor a shortage
// of file descriptors ends.
//
// Imports: golang.org/x/sys/unix.
package connlimit
