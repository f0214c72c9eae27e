package e2e

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"ingot/internal/base/testkit"
)

// pebble is a certificate authority with ACME, and a name server for it.
type pebble struct {
	Directory string // URL
	CA        string // file of the authority that issued its certificate
	Roots     string // file of the authority that issues
	Pool      *x509.CertPool
	Log       *output
}

// pebblePorts are where the authority checks names.
type pebblePorts struct{ HTTP, TLS int }

// pebbleAt prepares a directory before it runs: servers need its address.
func pebbleAt(t testing.TB) *pebble {
	t.Helper()
	authority, dir := testkit.NewAuthority(t), t.TempDir()
	host := loopback()
	authority.Write(dir, host)
	p := &pebble{Directory: "https://" + host + ":14000/dir", CA: filepath.Join(dir, "authority.pem"),
		Roots: filepath.Join(dir, "roots.pem"), Log: newOutput()}
	if err := os.WriteFile(p.CA, authority.PEM(), 0o600); err != nil {
		t.Fatal(err)
	}
	return p
}

// start runs the authority. All names have the address at; records are the TXT records of
// names, as files of a directory. Certificates are valid for life.
func (p *pebble) start(t testing.TB, at string, ports pebblePorts, records string, life time.Duration) {
	t.Helper()
	program := filepath.Join(filepath.Dir(cfProgram(t)), "pebble")
	if _, err := os.Stat(program); err != nil {
		t.Fatalf("pebble is missing (%v); run: make setup-test", err)
	}
	dir := filepath.Dir(p.CA)
	u, err := url.Parse(p.Directory)
	if err != nil {
		t.Fatal(err)
	}
	config, err := json.Marshal(map[string]any{"pebble": map[string]any{
		"listenAddress": u.Host, "managementListenAddress": u.Hostname() + ":15000",
		"certificate": filepath.Join(dir, "cert.pem"), "privateKey": filepath.Join(dir, "key.pem"),
		"httpPort": ports.HTTP, "tlsPort": ports.TLS, "keyAlgorithm": "ecdsa",
		"retryAfter": map[string]int{"authz": 1, "order": 1},
		"profiles": map[string]any{"default": map[string]any{"description": "short",
			"validityPeriod": int(life.Seconds())}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	file := write(t, "pebble.json", string(config))
	cmd := exec.Command(program, "-config", file, "-dnsserver", nameServer(t, at, records))
	cmd.Env = append(os.Environ(), "PEBBLE_VA_NOSLEEP=1", "PEBBLE_WFE_NONCEREJECT=0")
	cmd.Stdout, cmd.Stderr = p.Log, p.Log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("the log of pebble:\n%s", p.Log)
		}
	})
	p.fetchRoots(t, "https://"+u.Hostname()+":15000/roots/0")
}

// fetchRoots waits for the authority and writes its root certificate to a file.
func (p *pebble) fetchRoots(t testing.TB, address string) {
	t.Helper()
	pem, err := os.ReadFile(p.CA)
	if err != nil {
		t.Fatal(err)
	}
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(pem)
	client := clientOf(trusted, "")
	testkit.Eventually(t, "pebble answers", func() bool {
		res, err := client.Get(address)
		if err != nil {
			return false
		}
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		if err != nil || res.StatusCode != http.StatusOK {
			return false
		}
		p.Pool = x509.NewCertPool()
		p.Pool.AppendCertsFromPEM(text)
		return os.WriteFile(p.Roots, text, 0o600) == nil
	})
}

// issued returns how many certificates were issued, once its log has at least so many.
func (p *pebble) issued(t testing.TB, least int) (n int) {
	t.Helper()
	testkit.Eventually(t, "the log of pebble has what was issued", func() bool {
		n = strings.Count(p.Log.String(), "Issued certificate serial")
		return n >= least
	})
	return n
}

// nameServer answers every name with an address, and TXT records with files of a directory.
// It returns its own address.
func nameServer(t testing.TB, at, records string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0") // pebble uses TCP
	if err != nil {
		t.Fatal(err)
	}
	address, err := netip.ParseAddr(at)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				var length [2]byte
				for {
					if _, err := io.ReadFull(conn, length[:]); err != nil {
						return
					}
					query := make([]byte, binary.BigEndian.Uint16(length[:]))
					if _, err := io.ReadFull(conn, query); err != nil {
						return
					}
					reply, err := nameReply(query, address.As4(), records)
					if err != nil {
						return
					}
					if _, err := conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(reply))), reply...)); err != nil {
						return
					}
				}
			}()
		}
	}()
	t.Cleanup(func() { l.Close() })
	return l.Addr().String()
}

func nameReply(query []byte, at [4]byte, records string) ([]byte, error) {
	var p dnsmessage.Parser
	header, err := p.Start(query)
	if err != nil {
		return nil, err
	}
	q, err := p.Question()
	if err != nil {
		return nil, err
	}
	header.Response, header.Authoritative = true, true
	b := dnsmessage.NewBuilder(nil, header)
	b.EnableCompression()
	resource := dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class, TTL: 1}
	err = b.StartQuestions()
	if err == nil {
		err = b.Question(q)
	}
	if err == nil {
		err = b.StartAnswers()
	}
	switch {
	case err != nil:
		return nil, err
	case q.Type == dnsmessage.TypeA:
		err = b.AResource(resource, dnsmessage.AResource{A: at})
	case q.Type == dnsmessage.TypeTXT && records != "":
		var text []byte
		if text, err = os.ReadFile(filepath.Join(records, strings.TrimSuffix(strings.ToLower(q.Name.String()),
			"."))); err == nil {
			err = b.TXTResource(resource, dnsmessage.TXTResource{TXT: strings.Fields(string(text))})
		} else {
			err = nil // no record
		}
	}
	if err != nil {
		return nil, err
	}
	return b.Finish()
}

// clientOf returns a client that trusts an authority. If at is not empty, all names have
// this address.
func clientOf(pool *x509.CertPool, at string) *http.Client {
	transport := newTransport(pool)
	transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		if _, port, err := net.SplitHostPort(address); err == nil && at != "" {
			address = net.JoinHostPort(at, port)
		}
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}
	return &http.Client{Timeout: patience, Transport: transport}
}

// connectProxy is an HTTP proxy for cf, for which every name has an address.
func connectProxy(t testing.TB, at string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{ReadHeaderTimeout: patience,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, port, err := net.SplitHostPort(r.Host)
			if r.Method != http.MethodConnect || err != nil {
				http.Error(w, "only CONNECT", http.StatusMethodNotAllowed)
				return
			}
			to, err := net.Dial("tcp", net.JoinHostPort(at, port))
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadGateway)
				return
			}
			w.WriteHeader(http.StatusOK)
			conn, buffered, err := http.NewResponseController(w).Hijack()
			if err != nil {
				to.Close()
				return
			}
			go func() {
				_, _ = io.Copy(to, io.MultiReader(io.LimitReader(buffered, int64(buffered.Reader.Buffered())), conn))
				to.Close()
			}()
			_, _ = io.Copy(conn, to)
			conn.Close()
			to.Close()
		})}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { server.Close() })
	return "http://" + l.Addr().String()
}

// cfSecure runs the client with an authority that it trusts, through a proxy.
func cfSecure(t testing.TB, home, roots, proxy string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*patience)
	defer cancel()
	cmd := cfCommand(ctx, t, home, args)
	cmd.Env = append(cmd.Env, "SSL_CERT_FILE="+roots, "HTTPS_PROXY="+proxy)
	var text bytes.Buffer
	cmd.Stdout, cmd.Stderr = &text, &text
	if err := cmd.Run(); err != nil {
		t.Fatalf("cf %s: %v\n%s", strings.Join(args, " "), err, &text)
	}
	return text.String()
}

// hookScript is a program for --acme-dns-hook that writes records to files of a directory.
func hookScript(t testing.TB, records string) string {
	t.Helper()
	file := write(t, "hook", fmt.Sprintf(`#!/bin/sh
set -eu
case $1 in
present) echo "$3" >>%[1]q/"$2" ;;
cleanup) rm -f %[1]q/"$2" ;;
*) echo "unknown action $1"; exit 1 ;;
esac
`, records))
	if err := os.Chmod(file, 0o700); err != nil {
		t.Fatal(err)
	}
	return file
}
