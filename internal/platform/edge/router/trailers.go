package router

import (
	"io"
	"maps"
	"net/http"
	"strings"

	"ingot/internal/platform/edge/router/http1"
)

// passTrailers returns the trailers of a request to the backend: those that in announces and
// that are passed on. Their values are set when the body has been read.
func (x *exchange) passTrailers(in *http.Request) http.Header {
	if len(in.Trailer) == 0 || x.body == nil {
		return nil
	}
	hops := connectionNames(in.Header)
	out := http.Header{}
	for name := range in.Trailer {
		if http1.RequestTrailer([]byte(name)) && !hops[name] {
			out[name] = nil
		}
	}
	x.body.atEnd = func() {
		for name := range out {
			out[name] = in.Trailer[name]
		}
	}
	return out
}

// connectionNames returns the headers that a Connection header names.
func connectionNames(h http.Header) map[string]bool {
	lines := h["Connection"]
	if len(lines) == 0 {
		return nil
	}
	names := map[string]bool{}
	for _, line := range lines {
		for part := range strings.SplitSeq(line, ",") {
			names[http.CanonicalHeaderKey(strings.TrimSpace(part))] = true
		}
	}
	return names
}

// answerBody removes trailers that are not passed on from a response, when they have arrived.
type answerBody struct {
	io.ReadCloser
	res  *http.Response
	hops map[string]bool
}

// limitTrailers removes the trailers of a response that are not passed on. The response may be
// nil.
func limitTrailers(res *http.Response) *http.Response {
	if res != nil && res.StatusCode != http.StatusSwitchingProtocols && (res.ContentLength < 0 || res.ProtoMajor > 1) {
		b := &answerBody{res.Body, res, connectionNames(res.Header)}
		b.limit()
		res.Body = b
	}
	return res
}

// limitUpgrade removes the headers of an upgrade that concern the connection to the app only.
func limitUpgrade(h http.Header) {
	upgrade := h["Upgrade"]
	limitHeader(h)
	h["Connection"], h["Upgrade"] = []string{"Upgrade"}, upgrade
}

// limitHeader removes the headers of a response that are not passed on, as ReverseProxy does
// for final responses only.
func limitHeader(h http.Header) {
	for name := range connectionNames(h) {
		delete(h, name)
	}
	for name := range h {
		if !http1.AnswerHeader([]byte(name)) {
			delete(h, name)
		}
	}
}

func (b *answerBody) limit() {
	maps.DeleteFunc(b.res.Trailer, func(name string, _ []string) bool {
		return b.hops[name] ||
			!http1.AnswerTrailer([]byte(name))
	})
}

func (b *answerBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.limit()
	}
	return n, err
}

func (b *answerBody) Close() error {
	err := b.ReadCloser.Close()
	b.limit()
	return err
}
