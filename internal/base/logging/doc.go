// Package logging sets up the operator's log: slog handlers that write readable
// lines to a terminal and JSON otherwise, add attributes from the context, and
// redact secrets.
//
// The logs of apps are in package logs.
//
// Imports: the standard library only.
package logging
