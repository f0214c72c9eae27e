package router

import (
	"strconv"
	"strings"
	"time"
)

// Access is what is known of a request when it has ended.
type Access struct {
	Host      string
	Time      time.Time // when it began
	Method    string
	URI       string
	Proto     string
	Status    int // 499: the client went away first
	Referer   string
	UserAgent string

	RequestBytes, ResponseBytes int64 // of the bodies; of an upgraded connection only what was before

	RemoteAddr     string
	ForwardedFor   string
	ForwardedProto string
	RequestID      string

	Duration   time.Duration // until the last byte, or the end of an upgraded connection
	RouterTime time.Duration // of it, before the backend that answered was asked

	Route       string // guid; "" when none matched
	Backend     string // address; "" when none was asked, as with those below
	App         string
	Process     string
	Instance    string
	Index       string
	Attempts    int
	RouterError string
}

// Fields of a line are no longer than these, so that a request cannot make it
// arbitrarily long.
const (
	maxURI    = 20000
	maxHeader = 1000
)

// Line is the request in gorouter's access log format, the text of RTR lines.
// All that the client chose is quoted.
func (a Access) Line() string {
	b := make([]byte, 0, 512)
	host := strconv.Quote(limited(a.Host, maxHeader))
	b = append(b, strings.ReplaceAll(host[1:len(host)-1], " ", `\x20`)...)
	b = append(b, " - ["...)
	b = a.Time.UTC().AppendFormat(b, "2006-01-02T15:04:05.000000000Z")
	b = append(b, "] "...)
	b = strconv.AppendQuote(b, limited(a.Method, maxHeader)+" "+limited(a.URI, maxURI)+" "+a.Proto)
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
	for _, s := range []string{a.Referer, a.UserAgent, a.RemoteAddr, a.Backend} {
		b = append(b, ' ')
		b = appendDashed(b, s)
	}
	pair := func(name, value string) {
		b = append(b, ' ')
		b = append(b, name...)
		b = append(b, ':')
		b = appendDashed(b, value)
	}
	seconds := func(name string, d time.Duration) {
		b = append(b, ' ')
		b = append(b, name...)
		b = append(b, ':')
		b = strconv.AppendFloat(b, d.Seconds(), 'f', 6, 64)
	}
	pair("x_forwarded_for", a.ForwardedFor)
	pair("x_forwarded_proto", a.ForwardedProto)
	pair("vcap_request_id", a.RequestID)
	seconds("response_time", a.Duration)
	seconds("gorouter_time", a.RouterTime)
	pair("app_id", a.App)
	pair("app_index", a.Index)
	pair("instance_id", a.Instance)
	pair("x_cf_routererror", a.RouterError)
	return string(b)
}

func appendDashed(b []byte, s string) []byte {
	if s == "" {
		return append(b, `"-"`...)
	}
	return strconv.AppendQuote(b, limited(s, maxHeader))
}

func limited(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return s[:n] + "…"
}
