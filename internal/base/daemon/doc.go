// Package daemon finds and runs other people's servers: PostgreSQL, MariaDB,
// Redis. It knows where their programs are, as whom they may run, and how one
// is kept running on a data directory of its own:
//
//	idle ──Ensure──▶ prepare ─▶ start ─▶ answers ──dies──▶ wait ─▶ start …
//	  └───────────────────────── Stop ─────────────────────────────▶ stopped
//
// Never do two run on one data directory: before each start, what a process
// before us left running there is found and ended.
//
// The bundled service broker uses it, and the tests that need a real
// PostgreSQL.
//
// Imports: base/background.
package daemon
