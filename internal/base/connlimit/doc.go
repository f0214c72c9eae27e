// Package connlimit bounds how many connections are open at once, per source and
// together, and accepts connections in a way that neither a flood nor a shortage
// of file descriptors ends.
//
// It may import the standard library and golang.org/x/sys only.
package connlimit
