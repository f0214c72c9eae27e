package main

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// identity is the certificate of this instance and the authorities it trusts. The
// platform replaces the files while the instance runs.
type identity struct {
	cert, key   string
	authorities string // a file, or a directory with *.crt and *.pem

	mu     sync.Mutex
	loaded *material
	next   time.Time // when to look at the files again
}

// material is what the files contained at one time.
type material struct {
	hash    [sha256.Size]byte
	pair    tls.Certificate
	leaf    *x509.Certificate
	trusted *x509.CertPool
}

// lookAgain is how often the files are read, at most.
const lookAgain = time.Second

// current returns the newest usable material. When files are being replaced one by
// one, or cannot be read, that is the one before.
func (id *identity) current() (*material, error) {
	id.mu.Lock()
	defer id.mu.Unlock()
	now := time.Now()
	if id.loaded != nil && now.Before(id.next) {
		return id.loaded, nil
	}
	id.next = now.Add(lookAgain)
	fresh, err := id.read()
	switch {
	case err == nil && id.loaded != nil && fresh.hash == id.loaded.hash:
	case err == nil:
		if id.loaded != nil {
			slog.Info("certificate renewed", "valid until", fresh.leaf.NotAfter.UTC().Format(time.RFC3339))
		}
		id.loaded = fresh
	case id.loaded == nil:
		return nil, err
	case now.After(id.loaded.leaf.NotAfter):
		slog.Error("the certificate has expired, and the files have no usable new one", "error", err)
	}
	return id.loaded, nil
}

func (id *identity) read() (*material, error) {
	cert, err := os.ReadFile(id.cert)
	if err != nil {
		return nil, fmt.Errorf("read the certificate: %w", err)
	}
	key, err := os.ReadFile(id.key)
	if err != nil {
		return nil, fmt.Errorf("read the private key: %w", err)
	}
	authorities, err := readAuthorities(id.authorities)
	if err != nil {
		return nil, fmt.Errorf("read the trusted authorities: %w", err)
	}
	m := &material{trusted: x509.NewCertPool(), hash: sha256.Sum256(bytes.Join([][]byte{cert, key, authorities},
		[]byte{0}))}
	if m.pair, err = tls.X509KeyPair(cert, key); err != nil {
		return nil, fmt.Errorf("%s and %s: %w", id.cert, id.key, err)
	}
	if !m.trusted.AppendCertsFromPEM(authorities) {
		return nil, fmt.Errorf("%s contains no certificate of an authority", id.authorities)
	}
	m.leaf = m.pair.Leaf
	return m, nil
}

// readAuthorities returns the PEM blocks of a file, or of the files of a directory.
func readAuthorities(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return os.ReadFile(path)
	}
	files, _ := filepath.Glob(filepath.Join(path, "*.crt")) // the pattern is valid
	more, _ := filepath.Glob(filepath.Join(path, "*.pem"))
	var all []byte
	for _, name := range append(files, more...) {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		all = append(append(all, text...), '\n')
	}
	return all, nil
}

// server returns the configuration of a server. Each renewal begins a new one, so
// that sessions of clients that trusted authorities have left cannot be resumed.
func (id *identity) server(clientAuth string) *tls.Config {
	how := map[string]tls.ClientAuthType{"require": tls.RequireAndVerifyClientCert,
		"optional": tls.VerifyClientCertIfGiven, "none": tls.NoClientCert}[clientAuth]
	var mu sync.Mutex
	var of *material
	var config *tls.Config
	protocols := []string{"h2", "http/1.1"}
	return &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: protocols,
		// For the check of ServeTLS that there is a certificate.
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			return nil, errors.New("GetConfigForClient was not used")
		},
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			now, err := id.current()
			if err != nil {
				return nil, err
			}
			mu.Lock()
			defer mu.Unlock()
			if now != of {
				of, config = now, &tls.Config{
					MinVersion: tls.VersionTLS12, NextProtos: protocols, Certificates: []tls.Certificate{now.pair}, ClientAuth: how,
					ClientCAs: now.trusted,
				}
			}
			return config, nil
		},
	}
}

// client returns the configuration of a client. The certificate of an instance has no
// host name of a route, so the server proves which app it is instead.
func (id *identity) client(allowed peers) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			now, err := id.current()
			if err != nil {
				return nil, err
			}
			return &now.pair, nil
		},
		InsecureSkipVerify: true, //nolint:gosec // VerifyConnection verifies
		VerifyConnection: func(s tls.ConnectionState) error {
			now, err := id.current()
			if err != nil {
				return err
			}
			between := x509.NewCertPool()
			for _, c := range s.PeerCertificates[1:] {
				between.AddCert(c)
			}
			_, err = s.PeerCertificates[0].Verify(x509.VerifyOptions{
				Roots: now.trusted, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
			})
			if err != nil {
				return err
			}
			return allowed.check(s.PeerCertificates[0])
		},
	}
}

// peers are the organizational units of certificates that are accepted, such as
// app:GUID. None means that every certificate of a trusted authority is.
type peers []string

// kinds are the prefixes of organizational units.
var kinds = []string{"app", "space", "organization"}

// parsePeers parses a list. same-app, same-space and same-organization stand for the
// guids of this instance's own certificate.
func parsePeers(list []string, own *x509.Certificate) (peers, error) {
	if len(list) == 0 {
		list = []string{"same-space"}
	}
	var all peers
	for _, entry := range list {
		kind, guid, _ := strings.Cut(entry, ":")
		if same, ok := strings.CutPrefix(entry, "same-"); ok {
			kind = same
			guid = unit(own, kind)
			if slices.Contains(kinds, kind) && guid == "" {
				return nil, fmt.Errorf("%s: the certificate of this instance has no %s:GUID in its subject", entry, kind)
			}
		}
		switch {
		case entry == "any" && len(list) == 1:
			return nil, nil
		case !slices.Contains(kinds, kind) || guid == "":
			return nil,
				fmt.Errorf("%q must be app:GUID, space:GUID, organization:GUID, same-app, same-space, same-organization, or any "+
					"alone", entry)
		}
		all = append(all, kind+":"+guid)
	}
	return all, nil
}

func (p peers) String() string {
	if len(p) == 0 {
		return "any"
	}
	return strings.Join(p, ",")
}

// check returns an error that names the certificate's units if it is not accepted.
func (p peers) check(c *x509.Certificate) error {
	if len(p) == 0 {
		return nil
	}
	for _, u := range c.Subject.OrganizationalUnit {
		if slices.Contains(p, u) {
			return nil
		}
	}
	return fmt.Errorf("its certificate is of %s, and TLS_PROXY_PEERS accepts %s",
		strings.Join(c.Subject.OrganizationalUnit, ","), p)
}

// unit returns the guid of a kind in a certificate's subject.
func unit(c *x509.Certificate, kind string) string {
	for _, u := range c.Subject.OrganizationalUnit {
		if guid, ok := strings.CutPrefix(u, kind+":"); ok {
			return guid
		}
	}
	return ""
}
