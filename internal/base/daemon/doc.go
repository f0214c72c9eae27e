// Package daemon runs database servers as child processes: PostgreSQL, MariaDB and
// Redis, as installed on the machine. It locates their programs, chooses the user they
// run as, and keeps one server running per data directory:
//
//	idle ──Ensure──▶ prepare ─▶ start ─▶ ready ──exits──▶ wait ─▶ start …
//	  └───────────────────────── Stop ─────────────────────────────▶ stopped
//
// Two servers never run on the same data directory: before each start, a server
// that an earlier process left running there is found and stopped.
//
// The bundled service broker uses it, and the tests that need a real
// PostgreSQL.
//
// Imports: base/background, base/cgroup, base/distro.
package daemon
