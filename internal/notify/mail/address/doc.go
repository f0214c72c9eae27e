// Package address checks mail addresses and writes them for mail servers.
//
// It must not import anything else of this module, so that whoever reads an
// address, a face or a channel, reads it by the same rules.
//
// Imports: golang.org/x/net/idna.
package address
