package router_test

import (
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"ingot/internal/platform/edge/router"
)

// Trace headers are created and carried on as gorouter does, in both ways
// through the router, and stand in the access line as the app got them.
func TestTraces(t *testing.T) {
	t.Parallel()
	const (
		id     = "463ac35c9f6413ad48485a3953bb6124"
		span   = "a2fb4a1d1a96d312"
		parent = "0020000000000001"
		next   = `00-463ac35c9f6413ad48485a3953bb6124-[0-9a-f]{16}-`
		fresh  = `[0-9a-f]{12}4[0-9a-f]{3}[89ab][0-9a-f]{15}`
	)
	names := []string{"X-B3-Traceid", "X-B3-Spanid", "X-B3-Parentspanid", "X-B3-Sampled", "X-B3-Flags", "B3",
		"Traceparent", "Tracestate"}
	created := map[string]string{
		"X-B3-Traceid": fresh, "X-B3-Spanid": "[0-9a-f]{16}", "B3": fresh + "-[0-9a-f]{16}",
		"Traceparent": "00-" + fresh + "-[0-9a-f]{16}-01", "Tracestate": "gorouter=[0-9a-f]{16}",
	}
	with := func(from map[string]string, more ...string) map[string]string {
		out := maps.Clone(from)
		for i := 0; i < len(more); i += 2 {
			out[more[i]] = more[i+1]
		}
		return out
	}
	for name, tc := range map[string]struct{ send, want map[string]string }{
		"nothing": {nil, created},
		"one header of B3": {
			map[string]string{"b3": id + "-" + span + "-1-" + parent},
			map[string]string{"B3": id + "-" + span + "-1-" + parent, "Traceparent": "00-" + id + "-" + span + "-01",
				"Tracestate": "gorouter=" + span},
		},
		"a short trace": {
			map[string]string{"b3": span + "-" + span},
			map[string]string{"B3": span + "-" + span, "Traceparent": "00-0000000000000000" + span + "-" + span + "-01",
				"Tracestate": "gorouter=" + span},
		},
		"a decision alone": {
			map[string]string{"b3": "0"},
			map[string]string{"B3": "0", "Traceparent": created["Traceparent"], "Tracestate": created["Tracestate"]},
		},
		"a bad header of B3": {map[string]string{"b3": "not-a-trace"}, created},
		"headers of B3": {
			map[string]string{"X-B3-TraceId": id, "X-B3-SpanId": span, "X-B3-ParentSpanId": parent, "X-B3-Sampled": "1"},
			map[string]string{
				"X-B3-Traceid": id, "X-B3-Spanid": span, "X-B3-Parentspanid": parent, "X-B3-Sampled": "1", "B3": id + "-" + span +
					"-1-" + parent,
				"Traceparent": "00-" + id + "-" + span + "-01", "Tracestate": "gorouter=" + span,
			},
		},
		"headers of B3 for debugging": {
			map[string]string{"X-B3-TraceId": id, "X-B3-SpanId": span, "X-B3-Flags": "1"},
			map[string]string{
				"X-B3-Traceid": id, "X-B3-Spanid": span, "X-B3-Flags": "1", "B3": id + "-" + span + "-d",
				"Traceparent": "00-" + id + "-" + span + "-01", "Tracestate": "gorouter=" + span,
			},
		},
		"a trace without a span": {map[string]string{"X-B3-TraceId": id}, created},
		"bad headers of B3": {
			map[string]string{"X-B3-TraceId": "xyz", "X-B3-SpanId": span},
			map[string]string{"X-B3-Traceid": "xyz", "X-B3-Spanid": span, "Traceparent": created["Traceparent"],
				"Tracestate": created["Tracestate"]},
		},
		"traceparent": {
			map[string]string{"traceparent": "00-" + id + "-" + span + "-00"},
			with(created, "Traceparent", next+"00"),
		},
		"traceparent and tracestate": {
			map[string]string{"traceparent": "01-" + strings.ToUpper(id) + "-" + span + "-01",
				"tracestate": "other=1, gorouter=old,third@x=2"},
			with(created, "Traceparent", next+"01", "Tracestate", "gorouter=[0-9a-f]{16},other=1,third@x=2"),
		},
		"a tracestate without its traceparent": {map[string]string{"tracestate": "other=1"}, created},
		"an endless tracestate": {
			map[string]string{"traceparent": "00-" + id + "-" + span + "-00", "tracestate": "other=" +
				strings.Repeat("x", 2048)},
			with(created, "Traceparent", next+"00"),
		},
		"a bad traceparent": {map[string]string{"traceparent": "00-" + strings.Repeat("0", 32) + "-" + span + "-00"},
			created},
		"both": {
			map[string]string{"b3": id + "-" + span, "traceparent": "00-" + id + "-" + parent + "-01"},
			map[string]string{"B3": id + "-" + span, "Traceparent": next + "01", "Tracestate": "gorouter=[0-9a-f]{16}"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachMode(t, func(t *testing.T, header string) {
				f := newFront(t, router.Options{})
				got := make(chan http.Header, 1)
				f.route("app.test", backend(t, func(_ http.ResponseWriter, r *http.Request) { got <- r.Header }))
				r := f.with("GET", "http://app.test/", header, nil)
				for name, value := range tc.send {
					r.Header.Set(name, value)
				}
				res := f.do(r)
				h := <-got
				if served := router.FastPathServed(f.proxy) == 1; served != (header == modes["fast"]) {
					t.Errorf("on the fast path: %t", served)
				}
				for _, name := range names {
					if values := h[name]; len(values) > 1 || !regexp.MustCompile("^"+tc.want[name]+"$").MatchString(h.Get(name)) {
						t.Errorf("%s: %q, want %s", name, values, tc.want[name])
					}
				}
				requestID := res.Header.Get("X-Vcap-Request-Id")
				if trace := strings.ReplaceAll(requestID, "-", ""); tc.send == nil && (h.Get("X-B3-Traceid") != trace ||
					h.Get("Traceparent")[3:35] != trace || h.Get("X-B3-Spanid") != trace[16:]) {
					t.Errorf("a new trace is not that of the request %s: %v", requestID, h)
				}
				a := <-f.access
				line := a.Line()
				for i, name := range []string{"X-B3-Traceid", "X-B3-Spanid", "X-B3-Parentspanid", "B3", "Traceparent",
					"Tracestate"} {
					value := h.Get(name)
					if value == "" {
						value = "-"
					}
					pair := fmt.Sprintf(" %s:%q", strings.ReplaceAll(strings.ToLower(name), "-", "_"), value)
					if !strings.Contains(line, pair) || i == 5 && !strings.HasSuffix(line, pair) {
						t.Errorf("%s is not in %s", pair, line)
					}
				}
			})
		})
	}
}

// A client that sends its request's id has a trace of that name; of an id that is
// no guid, its own trace.
func TestTraceOfRequestID(t *testing.T) {
	t.Parallel()
	eachMode(t, func(t *testing.T, header string) {
		f := newFront(t, router.Options{})
		f.route("app.test", backend(t, func(w http.ResponseWriter,
			r *http.Request) {
			fmt.Fprint(w, r.Header.Get("X-B3-Traceid"))
		}))
		seen := []string{}
		for _, id := range []string{testGUID, "order-17", "order-17"} {
			r := f.with("GET", "http://app.test/", header, nil)
			r.Header.Set("X-Vcap-Request-Id", id)
			seen = append(seen, text(t, f.do(r).Body))
		}
		if seen[0] != strings.ReplaceAll(testGUID, "-", "") {
			t.Errorf("the trace of %s is %s", testGUID, seen[0])
		}
		slices.Sort(seen)
		if len(slices.Compact(seen)) != 3 {
			t.Errorf("traces %v", seen)
		}
	})
}
