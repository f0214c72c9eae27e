// Package docs has the command docs, which lists, searches and shows the documentation in a terminal. It is
// part of the program, so the command needs no server and no network.
//
// Imports: base/handbook, base/pattern, cli/core, cli/term.
package docs
