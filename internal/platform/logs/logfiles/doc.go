// Package logfiles stores the log lines of apps in files, for a single server.
//
//	writer ──Append──▶ Store ──▶ DIR/<app>/<number>.log   (one write a call)
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
// It must not know engines, the controller, or HTTP.
//
// Imports: base/background, base/datadir, platform, platform/logs,
// platform/logs/frame.
package logfiles
