package router

import (
	"strconv"
	"strings"
	"time"

	"ingot/internal/platform/edge/router/http1"
)

// Access describes a finished request, or a connection of a TCP route, which has no
// method, URI, status and headers.
type Access struct {
	Host      string
	Time      time.Time // start of the request
	Method    string
	URI       string
	Proto     string
	Status    int // 499: the client closed the connection first
	Referer   string
	UserAgent string

	RequestBytes, ResponseBytes int64 // of the bodies; for an upgraded connection, only before the upgrade

	RemoteAddr     string
	ForwardedFor   string
	ForwardedProto string
	RequestID      string

	Duration   time.Duration // until the last byte, or until an upgraded connection closed
	RouterTime time.Duration // the part of Duration before the request went to the backend that answered

	Route       string // guid; "" when none matched
	Backend     string // address; this and the fields below are empty when no backend was tried
	App         string
	Process     string
	Instance    string
	Index       string
	Attempts    int
	RouterError string

	trace trace // as sent to the app
}

// Longest fields of an access line, so that a request cannot make a line arbitrarily long.
const (
	maxURI    = 20000
	maxHeader = 1000
)

// AppendLine appends the request in gorouter's access log format, the text of RTR lines.
// Everything chosen by the client is quoted.
func (a *Access) AppendLine(b []byte) []byte {
	if host := limited(a.Host, maxHeader); http1.IsUnquoted(host) && strings.IndexByte(host, ' ') < 0 {
		b = append(b, host...)
	} else {
		host = strconv.Quote(host)
		b = append(b, strings.ReplaceAll(host[1:len(host)-1], " ", `\x20`)...)
	}
	b = append(b, " - ["...)
	b = a.Time.UTC().AppendFormat(b, "2006-01-02T15:04:05.000000000Z")
	b = append(b, "] "...)
	if a.Proto == protoTCP {
		b = append(b, `"TCP"`...)
	} else {
		b = appendRequestLine(b, limited(a.Method, maxHeader), limited(a.URI, maxURI), a.Proto)
	}
	b = append(b, ' ')
	if a.Status == 0 {
		b = append(b, `"-"`...)
	} else {
		b = strconv.AppendInt(b, int64(a.Status), 10)
	}
	b = append(b, ' ')
	b = strconv.AppendInt(b, a.RequestBytes, 10)
	b = append(b, ' ')
	b = strconv.AppendInt(b, a.ResponseBytes, 10)
	b = appendPair(b, "", a.Referer)
	b = appendPair(b, "", a.UserAgent)
	b = appendPair(b, "", a.RemoteAddr)
	b = appendPair(b, "", a.Backend)
	if a.Proto != protoTCP {
		b = appendPair(b, "x_forwarded_for:", a.ForwardedFor)
		b = appendPair(b, "x_forwarded_proto:", a.ForwardedProto)
		b = appendPair(b, "vcap_request_id:", a.RequestID)
	}
	b = appendSeconds(b, "response_time:", a.Duration)
	b = appendSeconds(b, "gorouter_time:", a.RouterTime)
	b = appendPair(b, "app_id:", a.App)
	b = appendPair(b, "app_index:", a.Index)
	b = appendPair(b, "instance_id:", a.Instance)
	b = appendPair(b, "x_cf_routererror:", a.RouterError)
	if a.Proto == protoTCP {
		return b
	}
	b = appendPair(b, "x_b3_traceid:", a.trace.id)
	b = appendPair(b, "x_b3_spanid:", a.trace.span)
	b = appendPair(b, "x_b3_parentspanid:", a.trace.parentSpan)
	b = appendPair(b, "b3:", a.trace.b3)
	b = appendPair(b, "traceparent:", a.trace.parent)
	return appendPair(b, "tracestate:", a.trace.state)
}

// appendRequestLine appends the quoted first line of the request.
func appendRequestLine(b []byte, method, uri, proto string) []byte {
	if !http1.IsUnquoted(method) || !http1.IsUnquoted(uri) || !http1.IsUnquoted(proto) {
		return strconv.AppendQuote(b, method+" "+uri+" "+proto)
	}
	b = append(b, '"')
	b = append(b, method...)
	b = append(b, ' ')
	b = append(b, uri...)
	b = append(b, ' ')
	b = append(b, proto...)
	return append(b, '"')
}

// appendPair appends a space, a name and its quoted value, or a dash if the value is empty.
func appendPair(b []byte, name, value string) []byte {
	b = append(b, ' ')
	b = append(b, name...)
	if value == "" {
		return append(b, `"-"`...)
	}
	value = limited(value, maxHeader)
	if !http1.IsUnquoted(value) {
		return strconv.AppendQuote(b, value)
	}
	b = append(b, '"')
	b = append(b, value...)
	return append(b, '"')
}

// appendSeconds appends seconds with six decimal digits.
func appendSeconds(b []byte, name string, d time.Duration) []byte {
	b = append(b, ' ')
	b = append(b, name...)
	micros := d.Round(time.Microsecond).Microseconds()
	if micros < 0 { // the clock was set back
		b = append(b, '-')
		micros = -micros
	}
	b = strconv.AppendInt(b, micros/1e6, 10)
	rest := micros%1e6 + 1e6 // the leading digit is overwritten by the decimal point
	at := len(b)
	b = strconv.AppendInt(b, rest, 10)
	b[at] = '.'
	return b
}

func limited(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return s[:n] + "…"
}
