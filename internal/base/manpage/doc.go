// Package manpage renders manual pages for man(1), in the language of man(7).
//
// Imports: the standard library only.
package manpage
