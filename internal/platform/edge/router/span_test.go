package router_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"ingot/internal/base/tracing"
	"ingot/internal/base/tracing/tracingtest"
	"ingot/internal/platform/edge/router"
)

func tracer(t testing.TB, sampling float64) (*tracing.Tracer, *tracingtest.Collector) {
	t.Helper()
	c := tracingtest.Start(t)
	tr, err := tracing.New(tracing.Options{Endpoint: c.URL, Sampling: sampling, Delay: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	if err := tr.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tr.Stop)
	return tr, c
}

// A request becomes a span as its client decides, or by the ratio. The app gets the decision, and
// the router's span as its parent.
func TestRequestSpans(t *testing.T) {
	t.Parallel()
	const (
		id   = "463ac35c9f6413ad48485a3953bb6124"
		span = "a2fb4a1d1a96d312"
		w3c  = "00-" + id + "-" + span
	)
	for name, tc := range map[string]struct {
		sampling float64
		send     map[string]string
		recorded bool
		parent   string // of the span
		b3       string // that the app gets; "" means any
	}{
		"a new trace":             {1, nil, true, "", ""},
		"a new trace, not chosen": {0, nil, false, "", ""},
		"W3C yes":                 {0, map[string]string{"Traceparent": w3c + "-01"}, true, span, ""},
		"W3C no":                  {1, map[string]string{"Traceparent": w3c + "-00"}, false, "", ""},
		"B3 yes":                  {0, map[string]string{"B3": id + "-" + span + "-1"}, true, span, id + "-" + span + "-1"},
		"B3 debug":                {0, map[string]string{"B3": id + "-" + span + "-d"}, true, span, id + "-" + span + "-d"},
		"B3 no":                   {1, map[string]string{"B3": id + "-" + span + "-0"}, false, "", id + "-" + span + "-0"},
		"B3 open":                 {1, map[string]string{"B3": id + "-" + span}, true, span, id + "-" + span},
		"B3 headers yes": {0, map[string]string{"X-B3-Traceid": id, "X-B3-Spanid": span, "X-B3-Sampled": "1"}, true,
			span, id + "-" + span + "-1"},
		"B3 headers no": {1, map[string]string{"X-B3-Traceid": id, "X-B3-Spanid": span, "X-B3-Sampled": "0"}, false,
			"", id + "-" + span + "-0"},
		"B3 no, no trace":    {1, map[string]string{"B3": "0"}, false, "", "0"},
		"X-B3-Sampled alone": {1, map[string]string{"X-B3-Sampled": "0"}, false, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachMode(t, func(t *testing.T, header string) {
				tr, c := tracer(t, tc.sampling)
				f := newFront(t, router.Options{Tracer: tr})
				got := make(chan http.Header, 1)
				f.route("app.test", backend(t, func(_ http.ResponseWriter, r *http.Request) { got <- r.Header }))
				r := f.with("GET", "http://app.test/path?secret=1", header, nil)
				for name, value := range tc.send {
					r.Header.Set(name, value)
				}
				requestID := f.do(r).Header.Get("X-Vcap-Request-Id")
				h := <-got
				at, ok := tracing.ParseTraceparent(h.Get("Traceparent"))
				if !ok || at.Sampled != tc.recorded {
					t.Errorf("the app gets %q, want sampled %t", h.Get("Traceparent"), tc.recorded)
				}
				if tc.b3 != "" && h.Get("B3") != tc.b3 {
					t.Errorf("the app gets B3 %q, want %q", h.Get("B3"), tc.b3)
				}
				if decided := strings.HasSuffix(h.Get("B3"), "-0"); tc.send == nil && decided == tc.recorded {
					t.Errorf("the app gets B3 %q, want the decision %t", h.Get("B3"), tc.recorded)
				}
				<-f.access
				if !tc.recorded {
					tr.Stop()
					if n := len(c.Spans()); n != 0 {
						t.Errorf("%d spans, want none", n)
					}
					return
				}
				s := c.Find(t, "the request", func(tracingtest.Span) bool { return true })
				if want := fmt.Sprintf("00-%s-%s-01", s.Trace, s.ID); h.Get("Traceparent") != want {
					t.Errorf("the app gets %q, want the router's span %q", h.Get("Traceparent"), want)
				}
				if s.Parent != tc.parent || s.Name != "GET app.test" || s.Attrs["url.path"] != "/path" ||
					s.Attrs["vcap.request_id"] != requestID || s.Attrs["http.response.status_code"] != "200" || s.Failed {
					t.Errorf("got %+v", s)
				}
			})
		})
	}
}

// A failed request is a failed span, also without a route.
func TestSpansOfFailures(t *testing.T) {
	t.Parallel()
	tr, c := tracer(t, 1)
	f := newFront(t, router.Options{Tracer: tr})
	f.do(f.with("GET", "http://nothing.test/", modes["server"], nil))
	s := c.Find(t, "the request", func(tracingtest.Span) bool { return true })
	if s.Name != "GET" || !s.Failed || s.Failure != "unknown_route" || s.Attrs["http.response.status_code"] != "404" {
		t.Errorf("got %+v", s)
	}
}
