// Package crashlines finds the lines of an app's log that explain a crash: the lines since
// the instance's last start, and among them the one that names the error. A stack trace is often
// longer than what can be shown.
//
// The client links it, so it has to stay small.
//
// Imports: base/pattern.
package crashlines
