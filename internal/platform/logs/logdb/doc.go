// Package logdb stores the log lines of apps in PostgreSQL, for several servers on
// one database: any of them reads what any of them wrote, and lines survive the
// server that wrote them.
//
//	Append, Tell ──▶ queue ──▶ flush: one transaction for many apps ──▶ log_chunks ──merge──▶ log_runs ──▶ object store
//	                             │                                          │                     │            │
//	                             └─ NOTIFY ──▶ tails of all servers ◀───────┴─────────────────────┴────────────┘
//
// A flush takes what was queued during 60 ms, or sooner if that is much. It locks
// the rows of its apps in log_apps in sorted order, which makes the arrival numbers
// of lines gapless and their order the order of commits. The positions of streams
// (log_streams) change in the same transaction as their lines are stored, so a line
// of an instance is stored exactly once, whichever server sends it. A lease may
// move while a flush is on its way: see [Fence].
//
// Chunks are in partitions of 10 minutes. A full partition is closed, its chunks
// are merged into runs, and it is dropped, so nothing has to be vacuumed. Merging
// applies the limits: an app keeps its newest lines. Runs of the final size move to
// the object store, if there is one.
//
// While the database cannot be reached, Append waits and lines without a stream are
// kept, both within a limit of memory. After that Append fails, and lines without a
// stream are counted and reported as lost later.
//
// It must not know engines, the controller, or HTTP.
//
// Imports: base/background, base/clock, base/db, base/fault, platform,
// platform/logs, platform/logs/frame, github.com/klauspost/compress/zstd.
package logdb
