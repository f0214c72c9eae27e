// Package plural writes counts in messages: "1 file", "2 files".
//
// Imports: the standard library only.
package plural
