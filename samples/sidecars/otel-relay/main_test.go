package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	common "go.opentelemetry.io/proto/otlp/common/v1"
	logs "go.opentelemetry.io/proto/otlp/logs/v1"
	metrics "go.opentelemetry.io/proto/otlp/metrics/v1"
	resource "go.opentelemetry.io/proto/otlp/resource/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// collector is a server that receives OTLP. It decodes bodies with the published
// messages.
type collector struct {
	*httptest.Server
	t *testing.T

	mu sync.Mutex
	// answer, if set, decides about a request, by its number.
	answer   func(n int, w http.ResponseWriter) bool
	requests []*http.Request
	messages []proto.Message
	got      chan struct{}
}

func newCollector(t *testing.T) *collector {
	t.Helper()
	c := &collector{t: t, got: make(chan struct{}, 100)}
	c.Server = httptest.NewServer(c)
	t.Cleanup(c.Close)
	return c
}

func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer func() { c.got <- struct{}{} }()
	c.requests = append(c.requests, r)
	if c.answer != nil && !c.answer(len(c.requests), w) {
		return
	}
	var in io.Reader = r.Body
	if r.Header.Get("Content-Encoding") == "gzip" {
		z, err := gzip.NewReader(r.Body)
		if err != nil {
			c.t.Error(err)
			return
		}
		in = z
	}
	body, err := io.ReadAll(in)
	if err != nil {
		c.t.Error(err)
	}
	var m proto.Message
	switch r.URL.Path {
	case "/v1/traces":
		m = new(trace.TracesData)
	case "/v1/metrics":
		m = new(metrics.MetricsData)
	case "/v1/logs":
		m = new(logs.LogsData)
	default:
		c.t.Errorf("request of %s", r.URL.Path)
		return
	}
	if r.Header.Get("Content-Type") == "application/json" {
		err = protojson.Unmarshal(body, m)
	} else {
		err = proto.Unmarshal(body, m)
	}
	if err != nil {
		c.t.Errorf("%s: %v", r.URL.Path, err)
	}
	c.messages = append(c.messages, m)
}

// received returns the spans by name, with the attributes of their resources.
func (c *collector) received() map[string]map[string]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := map[string]map[string]string{}
	for _, m := range c.messages {
		data, ok := m.(*trace.TracesData)
		if !ok {
			continue
		}
		for _, entry := range data.GetResourceSpans() {
			has := map[string]string{}
			for _, a := range entry.GetResource().GetAttributes() {
				if _, twice := has[a.GetKey()]; twice {
					c.t.Errorf("the attribute %s comes twice", a.GetKey())
				}
				has[a.GetKey()] = a.GetValue().GetStringValue()
			}
			for _, scope := range entry.GetScopeSpans() {
				for _, s := range scope.GetSpans() {
					all[s.GetName()] = has
				}
			}
		}
	}
	return all
}

func text(key, value string) *common.KeyValue {
	return &common.KeyValue{Key: key, Value: &common.AnyValue{Value: &common.AnyValue_StringValue{StringValue: value}}}
}

// spans returns a request with one span of each name, of a resource with attributes.
func spans(attributes []*common.KeyValue, names ...string) *trace.TracesData {
	entry := &trace.ResourceSpans{ScopeSpans: []*trace.ScopeSpans{{Scope: &common.InstrumentationScope{Name: "test"}}},
		SchemaUrl: "https://example.org/schema"}
	if attributes != nil {
		entry.Resource = &resource.Resource{Attributes: attributes, DroppedAttributesCount: 3}
	}
	for _, n := range names {
		entry.ScopeSpans[0].Spans = append(entry.ScopeSpans[0].Spans,
			&trace.Span{Name: n, TraceId: bytes.Repeat([]byte{1}, 16), StartTimeUnixNano: 1 << 60})
	}
	return &trace.TracesData{ResourceSpans: []*trace.ResourceSpans{entry}}
}

func encode(t *testing.T, m proto.Message, isJSON bool) []byte {
	t.Helper()
	marshal := proto.Marshal
	if isJSON {
		marshal = protojson.Marshal
	}
	out, err := marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

const vcap = `{"application_id": "app-guid", "application_name": "shop", "space_id": "space-guid", "space_name": "dev", "organization_id": "org-guid", "organization_name": "demo", "process_type": "web"}`

func environment(endpoint string, more ...string) func(string) string {
	env := map[string]string{
		"VCAP_APPLICATION": vcap, "CF_INSTANCE_INDEX": "2", "CF_INSTANCE_GUID": "instance-guid",
		"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint,
		"OTEL_RELAY_BATCH_WAIT":       "1ms", "OTEL_RELAY_RETRY_PAUSE": "1ms", "OTEL_RELAY_STOP_TIMEOUT": "30s",
	}
	for i := 0; i+1 < len(more); i += 2 {
		env[more[i]] = more[i+1]
	}
	return func(name string) string { return env[name] }
}

// start runs a relay and returns its address, and a function that stops it.
func start(t *testing.T, getenv func(string) string) (*relay, string, func()) {
	t.Helper()
	r, err := configure(getenv)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.run(ctx, l) }()
	stop := sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the end: %v", err)
		}
	})
	t.Cleanup(stop)
	return r, "http://" + l.Addr().String(), stop
}

func post(t *testing.T, url, kind string, body []byte, want int, headers ...string) string {
	t.Helper()
	r, err := http.NewRequest(http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", kind)
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	client := &http.Client{Transport: &http.Transport{}, Timeout: time.Minute}
	defer client.CloseIdleConnections()
	answer, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(answer.Body)
	if answer.StatusCode != want {
		t.Errorf("%s: status %d %s, want %d", url, answer.StatusCode, text, want)
	}
	return string(text)
}

// TestAttributes sends spans in both encodings, with and without compression.
func TestAttributes(t *testing.T) {
	t.Parallel()
	c := newCollector(t)
	_, relay, stop := start(t, environment(c.URL, "OTEL_EXPORTER_OTLP_HEADERS", "Authorization=Bearer%20t, X-Other = 1",
		"OTEL_EXPORTER_OTLP_TRACES_HEADERS", "X-Other=2", "OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test"))
	own := []*common.KeyValue{text("service.name", "own"), text("cloudfoundry.app.name", "another"),
		{Key: "n", Value: &common.AnyValue{Value: &common.AnyValue_IntValue{IntValue: 7}}}}
	unknown := []*common.KeyValue{text("service.name", "unknown_service:go"), text("x", "y")}
	for _, isJSON := range []bool{false, true} {
		post(t, relay+"/v1/traces", contentType(isJSON), encode(t, spans(own, fmt.Sprint("own ", isJSON)), isJSON),
			http.StatusOK)
		post(t, relay+"/v1/traces", contentType(isJSON), encode(t, spans(unknown, fmt.Sprint("unknown ", isJSON)), isJSON),
			http.StatusOK)
		post(t, relay+"/v1/traces", contentType(isJSON), encode(t, spans(nil, fmt.Sprint("none ", isJSON)), isJSON),
			http.StatusOK)
	}
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, _ = z.Write(encode(t, spans(nil, "packed"), false))
	z.Close()
	post(t, relay+"/v1/traces", contentType(false), packed.Bytes(), http.StatusOK, "Content-Encoding", "gzip")
	stop()
	got := c.received()
	if len(got) != 7 {
		t.Fatalf("%d spans: %v", len(got), got)
	}
	for name, has := range got {
		want := map[string]string{
			"service.name": "shop", "service.instance.id": "instance-guid", "cloudfoundry.app.id": "app-guid",
			"cloudfoundry.app.name":        "shop",
			"cloudfoundry.app.instance.id": "2", "cloudfoundry.process.type": "web", "cloudfoundry.space.id": "space-guid",
			"cloudfoundry.space.name": "dev",
			"cloudfoundry.org.id":     "org-guid", "cloudfoundry.org.name": "demo", "deployment.environment.name": "test",
		}
		if strings.HasPrefix(name, "own") {
			want["service.name"], want["cloudfoundry.app.name"], want["n"] = "own", "another", ""
		}
		if strings.HasPrefix(name, "unknown") {
			want["x"] = "y"
		}
		if fmt.Sprint(has) != fmt.Sprint(want) {
			t.Errorf("%s: attributes\n%v, want\n%v", name, has, want)
		}
	}
	for _, m := range c.messages {
		for _, e := range m.(*trace.TracesData).GetResourceSpans() {
			if e.GetSchemaUrl() == "" || e.GetScopeSpans()[0].GetScope().GetName() != "test" ||
				e.GetScopeSpans()[0].GetSpans()[0].GetStartTimeUnixNano() != 1<<60 {
				t.Errorf("something is lost: %v", e)
			}
		}
	}
	for _, r := range c.requests {
		if r.Header.Get("Authorization") != "Bearer t" || r.Header.Get("X-Other") != "2" {
			t.Errorf("headers %v", r.Header)
		}
	}
}

// TestSignals sends metrics and logs too, and what is wrong.
func TestSignals(t *testing.T) {
	t.Parallel()
	c := newCollector(t)
	_, relay, stop := start(t, environment(c.URL, "OTEL_RELAY_MAX_REQUEST_BYTES", "2000",
		"OTEL_EXPORTER_OTLP_COMPRESSION", "none"))
	m := &metrics.MetricsData{ResourceMetrics: []*metrics.ResourceMetrics{
		{ScopeMetrics: []*metrics.ScopeMetrics{{Metrics: []*metrics.Metric{{Name: "requests"}}}}}}}
	l := &logs.LogsData{ResourceLogs: []*logs.ResourceLogs{
		{ScopeLogs: []*logs.ScopeLogs{{LogRecords: []*logs.LogRecord{{SeverityText: "INFO"}}}}}}}
	post(t, relay+"/v1/metrics", contentType(false), encode(t, m, false), http.StatusOK)
	if got := post(t, relay+"/v1/logs", contentType(true)+"; charset=utf-8", encode(t, l, true),
		http.StatusOK); got != "{}" {
		t.Errorf("the answer in JSON is %q", got)
	}
	good := encode(t, spans(nil, "a"), false)
	for _, x := range []struct {
		path, kind string
		body       []byte
		status     int
		headers    []string
		want       string
	}{
		{"/v1/traces", contentType(false), good[:len(good)-1], http.StatusBadRequest, nil, "no protobuf message"},
		{"/v1/traces", contentType(false), []byte("\xff\xff\xff\xff"), http.StatusBadRequest, nil, "no protobuf message"},
		{"/v1/traces", contentType(true), []byte(`{"resourceSpans": {}}`), http.StatusBadRequest, nil, "resourceSpans"},
		{"/v1/traces", contentType(true), []byte(`[`), http.StatusBadRequest, nil, "unexpected end"},
		{"/v1/traces", "text/plain", good, http.StatusUnsupportedMediaType, nil, "Content-Type"},
		{"/v1/traces", contentType(false), good, http.StatusBadRequest, []string{"Content-Encoding", "gzip"}, "gzip"},
		{"/v1/traces", contentType(false), good, http.StatusUnsupportedMediaType, []string{"Content-Encoding", "br"},
			"Content-Encoding"},
		{"/v1/traces", contentType(false), bytes.Repeat([]byte{8}, 3000), http.StatusRequestEntityTooLarge, nil, "2000"},
		{"/v1/traces", contentType(false), bomb(t), http.StatusRequestEntityTooLarge,
			[]string{"Content-Encoding", "gzip"}, "2000"},
		{"/v1/profiles", contentType(false), good, http.StatusNotFound, nil, ""},
	} {
		if got := post(t, relay+x.path, x.kind, x.body, x.status, x.headers...); !strings.Contains(got, x.want) {
			t.Errorf("%s %.20q: %s, want %q", x.path, x.body, got, x.want)
		}
	}
	stop()
	if len(c.messages) != 2 {
		t.Fatalf("%d messages", len(c.messages))
	}
	for _, m := range c.messages {
		if !strings.Contains(fmt.Sprint(m), "cloudfoundry.app.id") {
			t.Errorf("no attributes: %v", m)
		}
	}
}

// bomb returns a small body that decompresses to a large one.
func bomb(t *testing.T) []byte {
	t.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	_, _ = z.Write(make([]byte, 1<<20))
	z.Close()
	return out.Bytes()
}

// TestRetry has a collector that is busy at first, and refuses another request for good.
func TestRetry(t *testing.T) {
	t.Parallel()
	c := newCollector(t)
	c.answer = func(n int, w http.ResponseWriter) bool {
		switch n {
		case 1:
			w.Header().Set("Retry-After", "1")
			http.Error(w, "busy", http.StatusTooManyRequests)
		case 2:
			http.Error(w, "restarting", http.StatusServiceUnavailable)
		case 4:
			http.Error(w, "no such tenant", http.StatusBadRequest)
		default:
			return true
		}
		return false
	}
	r, relay, stop := start(t, environment(c.URL))
	begin := time.Now()
	post(t, relay+"/v1/traces", contentType(false), encode(t, spans(nil, "first"), false), http.StatusOK)
	for range 3 {
		<-c.got
	}
	if took := time.Since(begin); took < time.Second {
		t.Errorf("sent again after %s, although the collector asked for a second", took)
	}
	post(t, relay+"/v1/traces", contentType(false), encode(t, spans(nil, "a", "b"), false), http.StatusOK)
	<-c.got
	stop()
	if got := c.received(); len(got) != 1 || got["first"] == nil || r.sent.total() != 1 || len(c.requests) != 4 {
		t.Errorf("%d requests, received %v, sent %d", len(c.requests), got, r.sent.total())
	}
}

// TestFull fills the queue while the collector is down: the oldest items are dropped and
// counted, and the rest is sent when the app stops.
func TestFull(t *testing.T) {
	t.Parallel()
	c := newCollector(t)
	r, relay, stop := start(t, environment(c.URL, "OTEL_RELAY_QUEUE_BYTES", "5000", "OTEL_RELAY_BATCH_WAIT", "1h"))
	var sent []string
	for i := range 40 {
		sent = append(sent, fmt.Sprint("span ", i))
		post(t, relay+"/v1/traces", contentType(i%2 == 0), encode(t, spans(nil, sent[i]), i%2 == 0), http.StatusOK)
	}
	dropped := r.queue.takeDropped()["traces"]
	if r.queue.size > 5000 || dropped == 0 {
		t.Errorf("the queue has %d bytes, and dropped %d", r.queue.size, dropped)
	}
	stop()
	got := c.received()
	if len(got)+dropped != 40 || r.sent.total() != len(got) {
		t.Errorf("%d received and %d dropped of 40, sent %d", len(got), dropped, r.sent.total())
	}
	for _, name := range sent[dropped:] {
		if got[name] == nil {
			t.Errorf("%s is missing: not the oldest were dropped", name)
		}
	}
	// Many parts travel in one request, in order, as long as the encoding is the same.
	if len(c.requests) > len(got) {
		t.Errorf("%d requests for %d spans", len(c.requests), len(got))
	}
}

// TestStopWithoutCollector gives up in the time that there is.
func TestStopWithoutCollector(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	r, relay, stop := start(t, environment("http://"+l.Addr().String(), "OTEL_RELAY_STOP_TIMEOUT", "50ms",
		"OTEL_RELAY_RETRY_PAUSE", "1h", "OTEL_RELAY_GIVE_UP", "2h"))
	post(t, relay+"/v1/traces", contentType(false), encode(t, spans(nil, "a", "b"), false), http.StatusOK)
	stop()
	if n, _ := r.queue.ready("traces"); n != 0 || r.sent.total() != 0 {
		t.Errorf("%d bytes are left, %d sent", n, r.sent.total())
	}
}

// TestStopWhileWaiting stops the relay while it waits to send a request again.
func TestStopWhileWaiting(t *testing.T) {
	t.Parallel()
	c := newCollector(t)
	c.answer = func(n int, w http.ResponseWriter) bool {
		if n == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		return n > 1
	}
	r, relay, stop := start(t, environment(c.URL, "OTEL_RELAY_RETRY_PAUSE", "1h", "OTEL_RELAY_GIVE_UP", "2h"))
	post(t, relay+"/v1/traces", contentType(false), encode(t, spans(nil, "a", "b"), false), http.StatusOK)
	<-c.got
	stop()
	if got := c.received(); len(got) != 2 || r.sent.total() != 2 {
		t.Errorf("received %v, sent %d", got, r.sent.total())
	}
}

func TestBatches(t *testing.T) {
	t.Parallel()
	q := newQueue(1000)
	put := func(signal string, isJSON bool, size int) {
		body := bytes.Repeat([]byte{1}, size)
		if isJSON {
			body = joinJSON(signal, []json.RawMessage{[]byte(`{"a":"` + strings.Repeat("x", size) + `"}`)})
		}
		q.put(part{signal, isJSON, body, 1})
	}
	put("traces", false, 100)
	put("logs", false, 100)
	put("traces", false, 100)
	put("traces", false, 100)
	put("traces", true, 10)
	put("traces", true, 10)
	var got []string
	for {
		p := q.take("traces", 250)
		if p.body == nil {
			break
		}
		got = append(got, fmt.Sprint(p.items, p.json))
		if p.json && !json.Valid(p.body) {
			t.Errorf("%s", p.body)
		}
	}
	if want := []string{"2 false", "1 false", "2 true"}; !slices.Equal(got, want) || q.size != 100 {
		t.Errorf("batches %v, want %v; %d bytes left", got, want, q.size)
	}
	put("logs", false, 2000)
	if q.dropped["logs"] != 2 {
		t.Errorf("a part larger than the queue: %v", q.dropped)
	}
}

func TestPartial(t *testing.T) {
	t.Parallel()
	if n, text := rejected(appendField(nil, 1, append([]byte{8, 5}, appendField(nil, 2, []byte("too old"))...))); n != 5 ||
		text != "too old" {
		t.Errorf("%d %s", n, text)
	}
	now := time.Now().Truncate(time.Second)
	for text, want := range map[string]time.Duration{
		"": 0, "x": 0, "-1": 0, "7": 7 * time.Second, "99999999": longestAfter, now.Add(30 * time.Second).UTC().
			Format(http.TimeFormat): 30 * time.Second,
	} {
		if got := retryAfter(text, now); got != want {
			t.Errorf("Retry-After %q: %s, want %s", text, got, want)
		}
	}
}

func TestSettings(t *testing.T) {
	t.Parallel()
	for want, env := range map[string][]string{
		"OTEL_EXPORTER_OTLP_ENDPOINT is not set":    {"OTEL_EXPORTER_OTLP_ENDPOINT", ""},
		`"ftp://x/v1/logs" is no address`:           {"OTEL_EXPORTER_OTLP_ENDPOINT", "ftp://x"},
		"is this relay itself":                      {"OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318"},
		"must be an address of localhost":           {"OTEL_RELAY_LISTEN", "0.0.0.0:4318"},
		"OTEL_EXPORTER_OTLP_CERTIFICATE":            {"OTEL_EXPORTER_OTLP_CERTIFICATE", "/nowhere"},
		"OTEL_EXPORTER_OTLP_COMPRESSION is \"zip\"": {"OTEL_EXPORTER_OTLP_COMPRESSION", "zip"},
		"OTEL_EXPORTER_OTLP_TIMEOUT":                {"OTEL_EXPORTER_OTLP_TIMEOUT", "10s"},
		"VCAP_APPLICATION cannot be read":           {"VCAP_APPLICATION", "{"},
	} {
		if _, err := configure(environment("https://otel.example.org", env...)); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", env, err, want)
		}
	}
}

func FuzzProtobuf(f *testing.F) {
	out, err := proto.Marshal(spans([]*common.KeyValue{text("a", "b")}, "c"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(out)
	f.Add([]byte{10, 0})
	f.Fuzz(func(t *testing.T, body []byte) {
		out, items, err := addProtobuf(body, []attribute{{"k", "v"}})
		if err != nil {
			return
		}
		if _, again, err := addProtobuf(out, nil); err != nil || again != items {
			t.Errorf("%x: %x has %d items, %v, want %d", body, out, again, err, items)
		}
		// What the published code accepts is accepted with the attributes too.
		if proto.Unmarshal(body, new(trace.TracesData)) == nil {
			if err := proto.Unmarshal(out, new(trace.TracesData)); err != nil {
				t.Errorf("%x: %v", body, err)
			}
		}
	})
}
