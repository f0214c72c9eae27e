package smtp

import (
	"context"
	"crypto/tls"
	"crypto/x509"
)

// Encryption is how the connection to a mail server is protected.
type Encryption struct {
	// Encrypted reports that it is encrypted now, Required that mail is sent in no other way and only to a server with a
	// valid certificate.
	Encrypted, Required bool
	// Invalid is why the certificate is not valid; nil if it is, or if there is none.
	Invalid error
}

// Encryption connects to the mail server as deliveries do, and reports how the connection is protected.
func (c *Client) Encryption(ctx context.Context) (Encryption, error) {
	e := Encryption{Required: c.config.verified() && (c.config.Implicit || c.config.starttls == startRequired)}
	to, err := dial(ctx, &c.config)
	if err != nil {
		return e, err
	}
	if secure, ok := to.net.(*tls.Conn); ok {
		e.Encrypted, e.Invalid = true, verify(secure, c.config.tlsConfig())
	}
	to.quit()
	return e, nil
}

// verify checks the certificate of a connection for which it was not required.
func verify(to *tls.Conn, config *tls.Config) error {
	chain := to.ConnectionState().PeerCertificates
	o := x509.VerifyOptions{DNSName: config.ServerName, Roots: config.RootCAs, Intermediates: x509.NewCertPool()}
	for _, c := range chain[1:] {
		o.Intermediates.AddCert(c)
	}
	_, err := chain[0].Verify(o)
	return err
}

// Greet connects to a mail server, does everything that precedes the first message, and leaves.
func Greet(ctx context.Context, config Config) error {
	to, err := dial(ctx, &config)
	if err != nil {
		return err
	}
	to.quit()
	return nil
}
