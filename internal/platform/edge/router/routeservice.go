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

// The route service protocol: a request for the app goes to the service first, with the URL
// it was for and a signature. The service sends the request to that URL with the same
// signature. A request without a valid signature never reaches the app.
const (
	headerForwardedURL  = "X-Cf-Forwarded-Url"
	headerSignature     = "X-Cf-Proxy-Signature"
	headerMetadata      = "X-Cf-Proxy-Metadata"
	errServiceSignature = "invalid_route_service_signature"

	// signedFor is how long a route service may take to send a request on.
	signedFor = 60 * time.Second

	signaturePurpose = "route service signature"
)

// signed is the content of a signature.
type signed struct {
	URL      string    `json:"forwarded_url"`
	Time     time.Time `json:"requested_time"`
	Metadata string    `json:"metadata"`
}

// serviceVisit holds the headers of a request to a route service.
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

// throughService decides where a request of a route with a service goes: to the app if it
// comes from the service, otherwise to the service. It returns false if it has answered
// with an error.
func (p *Proxy) throughService(x *exchange, r *http.Request, service string) bool {
	if toService(r.Context()) {
		return true // avoids a loop of services of services
	}
	at := x.access.ForwardedProto + "://" + r.Host + r.URL.RequestURI()
	if signature := r.Header.Get(headerSignature); signature != "" {
		if err := p.verify(signature, r.Header.Get(headerMetadata), r.Header.Get(headerForwardedURL), r.Host,
			r.URL.RequestURI(), time.Now()); err != nil {
			p.options.Log.InfoContext(r.Context(), "route service signature refused", "route", x.access.Route, "error", err)
			x.refuse(http.StatusBadRequest, errServiceSignature, "Failed to validate Route Service Signature")
			return false
		}
		// The service forwards a request that has passed the router before.
		x.trusted = true
		x.forwarded(r)
		x.returned = true
		return true
	}
	if r.Header.Get("Upgrade") != "" {
		x.refuse(http.StatusServiceUnavailable, "route_service_unsupported",
			"Websocket requests are not supported for routes bound to Route Services.")
		return false
	}
	to, err := url.Parse(service)
	if err != nil || to.Host == "" || to.Scheme != "https" && to.Scheme != "http" {
		p.options.Log.WarnContext(r.Context(), "route service URL is not valid", "route", x.access.Route)
		x.refuse(http.StatusBadGateway, "route_service_unsupported", "The route service of the route has no usable address.")
		return false
	}
	visit := &serviceVisit{url: to, forwarded: at}
	visit.signature, visit.metadata = p.sign(at, time.Now())
	if _, here := p.table.Lookup(to.Host, to.EscapedPath()); here {
		// The service is an app of this router. It is called internally, because its name
		// may not resolve on this machine.
		out := r.Clone(context.WithValue(r.Context(), serviceKey{}, true))
		out.Trailer = r.Trailer // the server sets the values after the body
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

// toService reports whether a request goes to a route service that is an app of this
// router.
func toService(ctx context.Context) bool { return ctx.Value(serviceKey{}) != nil }

// sign signs a URL. The service must return the metadata with the signature.
func (p *Proxy) sign(forwarded string, now time.Time) (signature, metadata string) {
	metadata = rand.Text()
	text, err := json.Marshal(signed{forwarded, now, metadata})
	if err != nil {
		panic(fmt.Sprintf("router: a signature cannot be written: %s", err)) // strings and a time always can
	}
	return p.options.Signer.Seal(text, signaturePurpose), metadata
}

// verify checks a signature: it must be made by this router, recent, and for the forwarded
// URL, which must be the requested one.
func (p *Proxy) verify(signature, metadata, forwarded, host, uri string, now time.Time) error {
	text, err := p.options.Signer.Open(signature, signaturePurpose)
	if err != nil {
		return errors.New("signature is not valid")
	}
	var s signed
	if err := json.Unmarshal(text, &s); err != nil {
		return errors.New("signature has an unknown content")
	}
	age := now.Sub(s.Time)
	switch {
	case age > signedFor || age < -signedFor:
		return fmt.Errorf("signature is %s old, the limit is %s", age.Round(time.Second), signedFor)
	case subtle.ConstantTimeCompare([]byte(s.Metadata), []byte(metadata)) != 1:
		return errors.New("signature does not match its metadata")
	case s.URL != forwarded:
		return errors.New("signature is for another URL than the forwarded URL")
	}
	u, err := url.Parse(s.URL)
	if err != nil || CanonicalHost(u.Host) != CanonicalHost(host) || !sameTarget(u, uri) {
		return errors.New("signature is for another URL than the requested one")
	}
	return nil
}

// sameTarget compares the paths. As in gorouter, a service may change the query.
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
