package certs

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
)

// GetCertificate selects the certificate for a client, like the function of tls.Config.
type GetCertificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)

// Config returns the configuration of a listener: TLS 1.2 and 1.3, with forward secrecy
// and authenticated encryption only, for HTTP/2 and HTTP/1.1.
func Config(get GetCertificate) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		// Of TLS 1.2. Those of 1.3 cannot be chosen, and all are good.
		CipherSuites: []uint16{
			tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
			tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
			tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256, tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
		},
		NextProtos:     []string{"h2", "http/1.1"},
		GetCertificate: get,
	}
}

// Pool reads certificates of authorities from a PEM file.
func Pool(file string) (*x509.CertPool, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s: %w", file, errNoCertificate)
	}
	return pool, nil
}

var errNoCertificate = errors.New("the file has no certificate in PEM format")
