package router

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"ingot/internal/base/seal"
	"ingot/internal/base/web"
)

// The contract with route services: a request for the app goes to the service
// first, which is told the address that it was for, and sends it there itself,
// with the signature that it was given. Without one that is right a request
// never reaches the app.
const (
	headerForwardedURL = "X-Cf-Forwarded-Url"
	headerSignature    = "X-Cf-Proxy-Signature"
	headerMetadata     = "X-Cf-Proxy-Metadata"
	// headerClientCert tells an app which certificate a client has proved. The
	// router checks none, so that what comes with it was made up.
	headerClientCert = "X-Forwarded-Client-Cert"

	errServiceSignature = "invalid_route_service_signature"

	// signedFor is how long a route service has to send a request on.
	signedFor = 60 * time.Second

	signaturePurpose = "route service signature"
)

// signed is what a signature seals.
type signed struct {
	URL      string    `json:"forwarded_url"`
	Time     time.Time `json:"requested_time"`
	Metadata string    `json:"metadata"`
}

// serviceVisit is what a request to a route service carries.
type serviceVisit struct {
	url                            *url.URL
	forwarded, signature, metadata string
}

func newSigner() *seal.Keyring {
	k, err := seal.Parse(seal.NewKey())
	if err != nil {
		panic(fmt.Sprintf("router: a fresh key is no key: %s", err))
	}
	return k
}

// throughService decides where a request of a route with a service goes: to the
// app if it comes from the service, to the service otherwise. It returns false
// when it has refused.
func (p *Proxy) throughService(x *exchange, r *http.Request, service string) bool {
	if toService(r.Context()) {
		return true // a service's own service would never end
	}
	at := x.access.ForwardedProto + "://" + r.Host + r.URL.RequestURI()
	if signature := r.Header.Get(headerSignature); signature != "" {
		if err := p.verify(signature, r.Header.Get(headerMetadata), r.Header.Get(headerForwardedURL), r.Host, r.URL.RequestURI(), time.Now()); err != nil {
			p.options.Log.InfoContext(r.Context(), "a request with the signature of a route service was refused", "route", x.access.Route, "error", err)
			x.refuse(http.StatusBadRequest, errServiceSignature, "Failed to validate Route Service Signature")
			return false
		}
		return true
	}
	if r.Header.Get("Upgrade") != "" {
		x.refuse(http.StatusServiceUnavailable, "route_service_unsupported", "Websocket requests are not supported for routes bound to Route Services.")
		return false
	}
	to, err := url.Parse(service)
	if err != nil || to.Host == "" || to.Scheme != "https" && to.Scheme != "http" {
		p.options.Log.WarnContext(r.Context(), "a route has a route service whose address is none", "route", x.access.Route)
		x.refuse(http.StatusBadGateway, "route_service_unsupported", "The route service of the route has no usable address.")
		return false
	}
	visit := &serviceVisit{url: to, forwarded: at}
	visit.signature, visit.metadata = p.sign(at, time.Now())
	if _, here := p.table.Lookup(to.Host, to.EscapedPath()); here {
		// It is an app of ours, and reached without leaving the router: its name may
		// mean nothing to the system.
		out := r.Clone(context.WithValue(r.Context(), serviceKey{}, true))
		visit.address(out)
		out.Header.Set(web.RequestIDHeader, x.access.RequestID)
		x.access.trace.set(out.Header)
		p.ServeHTTP(x.w, out)
		return false
	}
	x.service = visit
	return true
}

type serviceKey struct{}

// toService reports that a request is one to a route service which is an app
// here.
func toService(ctx context.Context) bool { return ctx.Value(serviceKey{}) != nil }

// sign seals an address. Metadata has to come back with it.
func (p *Proxy) sign(forwarded string, now time.Time) (signature, metadata string) {
	metadata = rand.Text()
	text, err := json.Marshal(signed{forwarded, now, metadata})
	if err != nil {
		panic(fmt.Sprintf("router: a signature cannot be written: %s", err)) // strings and a time always can
	}
	return p.options.Signer.Seal(text, signaturePurpose), metadata
}

// verify says what is wrong with a signature: it has to be ours, young, for the
// address it claims, and that has to be the address that is asked for.
func (p *Proxy) verify(signature, metadata, forwarded, host, uri string, now time.Time) error {
	text, err := p.options.Signer.Open(signature, signaturePurpose)
	if err != nil {
		return errors.New("it is not ours")
	}
	var s signed
	if err := json.Unmarshal(text, &s); err != nil {
		return errors.New("it seals something else")
	}
	age := now.Sub(s.Time)
	switch {
	case age > signedFor || age < -signedFor:
		return fmt.Errorf("it is %s old, and good for %s", age.Round(time.Second), signedFor)
	case subtle.ConstantTimeCompare([]byte(s.Metadata), []byte(metadata)) != 1:
		return errors.New("its metadata is that of another")
	case s.URL != forwarded:
		return errors.New("it is for another address than the one that came with it")
	}
	u, err := url.Parse(s.URL)
	if err != nil || CanonicalHost(u.Host) != CanonicalHost(host) || !sameTarget(u, uri) {
		return errors.New("it is for another address than the one asked for")
	}
	return nil
}

// sameTarget compares the paths. A service may change the query, as gorouter
// lets it.
func sameTarget(u *url.URL, uri string) bool {
	path, _, _ := strings.Cut(uri, "?")
	signed, _, _ := strings.Cut(u.RequestURI(), "?")
	return path == signed
}

// address makes out a request to the route service.
func (v *serviceVisit) address(out *http.Request) {
	to := *v.url
	to.RawQuery = v.url.RawQuery
	out.URL, out.Host = &to, v.url.Host
	out.Header.Set(headerForwardedURL, v.forwarded)
	out.Header.Set(headerSignature, v.signature)
	out.Header.Set(headerMetadata, v.metadata)
}
