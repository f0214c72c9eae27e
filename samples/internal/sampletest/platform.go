package sampletest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Platform is an authority that gives instances their files.
type Platform struct {
	t    *testing.T
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
}

// NewPlatform returns an authority that no other trusts.
func NewPlatform(t *testing.T) *Platform {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &Platform{t, key, cert}
}

// Instance returns the environment of an instance of an app, in the space s of the
// organization o, with further names and values.
func (p *Platform) Instance(app string, more ...string) func(string) string {
	p.t.Helper()
	dir := p.t.TempDir()
	env := map[string]string{"CF_INSTANCE_CERT": filepath.Join(dir, "instance.crt"),
		"CF_INSTANCE_KEY": filepath.Join(dir, "instance.key"), "CF_SYSTEM_CERT_PATH": dir}
	p.Renew(app, dir)
	p.write(filepath.Join(dir, "trusted-ca-1.crt"), "CERTIFICATE", p.cert.Raw)
	for i := 0; i+1 < len(more); i += 2 {
		env[more[i]] = more[i+1]
	}
	return func(name string) string { return env[name] }
}

// Renew replaces the certificate in a directory. The serial number of each is different.
func (p *Platform) Renew(app, dir string) {
	p.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		p.t.Fatal(err)
	}
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		p.t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: serial, NotAfter: time.Now().Add(time.Hour),
		Subject: pkix.Name{CommonName: "instance-of-" + app, OrganizationalUnit: []string{"organization:o", "space:s",
			"app:" + app}},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, p.cert, key.Public(), p.key)
	if err != nil {
		p.t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		p.t.Fatal(err)
	}
	p.write(filepath.Join(dir, "instance.crt"), "CERTIFICATE", der)
	p.write(filepath.Join(dir, "instance.key"), "PRIVATE KEY", private)
}

// write replaces a file atomically.
func (p *Platform) write(name, kind string, der []byte) {
	p.t.Helper()
	if err := os.WriteFile(name+".new", pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		p.t.Fatal(err)
	}
	if err := os.Rename(name+".new", name); err != nil {
		p.t.Fatal(err)
	}
}
