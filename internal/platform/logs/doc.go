// Package logs stores the log lines of apps and serves the log-cache API.
//
//	writer ──Append──▶ Store ──▶ DIR/<app>/<number>.log   (one write a call)
//	                     │──▶ Tail ──▶ /api/v1/tail, drains
//	                     └──▶ Read, Meta ──▶ /api/v1/read, /api/v1/meta
//
// An app's lines are in append-only segment files; when the app exceeds its share
// the oldest segments are deleted. The files are the source of truth: memory holds
// a few numbers per segment and stream. Lines survive the server process once
// Append has returned (but not a crash of the machine).
//
// A segment starts with a header that repeats the state before it: the position of
// every stream and the metadata of the earlier segments. So only an app's newest
// segment is read when the store opens, and a stream's position survives its
// lines.
//
// Lines can be read in two orders. Read returns them by time, as log-cache does. A
// Tail returns them by arrival, where they are numbered without gaps, so that a
// number is enough to continue; it reads the files at its own pace, and readers
// never delay the writer.
//
// No loss is silent: a line that reports a loss has the number of lost lines
// (LogLine.Lost), and the sums are stored in the segments.
//
// The package must not know engines, the controller, or who may see which app: it
// asks through Access.
//
// Imports: base/background, base/fault, base/token, base/web, platform,
// github.com/prometheus/client_golang/prometheus.
package logs
