// Package address parses mail addresses, validates them, and formats them for
// SMTP.
//
// It must not import any other package of this module, so that HTTP APIs and
// channels can share its rules.
//
// Imports: golang.org/x/net/idna.
package address
