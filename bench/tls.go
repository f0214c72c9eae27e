package main

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

var tlsSection = Section{
	Name: "tls",
	About: "requests to an app with TLS: on open connections, and each on a new connection with a full or a " +
		"resumed handshake, compared with nginx with the same certificate and ciphers",
	Run: measureTLS,
}

// tlsGoal is the share of nginx's rate, as without TLS.
const tlsGoal = 1

// certificate is a certificate in files, and the client's configuration for it.
type certificate struct {
	cert, key string
	client    *tls.Config
}

// newCertificate creates a certificate with a key as Let's Encrypt's clients use now.
func newCertificate(dir, host string) (*certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{host}, NotBefore: time.Now().
		Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	c := &certificate{cert: filepath.Join(dir, "cert.pem"), key: filepath.Join(dir, "key.pem")}
	public := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	err = errors.Join(os.WriteFile(c.cert, public, 0o600),
		os.WriteFile(c.key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), 0o600))
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(public)
	c.client = &tls.Config{RootCAs: pool, ServerName: host, NextProtos: []string{"http/1.1"}}
	return c, err
}

func measureTLS(ctx context.Context, r *Report) (err error) {
	rounds, d := 6, 2*time.Second
	if r.Short {
		rounds, d = 1, time.Second
	}
	program, err := r.demoApp(ctx)
	if err != nil {
		return err
	}
	bits, err := newUpload(program, "tls")
	if err != nil {
		return err
	}
	host := "tls.apps.localhost"
	cert, err := newCertificate(r.Scratch, host)
	if err != nil {
		return err
	}
	listen, err := freePort(ctx)
	if err != nil {
		return err
	}
	p, err := r.StartPlatform(ctx, "--tls-listen", listen, "--tls-cert", cert.cert, "--tls-key", cert.key, "--plain-http")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Stop()) }()
	p.Memory = "512M"
	app, err := p.Push(ctx, "tls", bits)
	defer func() { err = errors.Join(err, p.Remove(ctx, app)) }()
	if err != nil {
		return err
	}
	if app.Host != host {
		return fmt.Errorf("the app's host is %s, the certificate's %s", app.Host, host)
	}
	direct, err := p.address(ctx, app)
	if err != nil {
		return err
	}
	all := []*peer{{name: "ingot", addr: listen, pid: p.PID, tls: cert.client, sessions: tls.NewLRUClientSessionCache(0)}}
	nginx, err := r.startPeer(ctx, peerKind{nameNginx, "nginx", cert.nginxConfig, cert.client}, direct, host)
	defer func() {
		if nginx != nil {
			err = errors.Join(err, nginx.stop())
		}
	}()
	if err != nil {
		return err
	}
	if nginx != nil {
		all = append(all, nginx)
	}
	if err := compareTLS(ctx, r, rounds, d, host, all); err != nil {
		return err
	}
	p.noteEngine(r)
	r.Note("the best of %d rounds of %s each; the rounds take turns. TLS 1.3 with an ECDSA certificate (P-256), "+
		"HTTP/1.1. A handshake is a new connection with one request, 16 at a time. The load generator shares the %d "+
		"processors and does the client's half of each handshake.", rounds, d, runtime.NumCPU())
	return nil
}

// compareTLS measures the peers in each way.
func compareTLS(ctx context.Context, r *Report, rounds int, d time.Duration, host string, all []*peer) error {
	for _, kind := range []struct {
		name string
		make func(one *peer) Contender
	}{
		{"requests, 64 connections", func(one *peer) Contender {
			return Load{Addr: one.addr, TLS: one.tls, Requests: [][]byte{get(host, "/")}, Connections: 64, Duration: d,
				PID: one.pid}.Run
		}},
		{"full handshakes", func(one *peer) Contender { return shakes(ctx, one, host, d, false) }},
		{"resumed handshakes", func(one *peer) Contender { return shakes(ctx, one, host, d, true) }},
	} {
		var contenders []Contender
		for _, one := range all {
			contenders = append(contenders, kind.make(one))
		}
		best, err := bestOf(ctx, rounds, contenders...)
		if err != nil {
			return fmt.Errorf("%s: %w", kind.name, err)
		}
		if len(best) < 2 {
			r.Add(Figure{Name: kind.name, Value: best[0].PerSecond, Unit: "/s"})
			continue
		}
		r.Add(Figure{Name: kind.name, Value: best[0].PerSecond, Unit: "/s", Beside: &Beside{nameNginx, best[1].PerSecond},
			Goal: ShareOf(tlsGoal)})
	}
	return nil
}

// shakes opens connections, one request each. If they are resumed, each uses the session of
// the previous one.
func shakes(ctx context.Context, one *peer, host string, d time.Duration, resumed bool) Contender {
	request := get(host, "/", "Connection: close")
	return bare(16, d, func() error {
		config := one.tls.Clone()
		if resumed {
			config.ClientSessionCache = one.sessions
		}
		conn, err := dialTLS(ctx, one.addr, config)
		if err != nil {
			return err
		}
		defer conn.Close()
		if _, err := conn.Write(request); err != nil {
			return err
		}
		status, err := readAnswer(bufio.NewReaderSize(conn, 4<<10))
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("%s: answer %d", one.name, status)
		}
		return err
	})
}

func dialTLS(ctx context.Context, addr string, config *tls.Config) (net.Conn, error) {
	d := tls.Dialer{NetDialer: &net.Dialer{Timeout: 5 * time.Second}, Config: config}
	return d.DialContext(ctx, "tcp", addr)
}

// nginxConfig is nginxConfig with TLS.
func (c *certificate) nginxConfig(dir, listen, app string) []string {
	args := nginxConfig(dir, listen, app)
	if len(args) == 0 {
		return nil
	}
	file := args[len(args)-1]
	text, err := os.ReadFile(file)
	if err != nil {
		return nil
	}
	secured := strings.Replace(string(text), "listen "+listen+" backlog=4096;", "listen "+listen+` ssl backlog=4096;
    ssl_certificate `+c.cert+`;
    ssl_certificate_key `+c.key+`;
    ssl_protocols TLSv1.2 TLSv1.3;
    ssl_ciphers ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES256-GCM-SHA384:ECDHE-ECDSA-CHACHA20-POLY1305;
    ssl_conf_command Ciphersuites TLS_AES_128_GCM_SHA256;
    ssl_session_cache shared:SSL:10m;
    ssl_session_tickets on;`, 1)
	if os.WriteFile(file, []byte(secured), 0o600) != nil {
		return nil
	}
	return args
}
