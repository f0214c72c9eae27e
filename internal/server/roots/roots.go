package roots

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
)

// Roots are certificate authorities. The zero value and nil mean the system's.
type Roots struct {
	pool *x509.CertPool // nil means those of the system
	text []byte         // of the file
}

// Load adds the certificates in a PEM file to those of the system. An empty name means
// those of the system alone.
func Load(file string) (*Roots, error) {
	if file == "" {
		return &Roots{}, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	if err := add(pool, text); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return &Roots{pool, text}, nil
}

// add adds all certificates in text, and nothing if one cannot be read.
func add(pool *x509.CertPool, text []byte) error {
	var found []*x509.Certificate
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			return fmt.Errorf("it contains a block %q; only certificates are expected, in PEM form", block.Type)
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return fmt.Errorf("certificate %d: %w", len(found)+1, err)
		}
		found = append(found, c)
	}
	if len(found) == 0 {
		return errors.New("it contains no certificate in PEM form")
	}
	for _, c := range found {
		pool.AddCert(c)
	}
	return nil
}

// TLS returns a configuration for clients. The caller may change it.
func (r *Roots) TLS() *tls.Config {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if r != nil {
		c.RootCAs = r.pool
	}
	return c
}

// bundles are files in which systems have their certificate authorities.
var bundles = []string{
	"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem",
	"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", "/etc/ssl/cert.pem",
}

// Bundle returns all certificates in PEM form, for programs that read them from a file;
// nil means that those of the system suffice.
func (r *Roots) Bundle() []byte {
	if r == nil || r.text == nil {
		return nil
	}
	out := append([]byte{}, r.text...)
	for _, name := range append([]string{os.Getenv("SSL_CERT_FILE")}, bundles...) {
		if text, err := os.ReadFile(name); name != "" && err == nil {
			return append(append(out, '\n'), text...)
		}
	}
	return out
}
