// Package term formats output for terminals, files and pipes: tables, colours and
// a progress line.
//
// On a terminal it writes colours and a progress line that is never wider than
// the screen; otherwise it writes plain text without progress, so that programs
// can parse the output.
//
// It must not import anything of this module.
//
// Imports: github.com/fatih/color.
package term
