// Package system builds the whole of Ingot from a configuration and runs it.
// The program and the end-to-end tests use the very same System; tests give it
// ports 0 and a temporary directory.
//
//	data directory locked ─▶ its version checked ─▶ listeners open, /healthz answers
//	─▶ secrets and keys ─▶ database open and migrated ─▶ first users and clients
//	─▶ services started ─▶ routes go live, /readyz answers 200
//
// Until the routes are live every call of an API is answered with 503 and
// Retry-After. Stopping is the reverse: listeners drain first, the lock is
// released last.
//
// Only programs may import it. It holds no rules of its own: what does not
// concern the putting together belongs elsewhere.
//
// Imports: every wing and the base.
package system
