// Package term writes to terminals and to what is not one: tables, colours,
// and a line that shows how far something is.
//
// On a terminal there are colours and a progress line that never grows wider
// than the screen; elsewhere there is plain text and no progress at all, so
// that output can be read by programs and kept in files.
//
// It must not import anything of this module.
//
// Imports: github.com/fatih/color.
package term
