package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"ingot/internal/base/testkit"
	"ingot/internal/platform/instance/identity"
	"ingot/internal/platform/instance/initproto"
)

// TestTLS connects to an app through TLS, while its certificate is replaced.
func TestTLS(t *testing.T) {
	t.Parallel()
	authority, err := identity.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	port, tlsPort := freePort(t), freePort(t)
	s := spec(actor(t, "web", "serve "+net.JoinHostPort("127.0.0.1", strconv.Itoa(port))))
	s.Health = soon(initproto.CheckPort, port)
	s.TLS = &initproto.TLS{Port: tlsPort, To: port, Certificate: filepath.Join(dir, "crt"), Key: filepath.Join(dir, "key")}
	write := func(path string, content []byte) {
		t.Helper()
		if err := os.WriteFile(path+".new", content, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
	}
	issue := func(instance string) (cert, key []byte) {
		t.Helper()
		cert, key, err := authority.Issue(identity.Subject{Instance: instance, Names: []string{"back.apps.internal"}})
		if err != nil {
			t.Fatal(err)
		}
		return cert, key
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority.PEM())
	// fetch returns the instance in the certificate, and the status of a request.
	fetch := func() (string, int, error) {
		var peer string
		config := &tls.Config{RootCAs: roots, VerifyConnection: func(s tls.ConnectionState) error {
			peer = s.PeerCertificates[0].Subject.CommonName
			return nil
		}}
		client := &http.Client{Timeout: limit, Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: config,
			DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
				return (&net.Dialer{}).DialContext(ctx, network, net.JoinHostPort("127.0.0.1", strconv.Itoa(tlsPort)))
			}}}
		res, err := client.Get("https://back.apps.internal/")
		if err != nil {
			return peer, 0, err
		}
		return peer, res.StatusCode, res.Body.Close()
	}
	expect := func(when, instance string) {
		t.Helper()
		peer, status, err := fetch()
		if err != nil || peer != instance || status != http.StatusOK {
			t.Errorf("%s: certificate of %q, status %d, %v, want %q and 200", when, peer, status, err, instance)
		}
	}
	i := start(t, s)
	testkit.Eventually(t, "the app listens", func() bool {
		conn, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
	if _, _, err := fetch(); err == nil {
		t.Error("connected without a certificate")
	}
	cert, key := issue("first")
	write(s.TLS.Certificate, cert)
	write(s.TLS.Key, key)
	expect("at first", "first")
	cert, key = issue("second")
	write(s.TLS.Certificate, cert)
	expect("with one of two new files", "first")
	write(s.TLS.Key, key)
	expect("with both", "second")
	if err := os.Remove(s.TLS.Key); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(s.TLS.Key, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := fetch(); err == nil {
		t.Error("connected with a pipe in the place of the key")
	}
	i.signal(syscall.SIGTERM)
	i.end()
}
