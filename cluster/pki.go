//go:build linux

package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// An authority issues the certificates of a cluster into one directory.
type authority struct {
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// lifetime is longer than any cluster of this program runs.
const lifetime = 30 * 24 * time.Hour

func newAuthority(dir string) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "cluster"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(lifetime),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	a := &authority{dir: dir, key: key}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		return nil, err
	}
	err = a.write("ca.crt", "CERTIFICATE", der)
	return a, err
}

func (a *authority) file(name string) string { return filepath.Join(a.dir, name) }

func (a *authority) write(name, kind string, der []byte) error {
	return os.WriteFile(a.file(name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}

// newKey writes a key to NAME.key.
func (a *authority) newKey(name string) (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	return key, a.write(name+".key", "EC PRIVATE KEY", der)
}

// issue writes NAME.crt and NAME.key for a user and a group of Kubernetes, or for a
// server with these addresses.
func (a *authority) issue(name, user, group string, addresses ...string) error {
	key, err := a.newKey(name)
	if err != nil {
		return err
	}
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		return err
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: user},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(lifetime),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
	if group != "" {
		template.Subject.Organization = []string{group}
	}
	for _, address := range addresses {
		if ip := net.ParseIP(address); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, address)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	if err != nil {
		return err
	}
	return a.write(name+".crt", "CERTIFICATE", der)
}

// kubeconfig issues a client certificate and writes NAME.kubeconfig with it.
func (a *authority) kubeconfig(name, user, group, server string) error {
	if err := a.issue(name, user, group); err != nil {
		return err
	}
	type named map[string]any
	text, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Config", "current-context": "cluster",
		"clusters": []named{{"name": "cluster", "cluster": named{"server": server,
			"certificate-authority": a.file("ca.crt")}}},
		"users": []named{{"name": name, "user": named{"client-certificate": a.file(name + ".crt"),
			"client-key": a.file(name + ".key")}}},
		"contexts": []named{{"name": "cluster", "context": named{"cluster": "cluster", "user": name}}},
	})
	if err != nil {
		return err
	}
	return os.WriteFile(a.file(name+".kubeconfig"), text, 0o600)
}

// client returns the TLS configuration of a client with the certificate NAME.
func (a *authority) client(name string) (*tls.Config, error) {
	cert, err := tls.LoadX509KeyPair(a.file(name+".crt"), a.file(name+".key"))
	if err != nil {
		return nil, fmt.Errorf("certificate %s: %w", name, err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(a.cert)
	return &tls.Config{Certificates: []tls.Certificate{cert}, RootCAs: roots, MinVersion: tls.VersionTLS12}, nil
}
