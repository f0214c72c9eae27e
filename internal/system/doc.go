// Package system assembles the whole server from a configuration and runs it. The
// program and tests use the same System; tests use port 0 and a temporary
// directory.
//
//	data directory locked ─▶ its version checked ─▶ listeners open, /healthz answers
//	─▶ secrets and keys ─▶ database open and migrated ─▶ first users and clients
//	─▶ services started ─▶ routes go live, /readyz answers 200
//
// Until the routes are live, API requests are answered with 503 and Retry-After.
// Stopping is the reverse: requests finish first, the lock is released last.
//
// Only programs may import it. It contains the configuration and the connections
// between parts; behaviour belongs to the parts.
//
// Imports: every wing and the base.
package system
