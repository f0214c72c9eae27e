package certs

import (
	"bytes"
	"crypto/tls"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ingot/internal/base/testkit"
)

// shake connects a client to a listener of config, and returns what the client sees.
func shake(t *testing.T, config *tls.Config, client *tls.Config) (tls.ConnectionState, error) {
	t.Helper()
	l, err := tls.Listen("tcp", "127.0.0.1:0", config)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		if c, err := l.Accept(); err == nil {
			_ = c.(*tls.Conn).Handshake() //nolint:forcetypeassert // it is one
			c.Close()
		}
	}()
	c, err := tls.Dial("tcp", l.Addr().String(), client)
	if err != nil {
		return tls.ConnectionState{}, err
	}
	defer c.Close()
	return c.ConnectionState(), nil
}

// TestFiles selects the certificate for the client's name, and reads changed files again.
func TestFiles(t *testing.T) {
	t.Parallel()
	authority, log := testkit.NewAuthority(t), &bytes.Buffer{}
	one, other := t.TempDir(), t.TempDir()
	oneCert, oneKey := authority.Write(one, "a.example.org")
	otherCert, otherKey := authority.Write(other, "b.example.org", "*.example.com")
	f, err := OpenFiles([]Pair{{oneCert, oneKey}, {otherCert, otherKey}}, slog.New(slog.NewTextHandler(log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	config := Config(func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
		if cert := f.Get(hello); cert != nil {
			return cert, nil
		}
		return f.First(), nil
	})
	serial := func(name string) string {
		t.Helper()
		state, err := shake(t, config, &tls.Config{ServerName: name, //nolint:gosec // the names are compared below
			InsecureSkipVerify: true})
		if err != nil {
			t.Fatal(err)
		}
		return state.PeerCertificates[0].Subject.CommonName + " " + state.PeerCertificates[0].SerialNumber.String()
	}
	for name, want := range map[string]string{
		"a.example.org": "a.example.org 3", "b.example.org": "b.example.org 4", "any.example.com": "b.example.org 4",
		"unknown.example.org": "a.example.org 3",
	} {
		if got := serial(name); got != want {
			t.Errorf("%s gets %s, want %s", name, got, want)
		}
	}

	authority.Write(other, "b.example.org")
	f.look()
	if got := serial("b.example.org"); got != "b.example.org 5" {
		t.Errorf("after a change got %s", got)
	}
	// None of these replaces it.
	expired, key := authority.Issue(-time.Minute, "b.example.org")
	for what, files := range map[string][2][]byte{
		"expired": {expired, key}, "private key does not match": {authority.PEM(), key},
		"failed to find any PEM data": {[]byte("half"), key},
	} {
		log.Reset()
		for i, file := range []string{otherCert, otherKey} {
			if err := os.WriteFile(file, files[i], 0o600); err != nil {
				t.Fatal(err)
			}
		}
		f.look()
		if got := serial("b.example.org"); got != "b.example.org 5" || !strings.Contains(log.String(), what) {
			t.Errorf("%s: uses %s, logs %s", what, got, log)
		}
		log.Reset()
		f.look()
		if log.Len() > 0 {
			t.Errorf("%s: logged again: %s", what, log)
		}
	}
	if err := os.Remove(otherKey); err != nil {
		t.Fatal(err)
	}
	f.look()
	authority.Write(other, "b.example.org")
	f.look()
	if got := serial("b.example.org"); got != "b.example.org 7" {
		t.Errorf("after the files are right again, got %s", got)
	}
}

// TestOpenFiles refuses files that cannot be used at the start.
func TestOpenFiles(t *testing.T) {
	t.Parallel()
	dir, authority := t.TempDir(), testkit.NewAuthority(t)
	cert, key := authority.Write(dir, "a")
	foreign, _ := authority.Write(t.TempDir(), "a")
	for name, c := range map[string]struct {
		pair Pair
		want string
	}{
		"missing":     {Pair{filepath.Join(dir, "none"), key}, "no such file"},
		"another key": {Pair{foreign, key}, "private key does not match"},
		"good":        {Pair{cert, key}, ""},
	} {
		_, err := OpenFiles([]Pair{c.pair}, slog.New(slog.DiscardHandler))
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	if _, err := Pool(key); err == nil {
		t.Error("a key is accepted as an authority")
	}
	if _, err := Pool(cert); err != nil {
		t.Error(err)
	}
}

// TestConfig refuses old protocols and weak ciphers.
func TestConfig(t *testing.T) {
	t.Parallel()
	authority := testkit.NewAuthority(t)
	cert := authority.Certificate("a")
	config := Config(func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &cert, nil })
	for name, c := range map[string]struct {
		client *tls.Config
		ok     bool
	}{
		"TLS 1.0": {&tls.Config{MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS10}, false},
		"TLS 1.1": {&tls.Config{MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}, false},
		"TLS 1.2": {&tls.Config{MaxVersion: tls.VersionTLS12}, true},
		"TLS 1.3": {&tls.Config{MinVersion: tls.VersionTLS13}, true},
		"without forward secrecy": {&tls.Config{MaxVersion: tls.VersionTLS12,
			CipherSuites: []uint16{tls.TLS_RSA_WITH_AES_128_GCM_SHA256, tls.TLS_RSA_WITH_AES_256_CBC_SHA}}, false},
		"without authenticated encryption": {&tls.Config{MaxVersion: tls.VersionTLS12,
			CipherSuites: []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA, tls.TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256}},
			false},
		"RC4 and 3DES": {&tls.Config{MaxVersion: tls.VersionTLS12,
			CipherSuites: []uint16{tls.TLS_ECDHE_ECDSA_WITH_RC4_128_SHA, tls.TLS_RSA_WITH_3DES_EDE_CBC_SHA}}, false},
	} {
		client := c.client.Clone()
		client.RootCAs, client.ServerName, client.NextProtos = authority.Pool(), "a", []string{"h2"}
		state, err := shake(t, config, client)
		if (err == nil) != c.ok {
			t.Errorf("%s: %v, want success %t", name, err, c.ok)
		}
		if err == nil && state.NegotiatedProtocol != "h2" {
			t.Errorf("%s: protocol is %q, want h2", name, state.NegotiatedProtocol)
		}
	}
}
