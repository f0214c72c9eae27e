// Package deltas remembers of droplets that were made by changing a few files of another
// one, or built and found to differ from an earlier one in a few files, what these are. An
// engine that has the other one unpacked need not unpack all files again. It is a cache: the
// droplets are complete without it, and another server, or this one after a restart, unpacks
// them. It also remembers packages that were made like that, whose builds need not store
// their cache.
//
// Imports: platform/storage/archive.
package deltas
