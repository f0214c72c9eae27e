// Package diskspace keeps a server usable when the disk of its data directory
// fills up.
//
//	free space     state    what follows
//	>= reserve     Enough
//	<  reserve     Low      what stores much (uploads, builds, starts, sends) is refused with 507
//	<  reserve/4   Full     DIR/reserve is given back, so that logins, deletions and other small
//	                        writes go on; /readyz says so
//
// DIR/reserve is a file of allocated blocks that nobody reads. DIR/reserve-start
// is a second, smaller one that is given back only when a server starts on a full
// disk. Both are made anew when there is room again.
//
// Imports: base/background, base/fault.
package diskspace
