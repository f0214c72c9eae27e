// Package domaincheck says what receivers find when they check mail of a domain: the records of
// SPF, DKIM and DMARC, where answers go, and the mail server's name and encryption. Each finding
// that is not right says what to change, with the record for the DNS where there is one.
//
// It must not import an HTTP API or a store, and connects only to resolvers and to the mail
// server of the operator.
//
// Imports: base/background, notify, blitiri.com.ar/go/spf,
// github.com/emersion/go-msgauth/dmarc, golang.org/x/net/publicsuffix.
package domaincheck
