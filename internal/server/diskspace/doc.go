// Package diskspace keeps a server usable when the disk of its data directory
// fills up.
//
//	free space     state    effect
//	>= reserve     Enough
//	<  reserve     Low      requests that store much data (uploads, builds, starts, sends) are rejected with 507
//	<  reserve/4   Full     DIR/reserve is released, so that logins, deletions and other small
//	                        writes still work; /readyz reports it
//
// DIR/reserve is a file of allocated but unused blocks. DIR/reserve-start
// is a second, smaller one of which a part is released when a server starts on a full
// disk. Both are recreated when there is enough free space.
//
// Any program can use the released blocks. Blocks that only the server can use are
// held in the logs of its databases (Guard.Hold): logins and deletions succeed when nothing
// else does, across crashes and restarts.
//
// Imports: base/background, base/fault,
// github.com/prometheus/client_golang/prometheus.
package diskspace
