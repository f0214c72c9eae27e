// Package steps undoes what a start has done: a server, or a command that opens a server's
// databases, adds a function for each step and calls them in reverse.
//
// It knows no part: what starts one adds its end.
//
// Imports: base/background, base/db.
package steps
