// Package domaincheck says what receivers find when they check mail of a domain: the records of
// SPF, DKIM and DMARC, where answers go and whether they have to be encrypted (MTA-STS), and the
// mail servers' name and encryption. Each finding
// that is not right says what to change, with the record for the DNS where there is one.
//
// It must not import an HTTP API or a store, and connects only to resolvers, to the mail
// servers of the operator, and to those of the operator's domain.
//
// Imports: base/background, notify, notify/mail/mtasts, notify/mail/smtp,
// blitiri.com.ar/go/spf, github.com/emersion/go-msgauth/dmarc,
// golang.org/x/net/publicsuffix.
package domaincheck
