// Package logs keeps the log lines of apps and answers the log-cache API.
//
//	feeder ──Append──▶ Store ──▶ DIR/<app>/<number>.log   (one write a call)
//	                     │──▶ Tail ──▶ /api/v1/tail, drains
//	                     └──▶ Read, Meta ──▶ /api/v1/read, /api/v1/meta
//
// An app's lines are in segment files that are only ever appended to; when the
// app has more than its share the oldest segments go as a whole. The files are
// the truth: memory holds a few numbers per segment and stream, and what Append
// returned from outlives the server process (the machine's crash it does not).
//
// A segment begins with a header that repeats what was known when it was begun:
// the position of every stream and the numbers of the segments before it. So
// only an app's newest segment is read when the store opens, and a stream's
// position is not forgotten when its lines have been dropped.
//
// Lines are read in two orders. Read has them by their times, as log-cache does.
// A Tail has them by arrival, where they are numbered without gaps, so that a
// number is all that is needed to go on; it reads the files at its own pace, and
// nobody who reads is ever in the writer's way.
//
// Nothing is lost without a word: a line that tells of a loss has the number of
// lost lines with it (LogLine.Lost), and the sums are kept with the segments.
//
// It must not know engines, the controller, or who may see which app: that it
// asks through Access.
//
// Imports: base/background, base/fault, base/token, base/web, platform,
// github.com/prometheus/client_golang/prometheus.
package logs
