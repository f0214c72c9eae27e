package system

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/mail"
	"strconv"
	"strings"

	"ingot/internal/platform/edge/router"
	"ingot/internal/server/certs"
	"ingot/internal/server/settings"
)

// TLSConfig is how the server terminates TLS. Without TLSListen it does not.
type TLSConfig struct {
	// TLSListen is the address for clients that use TLS.
	TLSListen string
	// TLSCerts and TLSKeys are lists of files, a key for each certificate.
	TLSCerts, TLSKeys string
	// PlainHTTP serves clients without TLS, too, instead of redirecting them.
	PlainHTTP bool
	// HSTS is the Strict-Transport-Security header of responses, such as
	// max-age=31536000; empty means none.
	HSTS string
	// ForwardClientCert is off, or how apps get the certificates of clients; ClientCA is
	// the file of the authorities that issue them.
	ForwardClientCert, ClientCA string
	// ACMEEmail is the address of the account with a certificate authority; it enables
	// ACME. ACMEDirectory is the authority's URL; empty means Let's Encrypt. ACMECA is the
	// file of the authority of the directory's own certificate.
	ACMEEmail, ACMEDirectory, ACMECA string
	// ACMEDNSHook is a program that creates and removes DNS records, for wildcard
	// certificates.
	ACMEDNSHook string
}

const clientCertsOff = "off"

// acme reports whether certificates are ordered.
func (c TLSConfig) acme() bool { return c.ACMEEmail != "" }

// redirects reports whether clients without TLS are redirected.
func (c TLSConfig) redirects() bool { return c.TLSListen != "" && !c.PlainHTTP }

// clientCerts returns the mode of the router.
func (c TLSConfig) clientCerts() router.ClientCerts {
	if c.ForwardClientCert == clientCertsOff {
		return ""
	}
	return router.ClientCerts(c.ForwardClientCert)
}

// pairs returns the files of the certificates.
func (c TLSConfig) pairs() (pairs []certs.Pair) {
	names, keys := listed(c.TLSCerts), listed(c.TLSKeys)
	for i := range min(len(names), len(keys)) {
		pairs = append(pairs, certs.Pair{Cert: names[i], Key: keys[i]})
	}
	return pairs
}

// listed returns the elements of a list that is separated by commas.
func listed(list string) (out []string) {
	for one := range strings.SplitSeq(list, ",") {
		if one = strings.TrimSpace(one); one != "" {
			out = append(out, one)
		}
	}
	return out
}

func (c TLSConfig) checks() []check {
	return []check{
		{"tls-listen", c.checkListen()},
		{"tls-cert", c.checkPairs()},
		{"tls-key", c.needed(c.TLSKeys)},
		{"plain-http", c.needed(set(c.PlainHTTP))},
		{"hsts", c.checkHSTS()},
		{"forward-client-cert", oneOf(c.ForwardClientCert, []string{"", clientCertsOff, string(router.AlwaysForward),
			string(router.Forward), string(router.SanitizeSet)})},
		{"client-ca", c.checkClientCA()},
		{"acme-email", c.checkEmail()},
		{"acme-directory", errors.Join(c.withACME(c.ACMEDirectory), settings.URL(c.ACMEDirectory, "https", "http"))},
		{"acme-ca", c.withACME(c.ACMECA)},
		{"acme-dns-hook", c.withACME(c.ACMEDNSHook)},
	}
}

func set(on bool) string {
	if on {
		return "on"
	}
	return ""
}

// needed returns an error for a value that has no effect.
func (c TLSConfig) needed(value string) error {
	if value != "" && c.TLSListen == "" {
		return errors.New("it needs --tls-listen")
	}
	return nil
}

func (c TLSConfig) withACME(value string) error {
	if value != "" && !c.acme() {
		return errors.New("it needs --acme-email")
	}
	return nil
}

func (c TLSConfig) checkListen() error {
	if c.TLSListen == "" {
		return nil
	}
	if c.TLSCerts == "" && !c.acme() {
		return errors.New("it needs a certificate: give files with --tls-cert and --tls-key, or order certificates with " +
			"--acme-email")
	}
	return settings.Address(c.TLSListen)
}

func (c TLSConfig) checkPairs() error {
	if names, keys := len(listed(c.TLSCerts)), len(listed(c.TLSKeys)); names != keys {
		return fmt.Errorf("there must be a key for each certificate, but --tls-cert names %d files and --tls-key %d",
			names, keys)
	}
	return c.needed(c.TLSCerts)
}

func (c TLSConfig) checkHSTS() error {
	if c.HSTS == "" {
		return nil
	}
	ages := 0
	for part := range strings.SplitSeq(c.HSTS, ";") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		switch {
		case strings.EqualFold(name, "max-age"):
			if _, err := strconv.ParseUint(value, 10, 32); err != nil {
				return fmt.Errorf("%q is not a number of seconds", value)
			}
			ages++
		case strings.EqualFold(name, "includeSubDomains"), strings.EqualFold(name, "preload"):
		default:
			return fmt.Errorf("%q is not one of max-age=SECONDS, includeSubDomains, preload", strings.TrimSpace(part))
		}
	}
	if ages != 1 {
		return errors.New("it needs max-age=SECONDS once, for example max-age=31536000")
	}
	return c.needed(c.HSTS)
}

func (c TLSConfig) checkClientCA() error {
	mode := c.clientCerts()
	switch {
	case (mode == router.Forward || mode == router.SanitizeSet) && c.ClientCA == "":
		return fmt.Errorf("--forward-client-cert %s needs the authorities of the clients' certificates", mode)
	case c.ClientCA != "" && mode == "":
		return errors.New("it needs --forward-client-cert")
	}
	return c.needed(c.ClientCA)
}

func (c TLSConfig) checkEmail() error {
	if c.ACMEEmail == "" {
		return nil
	}
	if a, err := mail.ParseAddress(c.ACMEEmail); err != nil || a.Name != "" {
		return fmt.Errorf("%q is not an email address", c.ACMEEmail)
	}
	return c.needed(c.ACMEEmail)
}

// withTLS returns the configuration with the URLs that follow from the address for TLS.
func (c Config) withTLS(at net.Addr) Config {
	port := ""
	if tcp, ok := at.(*net.TCPAddr); ok && tcp.Port != 443 {
		port = ":" + strconv.Itoa(tcp.Port)
	}
	c.PublicURL = cmp.Or(c.PublicURL, "https://api."+c.Domain+port)
	c.NotificationsURL = cmp.Or(c.NotificationsURL, "https://notifications."+c.Domain+port)
	return c
}
