package e2e

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"ingot/internal/base/db"
	"ingot/internal/base/db/dbtest"
	"ingot/internal/base/testkit"
	"ingot/internal/platform/platformdb"
	"ingot/internal/server/acme"
)

func newTransport(pool *x509.CertPool) *http.Transport {
	return &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: true, DisableKeepAlives: true}
}

// public returns the URL of the API for other machines, and the ports of HTTP and TLS.
func (s *Server) public(t testing.TB) (api string, ports pebblePorts) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(s.Dir, "endpoints.json"))
	if err != nil {
		t.Fatal(err)
	}
	var e struct{ API, Public string }
	if err := json.Unmarshal(text, &e); err != nil {
		t.Fatal(err)
	}
	for address, port := range map[string]*int{e.API: &ports.HTTP, e.Public: &ports.TLS} {
		u, err := url.Parse(address)
		if err == nil {
			*port, err = strconv.Atoi(u.Port())
		}
		if err != nil {
			t.Fatalf("%q: %v", address, err)
		}
	}
	return e.Public, ports
}

// handshake returns the certificate that a server has for a name.
func handshake(t testing.TB, address, name string, pool *x509.CertPool) (*x509.Certificate, error) {
	t.Helper()
	dialer := &tls.Dialer{NetDialer: &net.Dialer{Timeout: patience}, Config: &tls.Config{ServerName: name, RootCAs: pool}}
	c, err := dialer.DialContext(t.Context(), "tcp", address)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return c.(*tls.Conn).ConnectionState().PeerCertificates[0], nil //nolint:forcetypeassert // the dialer makes it
}

// TestACME runs a server on a made-up domain whose certificates come from an authority: cf
// logs in and pushes an app, whose certificate is issued on demand and renewed; a host
// without a route gets none.
func TestACME(t *testing.T) {
	t.Parallel()
	ca := pebbleAt(t)
	host := loopback()
	s := startApps(t, options{Engine: "process", Args: []string{
		"--domain", "ingot.test", "--listen", host + ":8080", "--tls-listen", host + ":8443",
		"--acme-email", "operator@ingot.test", "--acme-directory", ca.Directory, "--acme-ca", ca.CA, "--hsts", "max-age=600",
	}})
	api, ports := s.public(t)
	at := fmt.Sprintf("%s:%d", host, ports.TLS)
	ca.start(t, host, ports, "", time.Minute)
	proxy, home := connectProxy(t, host), t.TempDir()
	cf := func(args ...string) string { t.Helper(); return cfSecure(t, home, ca.Roots, proxy, args...) }

	contains(t, cf("api", api), "OK", api)
	cf("auth", "admin", s.secret(t, "admin-password"))
	cf("target", "-o", "demo", "-s", "dev")
	contains(t, cf(pushProbe(t, "shop")...), "shop.apps.ingot.test")
	contains(t, columns(cf("app", "shop")), "#0 running")
	client := clientOf(ca.Pool, host)
	page := fmt.Sprintf("https://shop.apps.ingot.test:%d/", ports.TLS)
	get := func(address string) (*http.Response, string) {
		t.Helper()
		res, err := client.Get(address)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res, string(body)
	}
	res, _ := get(page)
	if res.StatusCode != http.StatusOK || res.ProtoMajor != 2 ||
		res.Header.Get("Strict-Transport-Security") != "max-age=600" {
		t.Errorf("%s: %s %d %v", page, res.Proto, res.StatusCode, res.Header)
	}
	testkit.Eventually(t, "the request is in the app's log", func() bool {
		return strings.Contains(cf("logs", "shop", "--recent"), `x_forwarded_proto:"https"`)
	})

	first, err := handshake(t, at, "shop.apps.ingot.test", ca.Pool)
	if err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "the certificate is renewed", func() bool {
		now, err := handshake(t, at, "shop.apps.ingot.test", ca.Pool)
		if err != nil {
			t.Fatalf("while it is renewed: %v", err)
		}
		return now.SerialNumber.Cmp(first.SerialNumber) != 0
	})

	// A host without a route, an invented name, and no name but an address.
	for _, name := range []string{"none.apps.ingot.test", "example.com", "x.api.ingot.test"} {
		if _, err := handshake(t, at, name, ca.Pool); err == nil || !strings.Contains(err.Error(), "unrecognized name") {
			t.Errorf("%s: %v, want unrecognized name", name, err)
		}
		if strings.Contains(ca.Log.String(), name) || strings.Contains(s.Stderr.String(), name) {
			t.Errorf("a certificate was ordered for %s", name)
		}
	}
	r, err := s.try(http.MethodGet, s.API+"/x?y=z", "", nil, header{"Host", "shop.apps.ingot.test:8080"})
	if err != nil {
		t.Fatal(err)
	}
	if r.Status != http.StatusPermanentRedirect || r.Header.Get("Location") != page+"x?y=z" {
		t.Errorf("without TLS: %d to %q, want 308 to %sx?y=z", r.Status, r.Header.Get("Location"), page)
	}
}

// TestACMEWildcard gets certificates for the domain and shared domains with a program that
// changes DNS records.
func TestACMEWildcard(t *testing.T) {
	t.Parallel()
	ca, records, host := pebbleAt(t), t.TempDir(), loopback()
	s := startApps(t, options{Engine: "process", Args: []string{
		"--domain", "ingot.test", "--listen", host + ":8080", "--tls-listen", host + ":8443",
		"--acme-email", "operator@ingot.test", "--acme-directory", ca.Directory, "--acme-ca", ca.CA, "--acme-dns-hook",
		hookScript(t, records),
	}})
	_, ports := s.public(t)
	at := fmt.Sprintf("%s:%d", host, ports.TLS)
	ca.start(t, host, ports, records, time.Hour)
	for name, want := range map[string]string{"api.ingot.test": "*.ingot.test", "login.ingot.test": "*.ingot.test",
		"ingot.test": "ingot.test"} {
		cert, err := handshake(t, at, name, ca.Pool)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := strings.Join(cert.DNSNames, " "); got != want {
			t.Errorf("%s has a certificate for %s, want %s", name, got, want)
		}
	}
	if n := ca.issued(t, 2); n != 2 {
		t.Errorf("%d certificates were issued, want one for the domain and one for all names below it", n)
	}
	if left, err := os.ReadDir(records); err != nil || len(left) > 0 {
		t.Errorf("records are left: %v, %v", left, err)
	}
	// After a restart they come from the database.
	s.Stop(t)
	s.Restart(t)
	if _, err := handshake(t, at, "uaa.ingot.test", ca.Pool); err != nil || ca.issued(t, 2) != 2 {
		t.Errorf("after a restart: %v, %d certificates were issued", err, ca.issued(t, 2))
	}
}

// server is one of several servers that share certificates.
type acmeServer struct {
	*acme.Manager
	http, tls net.Listener
}

// newACMEServer starts a server's manager on separate ports of one address.
func newACMEServer(t *testing.T, d *db.DB, ca *pebble, pool *x509.CertPool, host string) *acmeServer {
	t.Helper()
	s := &acmeServer{}
	var err error
	if s.http, err = net.Listen("tcp", host+":0"); err != nil {
		t.Fatal(err)
	}
	if s.tls, err = net.Listen("tcp", host+":0"); err != nil {
		t.Fatal(err)
	}
	s.Manager = acme.New(acme.Options{
		Email: "operator@ingot.test", Directory: ca.Directory, Roots: pool, Store: platformdb.New(d).Certificates(),
		HTTP: s.http.Addr(), TLS: s.tls.Addr(),
		Decide: func(_ context.Context, name string) (acme.Grant, error) {
			if !strings.HasSuffix(name, ".ingot.test") {
				return acme.Grant{}, errors.New("not ours")
			}
			return acme.Grant{Subject: name, Owner: "org"}, nil
		},
		Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	})
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	plain := &http.Server{ReadHeaderTimeout: patience,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !s.ServeChallenge(w, r) {
				http.NotFound(w, r)
			}
		})}
	secure := &http.Server{ReadHeaderTimeout: patience, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug),
		TLSConfig: &tls.Config{
			GetCertificate: s.Certificate, NextProtos: []string{"http/1.1", acme.ChallengeProtocol},
		}}
	go func() { _ = plain.Serve(s.http) }()
	go func() { _ = secure.ServeTLS(s.tls, "", "") }()
	t.Cleanup(func() {
		plain.Close()
		secure.Close()
		s.Stop()
	})
	return s
}

// TestACMEServers lets two servers share a database: both need a certificate at the same
// time, one orders it, and any of them answers the authority.
func TestACMEServers(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		if err := d.Migrate(t.Context(), platformdb.Migrations); err != nil {
			t.Fatal(err)
		}
		ca, host, pool := pebbleAt(t), loopback(), x509.NewCertPool()
		text, err := os.ReadFile(ca.CA)
		if err != nil {
			t.Fatal(err)
		}
		pool.AppendCertsFromPEM(text)
		one, two := newACMEServer(t, d, ca, pool, host), newACMEServer(t, d, ca, pool, host)
		ca.start(t, host, pebblePorts{HTTP: two.http.Addr().(*net.TCPAddr).Port, //nolint:forcetypeassert // they are of TCP
			TLS: two.tls.Addr().(*net.TCPAddr).Port}, "", time.Hour)
		// The authority asks the second server, also if the first one ordered.
		if _, err := handshake(t, one.tls.Addr().String(), "first.ingot.test", ca.Pool); err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		var mu sync.Mutex
		serials := map[string]bool{}
		for i := range 16 {
			all.Go(func() {
				at := []*acmeServer{one, two}[i%2].tls.Addr().String()
				cert, err := handshake(t, at, "both.ingot.test", ca.Pool)
				if err != nil {
					t.Errorf("server %d: %v", i%2, err)
					return
				}
				mu.Lock()
				defer mu.Unlock()
				serials[cert.SerialNumber.String()] = true
			})
		}
		all.Wait()
		if n := ca.issued(t, 2); len(serials) != 1 || n != 2 {
			t.Errorf("the servers have %d certificates for one name, and %d were issued for two names", len(serials), n)
		}
		if _, err := handshake(t, one.tls.Addr().String(), "not.elsewhere.test", ca.Pool); err == nil {
			t.Error("a name that is not allowed has a certificate")
		}
		// The key is sealed.
		err = d.View(t.Context(), func(tx *db.Tx) error {
			var n, sealed int
			if err := tx.QueryRow("SELECT COUNT(*), COUNT(CASE WHEN value LIKE 's1.%' THEN 1 END) FROM platform_certificates").
				Scan(&n, &sealed); err != nil {
				return err
			}
			if n == 0 || n != sealed {
				return fmt.Errorf("%d of %d values are sealed", sealed, n)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	})
}
