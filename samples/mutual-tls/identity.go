package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// identity is this instance's certificate and the authority it trusts, from the files that
// the platform gives every instance.
type identity struct {
	cert, key string // CF_INSTANCE_CERT, CF_INSTANCE_KEY
	trusted   *x509.CertPool
}

func newIdentity(getenv func(string) string) (*identity, error) {
	id := &identity{cert: getenv("CF_INSTANCE_CERT"), key: getenv("CF_INSTANCE_KEY"), trusted: x509.NewCertPool()}
	dir := getenv("CF_SYSTEM_CERT_PATH")
	if id.cert == "" || id.key == "" || dir == "" {
		return nil,
			errors.New("CF_INSTANCE_CERT, CF_INSTANCE_KEY and CF_SYSTEM_CERT_PATH are not set: this platform gives its " +
				"instances no certificates")
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.crt"))
	if err != nil {
		return nil, err
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		id.trusted.AppendCertsFromPEM(text)
	}
	_, err = id.current()
	return id, err
}

// current reads the certificate for every connection: the platform replaces it before
// it expires. Between the two files a connection may see a new one and an old one, so
// it tries again.
func (id *identity) current() (*tls.Certificate, error) {
	var last error
	for range 3 {
		pair, err := tls.LoadX509KeyPair(id.cert, id.key)
		if err == nil {
			return &pair, nil
		}
		last = err
	}
	return nil, last
}

// server returns the configuration of a server that accepts only instances of the
// platform.
func (id *identity) server() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: id.trusted,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return id.current() },
	}
}

// client returns the configuration of a client of an app. The host name of the server
// says nothing, because requests may go through a router: the server proves which app
// it is instead.
func (id *identity) client(app string) *tls.Config {
	return &tls.Config{
		MinVersion:           tls.VersionTLS12,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return id.current() },
		InsecureSkipVerify:   true, //nolint:gosec // VerifyConnection verifies
		VerifyConnection: func(s tls.ConnectionState) error {
			between := x509.NewCertPool()
			for _, c := range s.PeerCertificates[1:] {
				between.AddCert(c)
			}
			if _, err := s.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: id.trusted,
				Intermediates: between}); err != nil {
				return err
			}
			if got := appOf(s.PeerCertificates[0]); got != app {
				return fmt.Errorf("the server is the app %q and not %q", got, app)
			}
			return nil
		},
	}
}

// appOf returns the guid of the app whose certificate it is.
func appOf(c *x509.Certificate) string {
	for _, unit := range c.Subject.OrganizationalUnit {
		if guid, ok := strings.CutPrefix(unit, "app:"); ok {
			return guid
		}
	}
	return ""
}
