// Tls-proxy is a sidecar that terminates mutual TLS with the certificate of the
// instance and passes requests on to the app beside it. With TLS_PROXY_MODE=out it
// does the reverse: the app sends plain HTTP to localhost, and the proxy connects
// with the instance's certificate to the proxy of another app. README.md lists the
// settings.
package main

import (
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"time"

	"ingot/samples/internal/sample"
)

func main() {
	sample.Main(func(ctx context.Context) error {
		p, err := configure(os.Getenv)
		if err != nil {
			return fmt.Errorf("tls-proxy: %w", err)
		}
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", p.listen)
		if err != nil {
			return fmt.Errorf("tls-proxy: %w (TLS_PROXY_LISTEN says where to listen)", err)
		}
		slog.Info("proxy", "mode", p.mode, "to", p.upstream, "peers", p.peers.String())
		return sample.ServeWith(ctx, p.server(), sample.LimitListener(l, p.connections))
	})
}

// The headers about the client. A client that sets them itself is not believed.
const certificateHeader = "X-Forwarded-Client-Cert"

// proxy is either direction.
type proxy struct {
	mode             string // in or out
	listen, upstream string
	clientAuth       string // require, optional or none
	protocol         string // of the app: http1 or h2c
	peers            peers
	identity         *identity
	response         time.Duration
	connections      int
}

func configure(getenv func(string) string) (*proxy, error) {
	e := &sample.Env{Get: getenv}
	p := &proxy{
		mode: e.OneOf("TLS_PROXY_MODE", "in", "out"), clientAuth: e.OneOf("TLS_PROXY_CLIENT_AUTH", "require",
			"optional", "none"),
		protocol:    e.OneOf("TLS_PROXY_APP_PROTOCOL", "http1", "h2c"),
		response:    e.Duration("TLS_PROXY_RESPONSE_TIMEOUT", 5*time.Minute, time.Second),
		connections: e.Int("TLS_PROXY_MAX_CONNECTIONS", 1000, 1),
	}
	if p.mode == "in" {
		p.listen = e.Address("TLS_PROXY_LISTEN", ":8443")
		p.upstream = e.Address("TLS_PROXY_UPSTREAM", net.JoinHostPort("127.0.0.1", cmp.Or(getenv("PORT"), "8080")))
	} else {
		p.listen = e.LoopbackAddress("TLS_PROXY_LISTEN", "127.0.0.1:9000")
		if p.upstream = e.Need("TLS_PROXY_UPSTREAM",
			"set it to the address of the other app's proxy, for example back.apps.internal:8443"); p.upstream != "" {
			e.Address("TLS_PROXY_UPSTREAM", "")
		}
	}
	p.identity = &identity{
		cert: e.Text("TLS_PROXY_CERT", getenv("CF_INSTANCE_CERT")), key: e.Text("TLS_PROXY_KEY", getenv("CF_INSTANCE_KEY")),
		authorities: e.Text("TLS_PROXY_CA", getenv("CF_SYSTEM_CERT_PATH")),
	}
	if p.identity.cert == "" || p.identity.key == "" || p.identity.authorities == "" {
		e.Problem("CF_INSTANCE_CERT, CF_INSTANCE_KEY or CF_SYSTEM_CERT_PATH is not set: this platform gives its instances " +
			"no certificates. " +
			"Set TLS_PROXY_CERT, TLS_PROXY_KEY and TLS_PROXY_CA to files of your own")
		return nil, e.Err()
	}
	now, err := p.identity.current()
	if err != nil {
		e.Problem("%w", err)
		return nil, e.Err()
	}
	if p.peers, err = parsePeers(e.List("TLS_PROXY_PEERS"), now.leaf); err != nil {
		e.Problem("TLS_PROXY_PEERS: %w", err)
	}
	return p, e.Err()
}

// server returns the server of the mode.
func (p *proxy) server() *http.Server {
	transport := sample.NewTransport(p.response)
	if p.mode == "out" {
		transport.TLSClientConfig = p.identity.client(p.peers)
		transport.ForceAttemptHTTP2 = true
		return sample.NewServer(p.out(transport))
	}
	if p.protocol == "h2c" {
		transport.Protocols = new(http.Protocols)
		transport.Protocols.SetUnencryptedHTTP2(true)
	}
	s := sample.NewServer(p.in(transport))
	s.TLSConfig = p.identity.server(p.clientAuth)
	return s
}

// in passes requests of permitted clients on to the app.
func (p *proxy) in(transport http.RoundTripper) http.Handler {
	pass := sample.NewProxy(&url.URL{Scheme: "http", Host: p.upstream}, transport, func(r *httputil.ProxyRequest) {
		sample.StripHeaders(r.Out.Header, certificateHeader, "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto",
			"Forwarded")
		r.SetXForwarded()
		if peer := r.In.TLS.PeerCertificates; len(peer) > 0 {
			r.Out.Header.Set(certificateHeader, base64.StdEncoding.EncodeToString(peer[0].Raw))
		}
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if peer := r.TLS.PeerCertificates; len(peer) > 0 {
			if time.Now().After(peer[0].NotAfter) {
				// A connection can outlive the certificate it was opened with.
				w.Header().Set("Connection", "close")
				http.Error(w, "The certificate of this connection has expired. Connect again.", http.StatusForbidden)
				return
			}
			if err := p.peers.check(peer[0]); err != nil {
				slog.Warn("client refused", "client", peer[0].Subject.CommonName, "error", err)
				http.Error(w, "This app does not accept this client: "+err.Error(), http.StatusForbidden)
				return
			}
		}
		pass.ServeHTTP(w, r)
	})
}

// out passes requests of the app on to the proxy of another app.
func (p *proxy) out(transport http.RoundTripper) http.Handler {
	return sample.NewProxy(&url.URL{Scheme: "https", Host: p.upstream}, transport, func(r *httputil.ProxyRequest) {
		r.Out.Host = p.upstream
		sample.StripHeaders(r.Out.Header, certificateHeader)
	})
}
