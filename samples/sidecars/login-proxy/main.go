// Login-proxy is a sidecar that lets only logged-in users through to the app beside it.
// They log in at the platform's authorization server (OAuth 2.0 authorization code with
// PKCE, OpenID Connect), and the app gets their name in a header. README.md lists the
// settings.
package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"ingot/samples/internal/sample"
)

func main() {
	sample.Main(func(ctx context.Context) error {
		p, err := configure(os.Getenv)
		if err != nil {
			return fmt.Errorf("login-proxy: %w", err)
		}
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", p.listen)
		if err != nil {
			return fmt.Errorf("login-proxy: %w (LOGIN_LISTEN says where to listen)", err)
		}
		return sample.ServeWith(ctx, sample.NewServer(p.handler()), sample.LimitListener(l, p.connections))
	})
}

func configure(getenv func(string) string) (*proxy, error) {
	e := &sample.Env{Get: getenv}
	p := &proxy{
		listen: e.Address("LOGIN_LISTEN", ":"+cmp.Or(getenv("PORT"), "8080")), upstream: e.Address("LOGIN_UPSTREAM",
			"127.0.0.1:8081"),
		scopes: strings.Fields(e.Text("LOGIN_SCOPES", "openid")), required: e.List("LOGIN_REQUIRED_SCOPES"),
		public:      e.List("LOGIN_PUBLIC_PATHS"),
		passToken:   e.OneOf("LOGIN_PASS_TOKEN", "false", "true") == "true",
		lifetime:    e.Duration("LOGIN_SESSION_LIFETIME", 12*time.Hour, time.Minute),
		response:    e.Duration("LOGIN_RESPONSE_TIMEOUT", 5*time.Minute, time.Second),
		connections: e.Int("LOGIN_MAX_CONNECTIONS", 1000, 1), protection: http.NewCrossOriginProtection(),
	}
	if !slices.Contains(p.scopes, "openid") {
		e.Problem("LOGIN_SCOPES is %q, and must contain openid", p.scopes)
	}
	for _, scope := range p.required {
		if !slices.Contains(p.scopes, scope) {
			p.scopes = append(p.scopes, scope)
		}
	}
	for _, path := range p.public {
		if !strings.HasPrefix(path, "/") || strings.Contains(strings.TrimSuffix(path, "*"), "*") {
			e.Problem("LOGIN_PUBLIC_PATHS has %q, and must have paths such as /healthz or /assets/*", path)
		}
	}
	for _, origin := range e.List("LOGIN_TRUSTED_ORIGINS") {
		if err := p.protection.AddTrustedOrigin(origin); err != nil {
			e.Problem("LOGIN_TRUSTED_ORIGINS: %w", err)
		}
	}
	var err error
	if keys := e.List("LOGIN_SESSION_KEY"); len(keys) == 0 {
		e.Problem("LOGIN_SESSION_KEY is not set: set it to 32 random bytes, for example the output of: openssl rand " +
			"-base64 32")
	} else if p.seal, err = newSealer(keys); err != nil {
		e.Problem("LOGIN_SESSION_KEY: %w", err)
	}
	p.server = configureServer(e)
	p.renewals = renewals{calls: map[[sha256.Size]byte]*renewal{}, now: p.server.now}
	p.configureRedirect(e)
	return p, e.Err()
}

// configureServer reads the settings of the authorization server.
func configureServer(e *sample.Env) *authServer {
	a := &authServer{
		public: strings.TrimRight(e.Need("LOGIN_AUTH_URL",
			"set it to the address of the authorization server, for example https://uaa.example.org"), "/"),
		clientID: e.Need("LOGIN_CLIENT_ID",
			"set it to the id of a client: ingot create-client ID --scopes openid --auto-approve openid --grant-types "+
				"authorization_code,refresh_token --redirect-uris URL"),
		secret: e.Get("LOGIN_CLIENT_SECRET"), issuer: e.Text("LOGIN_ISSUER", ""), now: time.Now,
	}
	a.internal = strings.TrimRight(e.Text("LOGIN_AUTH_INTERNAL_URL", a.public), "/")
	if a.internal == "cf_api" {
		// Ingot's authorization server has the same address as its API.
		var app struct {
			API string `json:"cf_api"`
		}
		if err := json.Unmarshal([]byte(e.Get("VCAP_APPLICATION")), &app); err != nil || app.API == "" {
			e.Problem("LOGIN_AUTH_INTERNAL_URL is cf_api, and VCAP_APPLICATION has no such address")
		}
		a.internal = strings.TrimRight(app.API, "/")
	}
	for _, address := range []string{a.public, a.internal} {
		if u, err := url.Parse(address); address != "" && (err != nil || u.Host == "" || u.Scheme != "http" &&
			u.Scheme != "https") {
			e.Problem("LOGIN_AUTH_URL or LOGIN_AUTH_INTERNAL_URL is %q, and must be of the form https://HOST", address)
		}
	}
	transport := sample.NewTransport(10 * time.Second)
	transport.Proxy = http.ProxyFromEnvironment
	if file := e.Text("LOGIN_AUTH_CA", ""); file != "" {
		pool := x509.NewCertPool()
		if text, err := os.ReadFile(file); err != nil || !pool.AppendCertsFromPEM(text) {
			e.Problem("LOGIN_AUTH_CA is %q, which cannot be read or contains no certificate", file)
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	a.client = http.Client{Transport: transport, Timeout: 15 * time.Second,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return a
}

// configureRedirect reads the address of the callback, which decides about the cookies.
func (p *proxy) configureRedirect(e *sample.Env) {
	text := e.Need("LOGIN_REDIRECT_URL",
		"set it to the address of the app with the path /oauth2/callback, as registered for the client")
	if text == "" {
		return
	}
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || len(u.Path) < 2 || u.RawQuery != "" ||
		u.Fragment != "" {
		e.Problem("LOGIN_REDIRECT_URL is %q, and must be of the form https://APP/oauth2/callback", text)
		return
	}
	host := u.Hostname()
	if ip := net.ParseIP(host); u.Scheme == "http" && host != "localhost" && !strings.HasSuffix(host, ".localhost") &&
		(ip == nil || !ip.IsLoopback()) {
		e.Problem("LOGIN_REDIRECT_URL is %q: without https, others on the network could read the session. Only addresses "+
			"of localhost may have http", text)
	}
	p.redirect = u
	p.afterLogout = e.Text("LOGIN_AFTER_LOGOUT_URL", u.Scheme+"://"+u.Host+"/")
	p.cookies = jar{name: e.Text("LOGIN_COOKIE", "login-proxy"), secure: u.Scheme == "https"}
	if p.cookies.secure {
		// Browsers do not let other hosts of the domain set a cookie with this prefix.
		p.cookies.name = "__Host-" + p.cookies.name
	}
}
