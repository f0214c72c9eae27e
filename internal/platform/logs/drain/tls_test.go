package drain_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"ingot/internal/base/testkit"
	"ingot/internal/platform/logs/drain"
	"ingot/internal/platform/logs/logfiles"
)

// identity is a certificate with its key, in PEM, that is its own authority.
type identity struct{ certificate, key []byte }

func newIdentity(t testing.TB, name string) identity {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, IsCA: true, BasicConstraintsValid: true,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return identity{
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}),
	}
}

// server is the configuration of a receiver; clients must be signed by ca, if
// that is given.
func (i identity) server(t testing.TB, ca []byte) *tls.Config {
	t.Helper()
	pair, err := tls.X509KeyPair(i.certificate, i.key)
	if err != nil {
		t.Fatal(err)
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}}
	if ca != nil {
		c.ClientCAs, c.ClientAuth = x509.NewCertPool(), tls.RequireAndVerifyClientCert
		c.ClientCAs.AppendCertsFromPEM(ca)
	}
	return c
}

func TestTLS(t *testing.T) {
	t.Parallel()
	server, client, stranger := newIdentity(t, "server"), newIdentity(t, "client"), newIdentity(t, "stranger")
	for name, tc := range map[string]struct {
		drain   drain.Drain
		mutual  bool
		problem string
	}{
		"trusted":        {drain: drain.Drain{CA: server.certificate}},
		"not trusted":    {drain: drain.Drain{CA: stranger.certificate}, problem: "certificate"},
		"system's roots": {drain: drain.Drain{}, problem: "certificate"},
		"mutual": {drain: drain.Drain{CA: server.certificate, Certificate: client.certificate,
			Key: client.key}, mutual: true},
		"mutual, without certificate": {drain: drain.Drain{CA: server.certificate}, mutual: true, problem: "certificate"},
		"not a key": {drain: drain.Drain{Certificate: client.certificate, Key: []byte("hunter2")},
			problem: "client certificate cannot be used"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var ca []byte
			if tc.mutual {
				ca = client.certificate
			}
			r := listen(t, "127.0.0.1:0", server.server(t, ca), 137, 2)
			s := open(t, logfiles.Options{})
			d := tc.drain
			d.ID, d.URL = "d", "syslog-tls://"+r.listener.Addr().String()
			o := options(t.TempDir())
			o.Settle = time.Second // longer than lines lie about unread
			m := start(t, s, one("a", d), o)
			testkit.Eventually(t, "it begins", func() bool {
				all := m.Stats()
				return len(all) == 1 &&
					(all[0].Ready || all[0].Error != "")
			})
			write(t, s, "a", 0, 500)
			if tc.problem == "" {
				checkComplete(t, r.await(t, "all lines", func(all []string) bool { return len(numbers(all)) == 500 }), 0, 500)
				return
			}
			testkit.Eventually(t, "it is told", func() bool { return len(said(t, s, "a")) > 0 })
			if text := said(t, s, "a")[0]; !strings.Contains(text, tc.problem) || strings.Contains(text, "hunter2") {
				t.Errorf("log says %q, want %q and no password", text, tc.problem)
			}
			m.Stop()
			r.mu.Lock()
			defer r.mu.Unlock()
			if len(r.messages) > 0 {
				t.Errorf("%d messages came all the same", len(r.messages))
			}
		})
	}
}

// A receiver that is restarted in the middle of the lines, over TLS: those that
// it has not read when it ends, the next one gets.
func TestTLSReceiverRestarts(t *testing.T) {
	t.Parallel()
	server := newIdentity(t, "server")
	config := server.server(t, nil)
	r := listen(t, "127.0.0.1:0", config, 0, 0)
	address := r.listener.Addr().String()
	s := open(t, logfiles.Options{})
	o := options(t.TempDir())
	o.Settle = time.Minute // nothing counts as taken before the end of the test
	m := start(t, s, one("a", drain.Drain{ID: "d", URL: "syslog-tls://" + address, CA: server.certificate}), o)
	settled(t, s, m)
	const rounds, lines = 2, 2000 // after the third, fewer would be sent at a time
	var all []string
	for round := range rounds {
		written := make(chan struct{})
		go func() {
			defer close(written)
			write(t, s, "a", round*lines, (round+1)*lines)
		}()
		before := len(numbers(all))
		all = append(all, r.await(t, "some lines",
			func(got []string) bool { return len(numbers(append(slices.Clone(all), got...))) > before+lines/10 })...)
		r.stop()
		<-written
		r = listen(t, address, config, 0, 0)
	}
	all = r.await(t, "all lines", func(got []string) bool { return len(numbers(got)) == rounds*lines })
	checkComplete(t, all, 0, rounds*lines)
}
