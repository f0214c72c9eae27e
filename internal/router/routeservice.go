package router

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"time"
)

// A route with a route service has its requests pass that first:
//
//	client ──▶ router ──signed──▶ route service ──signed──▶ router ──▶ app
//
// The router tells the service where the request was going and signs that; the
// service sends it on there with the signature, by which the router knows that
// it has passed. A service that is an app here is reached without leaving the
// router.

const (
	headerProxySignature = "X-Cf-Proxy-Signature"
	headerProxyMetadata  = "X-Cf-Proxy-Metadata"
	headerForwardedURL   = "X-Cf-Forwarded-Url"

	errRouteService = "route_service_unsupported"
	errSignature    = "route_service_signature"

	// passFor is how long a route service may take to send a request on.
	passFor = 60 * time.Second
)

// passing signs requests to route services. Its key is this process's own:
// after a restart a signature is good for nothing, and the request is made
// again.
type passing struct {
	seal      cipher.AEAD
	transport http.RoundTripper
	now       func() time.Time
}

func newPassing(o Options) *passing {
	key := make([]byte, 32)
	_, _ = rand.Read(key) // never fails
	block, err := aes.NewCipher(key)
	if err != nil {
		panic(err) // the key has the right length
	}
	seal, err := cipher.NewGCM(block)
	if err != nil {
		panic(err)
	}
	s := &passing{seal: seal, transport: o.RouteServices, now: time.Now}
	if s.transport == nil {
		s.transport = &http.Transport{
			DialContext: (&net.Dialer{Timeout: o.DialTimeout}).DialContext, TLSHandshakeTimeout: o.DialTimeout,
			ResponseHeaderTimeout: o.ResponseHeaderTimeout, MaxIdleConnsPerHost: 16, IdleConnTimeout: time.Minute, ForceAttemptHTTP2: true,
		}
	}
	return s
}

func (s *passing) close() {
	if t, ok := s.transport.(interface{ CloseIdleConnections() }); ok {
		t.CloseIdleConnections()
	}
}

// pass is what is signed.
type pass struct {
	URL  string    `json:"forwarded_url"`
	Time time.Time `json:"requested_time"`
}

func (s *passing) sign(address string) (signature, metadata string, err error) {
	nonce := make([]byte, s.seal.NonceSize())
	if _, err := rand.Read(nonce); err != nil {
		return "", "", err
	}
	text, err := json.Marshal(pass{address, s.now()})
	if err != nil {
		return "", "", err
	}
	encode := base64.URLEncoding.EncodeToString
	return encode(s.seal.Seal(nil, nonce, text, nil)), encode(nonce), nil
}

var errPass = errors.New("the signature is not ours, too old, or for another address")

// check sees that a request has passed its route service.
func (s *passing) check(r *http.Request) error {
	signature, err := base64.URLEncoding.DecodeString(r.Header.Get(headerProxySignature))
	if err != nil {
		return errPass
	}
	nonce, err := base64.URLEncoding.DecodeString(r.Header.Get(headerProxyMetadata))
	if err != nil || len(nonce) != s.seal.NonceSize() {
		return errPass
	}
	text, err := s.seal.Open(nil, nonce, signature, nil)
	var signed pass
	if err != nil || json.Unmarshal(text, &signed) != nil {
		return errPass
	}
	// By http or https: a proxy in front may have ended TLS.
	_, was, _ := strings.Cut(signed.URL, "://")
	if age := s.now().Sub(signed.Time); age > passFor || age < -passFor || was != r.Host+r.URL.RequestURI() {
		return errPass
	}
	return nil
}

type serviceKey struct{}

// toService reports that a request is one to a route service which is an app
// here.
func toService(ctx context.Context) bool { return ctx.Value(serviceKey{}) != nil }

// passed reports whether a request may go on to the app. If not it has been
// answered: by the route service, or with what is wrong.
func (p *Proxy) passed(x *exchange, r *http.Request, m *Match) bool {
	switch {
	case toService(r.Context()):
		return true // a service's own service would never end
	case r.Header.Get(headerProxySignature) != "":
		if err := p.passing.check(r); err != nil {
			x.refuse(http.StatusBadRequest, errSignature, "Failed to validate Route Service Signature")
			return false
		}
		return true
	case r.Header.Get("Upgrade") != "":
		x.refuse(http.StatusServiceUnavailable, errRouteService, "Websocket requests are not supported for routes bound to Route Services.")
		return false
	}
	service, err := url.Parse(m.Route.ServiceURL)
	if err != nil || service.Host == "" {
		x.refuse(http.StatusBadGateway, errRouteService, "The route service of this route has no valid address.")
		return false
	}
	address := x.access.ForwardedProto + "://" + r.Host + r.URL.RequestURI()
	signature, metadata, err := p.passing.sign(address)
	if err != nil {
		x.refuse(http.StatusInternalServerError, errRouteService, "The request could not be signed for its route service.")
		return false
	}
	set := func(h http.Header) {
		h.Set(headerForwardedURL, address)
		h.Set(headerProxySignature, signature)
		h.Set(headerProxyMetadata, metadata)
	}
	if _, here := p.table.Lookup(service.Host, service.EscapedPath()); here {
		out := r.Clone(context.WithValue(r.Context(), serviceKey{}, true))
		out.Host, out.URL.Path, out.URL.RawPath, out.URL.RawQuery = service.Host, service.Path, service.RawPath, service.RawQuery
		set(out.Header)
		p.ServeHTTP(x.w, out)
		return false
	}
	p.toServiceElsewhere(x, r, service, set)
	return false
}

func (p *Proxy) toServiceElsewhere(x *exchange, r *http.Request, service *url.URL, set func(http.Header)) {
	reverse := &httputil.ReverseProxy{
		Transport: p.passing.transport, FlushInterval: -1, ErrorLog: p.reverse.ErrorLog, BufferPool: p.reverse.BufferPool,
		Rewrite: func(pr *httputil.ProxyRequest) {
			target := *service
			if target.Path == "" {
				target.Path = "/"
			}
			pr.Out.URL, pr.Out.Host = &target, service.Host
			pr.Out.Header.Set("X-Forwarded-For", x.access.ForwardedFor)
			pr.Out.Header.Set("X-Forwarded-Proto", x.access.ForwardedProto)
			set(pr.Out.Header)
		},
		ErrorHandler: func(_ http.ResponseWriter, r *http.Request, err error) {
			p.options.Log.InfoContext(r.Context(), "a route service does not answer", "route", x.access.Route, "error", err)
			x.refuse(http.StatusBadGateway, errRouteService, "The route service of this route does not answer.")
		},
	}
	reverse.ServeHTTP(x.w, r)
}
