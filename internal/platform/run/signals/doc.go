// Package signals tells the parts of the platform what has changed: those of this server, and
// through a bus those of the other servers on the same database.
//
//	action ─▶ Signals ─┬─▶ controller, tasks, builds, jobs, drains, router
//	                   └─▶ bus ─▶ Signals.Received of the other servers ─▶ their parts
//
// A message that is lost delays, and changes nothing else: every part also looks for work by itself.
//
// It does no work of its own, and does not know how messages reach other servers.
//
// Imports: base/background, base/tracing, platform,
// platform/edge/router/accesslog, platform/logs/appinfo, platform/logs/drain,
// platform/run/controller, platform/run/controller/routing,
// platform/run/netrules, platform/run/staging, platform/services.
package signals
