package tracingtest

import (
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"ingot/internal/base/testkit"
)

// Span is a span that a collector got.
type Span struct {
	Trace, ID, Parent string // hexadecimal
	Part, Name        string
	Failed            bool
	Failure           string
	Attrs             map[string]string
}

// Collector is a collector of traces.
type Collector struct {
	URL string

	mu     sync.Mutex
	spans  []Span
	heads  http.Header // of the last request
	answer func(w http.ResponseWriter) bool
}

// Start returns a collector that runs until the end of the test.
func Start(t testing.TB) *Collector {
	t.Helper()
	c := &Collector{}
	server := httptest.NewServer(c)
	t.Cleanup(server.Close)
	c.URL = server.URL
	return c
}

// Answer sets what answers requests instead, if it returns true; then their spans are not
// kept.
func (c *Collector) Answer(f func(w http.ResponseWriter) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answer = f
}

// ServeHTTP implements http.Handler.
func (c *Collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil || r.Method != http.MethodPost || r.URL.Path != "/v1/traces" ||
		r.Header.Get("Content-Type") != "application/x-protobuf" {
		http.Error(w, "not a request of OTLP", http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.heads = r.Header
	if c.answer != nil && c.answer(w) {
		return
	}
	c.spans = append(c.spans, decode(body)...)
	w.Header().Set("Content-Type", "application/x-protobuf")
}

// Spans returns the spans so far.
func (c *Collector) Spans() []Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]Span(nil), c.spans...)
}

// Header returns a header of the last request.
func (c *Collector) Header(name string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.heads.Get(name)
}

// Find waits for the first span that matches and returns it.
func (c *Collector) Find(t testing.TB, what string, match func(Span) bool) Span {
	t.Helper()
	var found Span
	testkit.Eventually(t, "the span of "+what+" is there", func() bool {
		for _, s := range c.Spans() {
			if match(s) {
				found = s
				return true
			}
		}
		return false
	})
	return found
}

// each calls f with every field of a message.
func each(b []byte, f func(num protowire.Number, bytes []byte, number uint64)) {
	for len(b) > 0 {
		num, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return
		}
		b = b[n:]
		var bytes []byte
		var number uint64
		switch kind {
		case protowire.BytesType:
			bytes, n = protowire.ConsumeBytes(b)
		case protowire.VarintType:
			number, n = protowire.ConsumeVarint(b)
		case protowire.Fixed64Type:
			number, n = protowire.ConsumeFixed64(b)
		default:
			n = protowire.ConsumeFieldValue(num, kind, b)
		}
		if n < 0 {
			return
		}
		b = b[n:]
		f(num, bytes, number)
	}
}

func decode(request []byte) (all []Span) {
	each(request, func(_ protowire.Number, resourceSpans []byte, _ uint64) {
		each(resourceSpans, func(num protowire.Number, scope []byte, _ uint64) {
			if num != 2 {
				return
			}
			part := ""
			each(scope, func(num protowire.Number, b []byte, _ uint64) {
				switch num {
				case 1:
					each(b, func(_ protowire.Number, name []byte, _ uint64) { part = string(name) })
				case 2:
					s := decodeSpan(b)
					s.Part = part
					all = append(all, s)
				}
			})
		})
	})
	return all
}

func decodeSpan(b []byte) Span {
	s := Span{Attrs: map[string]string{}}
	each(b, func(num protowire.Number, b []byte, _ uint64) {
		switch num {
		case 1:
			s.Trace = hex.EncodeToString(b)
		case 2:
			s.ID = hex.EncodeToString(b)
		case 4:
			s.Parent = hex.EncodeToString(b)
		case 5:
			s.Name = string(b)
		case 9:
			key, value := decodeAttr(b)
			s.Attrs[key] = value
		case 15:
			each(b, func(num protowire.Number, b []byte, n uint64) {
				switch num {
				case 2:
					s.Failure = string(b)
				case 3:
					s.Failed = n == 2
				}
			})
		}
	})
	return s
}

func decodeAttr(b []byte) (key, value string) {
	each(b, func(num protowire.Number, b []byte, _ uint64) {
		if num == 1 {
			key = string(b)
			return
		}
		each(b, func(num protowire.Number, b []byte, n uint64) {
			if num == 1 {
				value = string(b)
			} else {
				value = strconv.FormatInt(int64(n), 10) //nolint:gosec // as protobuf encodes it
			}
		})
	})
	return key, value
}
