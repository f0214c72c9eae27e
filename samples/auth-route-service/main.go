// Auth-route-service is a route service that requires a name and a password:
// requests to the routes it is bound to go through it, and it forwards only those
// with the correct ones.
//
//	client ──▶ router ──▶ auth-route-service ──▶ router ──▶ app
//	                      401 without a password
//
// AUTH_USERNAME and AUTH_PASSWORD are the required credentials. ROUTER_ADDRESS,
// HOST:PORT, is the router to forward requests to. The default is the original
// address of the request, which this app must be able to reach.
package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"
	"time"

	"ingot/samples/internal/sample"
)

// The headers of the route service protocol. The router signs the destination of
// a request and requires the signature when the request comes back.
const (
	forwardedURL = "X-Cf-Forwarded-Url"
	signature    = "X-Cf-Proxy-Signature"
	metadata     = "X-Cf-Proxy-Metadata"
)

func main() {
	sample.Main(func(ctx context.Context) error {
		s, err := newService(os.Getenv)
		if err != nil {
			return err
		}
		return sample.ServeWeb(ctx, s)
	})
}

type service struct {
	login *sample.Login
	proxy *httputil.ReverseProxy
}

func newService(getenv func(string) string) (*service, error) {
	name, password := getenv("AUTH_USERNAME"), getenv("AUTH_PASSWORD")
	if name == "" || password == "" {
		return nil,
			errors.New("auth-route-service: AUTH_USERNAME and AUTH_PASSWORD have to be set: without them everybody would be " +
				"let in (cf set-env)")
	}
	transport := &http.Transport{DialContext: dialer(getenv("ROUTER_ADDRESS")), ResponseHeaderTimeout: time.Minute,
		IdleConnTimeout: time.Minute}
	return &service{
		login: sample.NewLogin(name, password),
		proxy: &httputil.ReverseProxy{
			Transport: transport,
			Rewrite: func(p *httputil.ProxyRequest) {
				to, _ := p.In.Context().Value(targetKey{}).(*url.URL)
				p.Out.URL, p.Out.Host = to, to.Host
				// The password was for this service, not for the app.
				p.Out.Header.Del("Authorization")
				p.Out.Header["X-Forwarded-For"] = p.In.Header["X-Forwarded-For"]
			},
			ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
				slog.Error("a request cannot be sent on", "to", r.URL.Host, "error", err)
				http.Error(w, "The request cannot be sent on to its app: the router is not reached. (For the operator: "+
					"ROUTER_ADDRESS says where it is.)", http.StatusBadGateway)
			},
		},
	}, nil
}

// dialer returns a dial function that always connects to address. Without an
// address it dials normally, except that names below localhost resolve to this
// machine.
func dialer(address string) func(ctx context.Context, network, to string) (net.Conn, error) {
	d := &net.Dialer{Timeout: 10 * time.Second}
	return func(ctx context.Context, network, to string) (net.Conn, error) {
		if address != "" {
			return d.DialContext(ctx, network, address)
		}
		if host, port, err := net.SplitHostPort(to); err == nil && strings.HasSuffix(host, ".localhost") {
			to = net.JoinHostPort("localhost", port)
		}
		return d.DialContext(ctx, network, to)
	}
}

type targetKey struct{}

func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	to, err := url.Parse(r.Header.Get(forwardedURL))
	if err != nil || to.Host == "" || to.Scheme != "http" && to.Scheme != "https" || r.Header.Get(signature) == "" ||
		r.Header.Get(metadata) == "" {
		http.Error(w, "This app is a route service: it takes requests that the router sends it (cf bind-route-service), "+
			"and this is none.", http.StatusBadRequest)
		return
	}
	if !s.login.Check(w, r) {
		return
	}
	s.proxy.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), targetKey{}, to)))
}
