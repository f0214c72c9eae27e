// Package ownserver has what the machine gives to a database server that belongs to one service
// instance: a disk of a fixed size, where that is possible, and a share of the memory.
//
// The package must not import the broker, and knows nothing of service instances.
//
// Imports: base/cgroup, base/loopdisk, golang.org/x/sys/unix.
package ownserver
