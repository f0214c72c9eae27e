package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// platform is an authority that gives instances their files.
type platform struct {
	t    *testing.T
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
}

func newPlatform(t *testing.T) *platform {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &platform{t, key, cert}
}

// instance returns the environment of an instance of an app.
func (p *platform) instance(app string, more ...string) func(string) string {
	p.t.Helper()
	dir := p.t.TempDir()
	env := map[string]string{"CF_INSTANCE_CERT": filepath.Join(dir, "instance.crt"), "CF_INSTANCE_KEY": filepath.Join(dir, "instance.key"), "CF_SYSTEM_CERT_PATH": dir}
	p.renew(app, dir)
	p.write(filepath.Join(dir, "trusted-ca-1.crt"), "CERTIFICATE", p.cert.Raw)
	for i := 0; i+1 < len(more); i += 2 {
		env[more[i]] = more[i+1]
	}
	return func(name string) string { return env[name] }
}

func (p *platform) renew(app, dir string) {
	p.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		p.t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), NotAfter: time.Now().Add(time.Hour),
		Subject:     pkix.Name{CommonName: "instance-of-" + app, OrganizationalUnit: []string{"organization:o", "space:s", "app:" + app}},
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

func (p *platform) write(name, kind string, der []byte) {
	p.t.Helper()
	if err := os.WriteFile(name, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		p.t.Fatal(err)
	}
}

func identityOf(t *testing.T, env func(string) string) *identity {
	t.Helper()
	id, err := newIdentity(env)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// TestMutualTLS has a server that accepts one app, and clients of that app, of another,
// of another platform, and without a certificate.
func TestMutualTLS(t *testing.T) {
	t.Parallel()
	p := newPlatform(t)
	here := p.instance("back")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: server("front"), ReadHeaderTimeout: time.Minute}
	t.Cleanup(func() { s.Close() })
	go func() { _ = s.Serve(tls.NewListener(l, identityOf(t, here).server())) }()
	ask := func(id *identity, app string) (int, string) {
		w := httptest.NewRecorder()
		client(id, app, l.Addr().String()).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
		text, _ := io.ReadAll(w.Body)
		return w.Code, string(text)
	}
	front := identityOf(t, p.instance("front"))
	if status, text := ask(front, "back"); status != 200 || text != "hello instance instance-of-front of app front\n" {
		t.Errorf("the right app got %d %s", status, text)
	}
	p.renew("back", filepath.Dir(here("CF_INSTANCE_CERT")))
	if status, text := ask(front, "back"); status != 200 {
		t.Errorf("after a renewal: %d %s", status, text)
	}
	for what, x := range map[string]struct {
		id        *identity
		app, want string
	}{
		"another app":      {identityOf(t, p.instance("other")), "back", "app other may not call this app"},
		"another server":   {front, "imposter", `the server is the app "back" and not "imposter"`},
		"another platform": {identityOf(t, newPlatform(t).instance("front")), "back", "certificate"},
	} {
		if status, text := ask(x.id, x.app); status == 200 || !strings.Contains(text, x.want) {
			t.Errorf("%s: got %d %s, want %q", what, status, text, x.want)
		}
	}
	c, err := tls.Dial("tcp", l.Addr().String(), &tls.Config{InsecureSkipVerify: true})
	if err == nil {
		_, err = io.ReadAll(c)
		c.Close()
	}
	if err == nil {
		t.Error("a client without a certificate is served")
	}
	if _, err := newIdentity(func(string) string { return "" }); err == nil || !strings.Contains(err.Error(), "CF_INSTANCE_CERT") {
		t.Errorf("without certificates: %v", err)
	}
}
