// Package consoledb implements page.Store, the sessions of the web console, on SQLite and
// PostgreSQL, with its schema migrations.
//
// The tokens of a session are encrypted; the cookie itself is stored as a hash.
//
// It must not import a driver, another store, or an HTTP API. Only system and tests import
// it.
//
// Imports: base/db, console/page.
package consoledb
