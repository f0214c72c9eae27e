package identity

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"time"
)

const (
	// Lifetime is how long a certificate is valid.
	Lifetime = 24 * time.Hour
	// RenewAfter is the age at which a certificate is replaced.
	RenewAfter = 18 * time.Hour

	authorityLifetime = 20 * 365 * 24 * time.Hour
	// skew is how much the clocks of machines may differ.
	skew = time.Hour

	// maxNames limits the names of routes in a certificate, which each client receives.
	maxNames = 100

	blockCertificate = "CERTIFICATE"
	blockKey         = "PRIVATE KEY"
)

// Authority is the certificate authority of an installation.
type Authority struct {
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
}

// NewAuthority creates an authority.
func NewAuthority() (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: serial(), Subject: pkix.Name{CommonName: "Ingot instance identity", Organization: []string{"Ingot"}},
		NotBefore: now.Add(-skew), NotAfter: now.Add(authorityLifetime),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	return &Authority{key, cert}, err
}

func serial() *big.Int {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[0] &= 0x7f
	return new(big.Int).SetBytes(b[:])
}

// ParseAuthority returns the authority that Bytes has written.
func ParseAuthority(text []byte) (*Authority, error) {
	first, rest := pem.Decode(text)
	second, _ := pem.Decode(rest)
	if first == nil || second == nil || first.Type != blockKey || second.Type != blockCertificate {
		return nil, errors.New("authority of instances: it has no key and certificate")
	}
	parsed, err := x509.ParsePKCS8PrivateKey(first.Bytes)
	if err != nil {
		return nil, fmt.Errorf("authority of instances: %w", err)
	}
	cert, err := x509.ParseCertificate(second.Bytes)
	if err != nil {
		return nil, fmt.Errorf("authority of instances: %w", err)
	}
	key, ok := parsed.(*ecdsa.PrivateKey)
	if !ok || !key.PublicKey.Equal(cert.PublicKey) {
		return nil, errors.New("authority of instances: key and certificate do not belong together")
	}
	return &Authority{key, cert}, nil
}

// Bytes returns the authority with its private key, which the caller has to encrypt.
func (a *Authority) Bytes() ([]byte, error) {
	key, err := keyPEM(a.key)
	return append(key, a.PEM()...), err
}

// PEM returns the authority's own certificate. It is public.
func (a *Authority) PEM() []byte { return pemOf(blockCertificate, a.cert.Raw) }

func pemOf(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

func keyPEM(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	return pemOf(blockKey, der), err
}

// Subject is an instance of an app.
type Subject struct {
	Instance, App, Space, Org string
	// IP is the instance's own address; it may be empty.
	IP string
	// Names are the app's internal routes.
	Names []string
}

// Issue returns a new key of an instance and its certificate, followed by that of the
// authority, both as PEM.
func (a *Authority) Issue(s Subject) (certificate, key []byte, err error) {
	own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: serial(),
		Subject: pkix.Name{
			CommonName: s.Instance, OrganizationalUnit: []string{"organization:" + s.Org, "space:" + s.Space, "app:" + s.App},
		},
		DNSNames: append([]string{s.Instance}, s.Names[:min(len(s.Names), maxNames)]...), NotBefore: now.Add(-skew),
		NotAfter:              now.Add(Lifetime),
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageKeyAgreement,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
	}
	if ip := net.ParseIP(s.IP); ip != nil {
		template.IPAddresses = []net.IP{ip}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, own.Public(), a.key)
	if err != nil {
		return nil, nil, err
	}
	key, err = keyPEM(own)
	return append(pemOf(blockCertificate, der), a.PEM()...), key, err
}
