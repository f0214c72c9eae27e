// Package memlimit keeps the memory of an idle process small.
//
// Go lets the heap grow to twice the live size before it collects, and returns
// memory to the system slowly. For a server that works in bursts and keeps little
// in memory, this is most of its memory. Package memlimit sets a limit below
// which the runtime collects earlier and returns memory at once. The limit grows
// with the live heap, so a large server is not slowed down. ReleaseCode unmaps code
// that only the start needs.
//
// Imports: base/background.
package memlimit
