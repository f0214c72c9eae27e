// Package logging is the operator's log: slog handlers that write lines for
// people on a terminal and JSON otherwise, attributes that travel with a
// context, and the rule that secrets are never written.
//
// (The logs of apps are package logs.)
//
// Imports: the standard library only.
package logging
