// Package logs serves the log-cache API and the other ways to read the logs of
// apps, and defines the store of their lines.
//
//	writer ──Append──▶ Store ──▶ files, or PostgreSQL
//	                     │──▶ Tail ──▶ /api/v1/tail, drains
//	                     │──▶ Hose ──▶ /v2/read
//	                     └──▶ Read, Meta ──▶ /api/v1/read, /api/v1/meta
//
// The stores are logfiles and logdb; logstest is the suite that both pass.
//
// Lines can be read in two orders. Read returns them by time, as log-cache does. A
// Tail returns them by arrival, where they are numbered without gaps, so that a
// number is enough to continue; it reads at its own pace, and readers never delay
// the writer.
//
// No loss is silent: a line that reports a loss has the number of lost lines
// (LogLine.Lost), and the store adds them up.
//
// The package must not know engines, the controller, how lines are stored, or who
// may see which app: it asks through Access.
//
// Imports: base/background, base/fault, base/token, base/web, platform,
// platform/logs/promql, platform/logs/recorded, github.com/coder/websocket,
// github.com/prometheus/client_golang/prometheus.
package logs
