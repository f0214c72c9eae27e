package identity_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"ingot/internal/platform/instance/identity"
)

func authority(t *testing.T) *identity.Authority {
	t.Helper()
	a, err := identity.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestIssue(t *testing.T) {
	t.Parallel()
	a := authority(t)
	certificate, key, err := a.Issue(identity.Subject{Instance: "i-1", App: "a-1", Space: "s-1", Org: "o-1",
		IP: "10.1.2.3", Names: []string{"back.apps.internal"}})
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	// The order in a certificate is that of the encoded text.
	units := slices.Sorted(slices.Values(leaf.Subject.OrganizationalUnit))
	if leaf.Subject.CommonName != "i-1" || !slices.Equal(units, []string{"app:a-1", "organization:o-1", "space:s-1"}) {
		t.Errorf("the subject is %s", leaf.Subject)
	}
	if !slices.Equal(leaf.DNSNames, []string{"i-1", "back.apps.internal"}) || len(leaf.IPAddresses) != 1 ||
		leaf.IPAddresses[0].String() != "10.1.2.3" {
		t.Errorf("the alternative names are %v and %v", leaf.DNSNames, leaf.IPAddresses)
	}
	if left := time.Until(leaf.NotAfter); left > identity.Lifetime || left < identity.Lifetime-time.Minute {
		t.Errorf("it is valid for %s, want %s", left, identity.Lifetime)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(a.PEM())
	for _, use := range []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth} {
		if _, err := leaf.Verify(x509.VerifyOptions{Roots: pool, DNSName: "i-1",
			KeyUsages: []x509.ExtKeyUsage{use}}); err != nil {
			t.Errorf("use %d: %v", use, err)
		}
	}
	other := x509.NewCertPool()
	other.AppendCertsFromPEM(authority(t).PEM())
	if _, err := leaf.Verify(x509.VerifyOptions{Roots: other}); err == nil {
		t.Error("another authority's certificates are accepted")
	}
	if leaf.IsCA {
		t.Error("an instance is an authority")
	}
}

// Two instances connect with mutual TLS, each with its own certificate.
func TestMutualTLS(t *testing.T) {
	t.Parallel()
	a := authority(t)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(a.PEM())
	pairOf := func(id string) tls.Certificate {
		certificate, key, err := a.Issue(identity.Subject{Instance: id, App: "app-" + id, IP: "127.0.0.1"})
		if err != nil {
			t.Fatal(err)
		}
		pair, err := tls.X509KeyPair(certificate, key)
		if err != nil {
			t.Fatal(err)
		}
		return pair
	}
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{pairOf("server")},
		ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS13})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	said := make(chan string, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			said <- err.Error()
			return
		}
		defer c.Close()
		if err := c.(*tls.Conn).Handshake(); err != nil {
			said <- err.Error()
			return
		}
		said <- strings.Join(c.(*tls.Conn).ConnectionState().PeerCertificates[0].Subject.OrganizationalUnit, " ")
		_, _ = io.Copy(c, c)
	}()
	c, err := tls.Dial("tcp", l.Addr().(*net.TCPAddr).String(),
		&tls.Config{Certificates: []tls.Certificate{pairOf("client")}, RootCAs: pool, MinVersion: tls.VersionTLS13})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if got := <-said; !strings.Contains(got, "app:app-client") {
		t.Errorf("the server knows its client as %q", got)
	}
}

func TestParseAuthority(t *testing.T) {
	t.Parallel()
	a := authority(t)
	stored, err := a.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	again, err := identity.ParseAuthority(stored)
	if err != nil || !bytes.Equal(again.PEM(), a.PEM()) {
		t.Errorf("the stored authority: %v", err)
	}
	foreign, _ := authority(t).Bytes()
	key, _, _ := bytes.Cut(stored, []byte("-----BEGIN CERT"))
	_, certificate, _ := bytes.Cut(foreign, []byte("-----BEGIN CERT"))
	mixed := slices.Concat(key, []byte("-----BEGIN CERT"), certificate)
	for name, bad := range map[string][]byte{"empty": nil, "half": stored[:40], "certificate only": a.PEM(),
		"mixed": mixed} {
		if _, err := identity.ParseAuthority(bad); err == nil || !strings.Contains(err.Error(), "authority of instances") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
