package router

import (
	"strings"

	"ingot/internal/base/tracing"
)

// span returns the finished request as a span. Its name and its attributes contain no query,
// which may have secrets, and nothing of the headers.
func (x *exchange) span() tracing.Finished {
	a := &x.access
	at, _ := tracing.ParseTraceparent(a.trace.parent)
	name, path := knownMethod(a.Method), a.URI
	if x.match != nil {
		name += " " + x.match.Route.Host + x.match.Route.Path
	}
	if i := strings.IndexByte(path, '?'); i >= 0 {
		path = path[:i]
	}
	s := tracing.Finished{
		SpanContext: at, Parent: tracing.ParseSpanID(strings.ToLower(a.trace.caller)), Part: "router", Name: name,
		Kind:  tracing.Server,
		Start: a.Time, Duration: a.Duration, Failed: a.Status >= 500 || a.RouterError != "", Failure: a.RouterError,
		Attrs: append(make([]tracing.Attr, 0, 12),
			tracing.String("http.request.method", knownMethod(a.Method)), tracing.String("server.address", a.Host),
			tracing.String("url.path", path),
			tracing.String("url.scheme", a.ForwardedProto), tracing.Int("http.response.status_code", a.Status),
			tracing.String("vcap.request_id", a.RequestID)),
	}
	if a.App != "" {
		s.Attrs = append(s.Attrs, tracing.String("cloudfoundry.app.id", a.App),
			tracing.String("cloudfoundry.process.id", a.Process),
			tracing.String("cloudfoundry.app.instance.id", a.Index), tracing.Int("ingot.router.attempts", a.Attempts),
			tracing.Int("ingot.router.time_us", int(a.RouterTime.Microseconds())))
	}
	if a.RouterError != "" {
		s.Attrs = append(s.Attrs, tracing.String("error.type", a.RouterError))
	}
	return s
}

// knownMethod returns the method of a request, or HTTP: clients may invent others.
func knownMethod(m string) string {
	switch m {
	case "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS":
		return m
	}
	return "HTTP"
}
