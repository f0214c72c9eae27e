package e2e

import (
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	coltracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"ingot/internal/base/testkit"
	"ingot/internal/platform/services/brokertest"
)

// collector is an OpenTelemetry collector that decodes requests with OpenTelemetry's own types.
type collector struct {
	mu       sync.Mutex
	spans    []*tracepb.Span
	resource map[string]string
	bad      string
}

func startCollector(t *testing.T) (*collector, string) {
	t.Helper()
	c := &collector{resource: map[string]string{}}
	server := httptest.NewServer(c)
	t.Cleanup(server.Close)
	return c, server.URL
}

func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var got coltracepb.ExportTraceServiceRequest
	if err == nil {
		err = proto.Unmarshal(body, &got)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil || r.URL.Path != "/v1/traces" || r.Header.Get("Authorization") != "Bearer otlp-secret" ||
		len(got.ProtoReflect().GetUnknown()) > 0 {
		c.bad = r.URL.Path + " " + r.Header.Get("Authorization")
		http.Error(w, "bad", http.StatusBadRequest)
		return
	}
	for _, resource := range got.ResourceSpans {
		for _, a := range resource.Resource.Attributes {
			c.resource[a.Key] = a.Value.GetStringValue()
		}
		for _, scope := range resource.ScopeSpans {
			if !strings.HasPrefix(scope.Scope.GetName(), "ingot/") {
				c.bad = "scope " + scope.Scope.GetName()
			}
			c.spans = append(c.spans, scope.Spans...)
		}
	}
}

// find waits for a span.
func (c *collector) find(t *testing.T, what string, match func(*tracepb.Span) bool) *tracepb.Span {
	t.Helper()
	var found *tracepb.Span
	testkit.Eventually(t, "there is a span of "+what, func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, s := range c.spans {
			if match(s) {
				found = s
				return true
			}
		}
		return false
	})
	return found
}

// named returns a match for the name of a span, and the trace unless that is empty.
func named(name, trace string) func(*tracepb.Span) bool {
	return func(s *tracepb.Span) bool {
		return s.Name == name && (trace == "" || hex.EncodeToString(s.TraceId) == trace)
	}
}

func attribute(s *tracepb.Span, key string) string {
	for _, a := range s.Attributes {
		if a.Key == key {
			return a.Value.GetStringValue()
		}
	}
	return ""
}

// childOf checks that a span is a child of another.
func childOf(t *testing.T, s, parent *tracepb.Span) {
	t.Helper()
	if string(s.TraceId) != string(parent.TraceId) || string(s.ParentSpanId) != string(parent.SpanId) ||
		s.StartTimeUnixNano == 0 || s.EndTimeUnixNano < s.StartTimeUnixNano {
		t.Errorf("%q is not a child of %q:\n%v\n%v", s.Name, parent.Name, s, parent)
	}
}

// TestSignals follows requests through a server that runs apps, with the real cf: by spans that
// a collector gets, and by the ids of requests in the log. Then it evaluates the alert rules and the
// dashboard with the server's metrics.
func TestSignals(t *testing.T) { //nolint:tparallel // one part after another, on the same server
	t.Parallel()
	c, url := startCollector(t)
	b := brokertest.New(t, &brokertest.Broker{})
	s := startApps(t, options{
		// whose request ids count
		Engine: "process", Args: []string{"--log-level", "debug", "--trusted-proxies", "127.0.0.0/8"},
		Env: []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + url, "INGOT_OTLP_HEADERS=Authorization=Bearer%20otlp-secret"},
	})
	t.Cleanup(func() { s.emptySpace(t) })
	before := string(s.call(t, http.MethodGet, s.Admin+"/metrics", "", nil).want(t, http.StatusOK).Body)
	home := s.admin(t)
	// The binary buildpack alone runs no program.
	cfOK(t, home, pushProbe(t, "signals", "-b", "staticfile_buildpack", "-b", "binary_buildpack")...)
	app := guid(t, home, "signals")

	t.Run("push", func(t *testing.T) { pushIsTraced(t, c, app) })           //nolint:paralleltest // one after another
	t.Run("request", func(t *testing.T) { requestIsTraced(t, s, c, app) })  //nolint:paralleltest // one after another
	t.Run("build", func(t *testing.T) { buildKeepsID(t, s, c, app) })       //nolint:paralleltest // one after another
	t.Run("broker", func(t *testing.T) { brokerKeepsID(t, s, c, home, b) }) //nolint:paralleltest // one after another
	t.Run("mail", func(t *testing.T) { mailKeepsID(t, s, c) })              //nolint:paralleltest // one after another
	t.Run("ready", func(t *testing.T) { readyWithReasons(t, s) })           //nolint:paralleltest // one after another
	if c.bad != "" {
		t.Errorf("the collector got a bad request: %s", c.bad)
	}
	if c.resource["service.name"] != "ingot" || c.resource["service.version"] == "" {
		t.Errorf("the resource is %v", c.resource)
	}
	for _, secret := range []string{"otlp-secret", s.secret(t, "admin-password"), brokertest.Password} {
		if strings.Contains(s.Stderr.String(), secret) {
			t.Errorf("the log contains a secret")
		}
	}
	now := string(s.call(t, http.MethodGet, s.Admin+"/metrics", "", nil).want(t, http.StatusOK).Body)
	t.Run("alerts", func(t *testing.T) { rulesHold(t, before, now) }) //nolint:paralleltest // one after another
	t.Run("dashboard", func(t *testing.T) { dashboardHolds(t, now) }) //nolint:paralleltest // one after another
}

// pushIsTraced looks for the spans of the build that cf push made.
func pushIsTraced(t *testing.T, c *collector, app string) {
	build := c.find(t, "the build", func(s *tracepb.Span) bool {
		return s.Name == "build" &&
			attribute(s, "cloudfoundry.app.id") == app
	})
	api := c.find(t, "the request", named("POST /v3/builds", hex.EncodeToString(build.TraceId)))
	childOf(t, build, api)
	if attribute(api, "user.id") == "" || strings.Contains(api.String(), "admin") {
		t.Errorf("the user has a guid, and no name, got %v", api)
	}
	for _, phase := range []string{"prepare", "run buildpacks", "store droplet"} {
		childOf(t, c.find(t, phase, named(phase, hex.EncodeToString(build.TraceId))), build)
	}
}

// requestIsTraced sends a request with a traceparent, and one without, to an app.
func requestIsTraced(t *testing.T, s *site, c *collector, app string) {
	const trace, caller = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
	to := header{"Host", "signals.apps.localhost"}
	s.call(t, http.MethodGet, s.API+"/where?token=query-secret", "", nil, to,
		header{"Traceparent", "00-" + trace + "-" + caller + "-01"}).want(t, http.StatusOK)
	got := c.find(t, "the router", named("GET signals.apps.localhost", trace))
	if hex.EncodeToString(got.ParentSpanId) != caller || attribute(got, "cloudfoundry.app.id") != app ||
		attribute(got, "url.path") != "/where" ||
		got.Kind != tracepb.Span_SPAN_KIND_SERVER || strings.Contains(got.String(), "query-secret") {
		t.Errorf("got %v, want a child of %s", got, caller)
	}
	// The client does not want this one to be recorded; the next one is.
	s.call(t, http.MethodGet, s.API+"/where", "", nil, to, header{"Traceparent", "00-11112f3577b34da6a3ce929d0e0e4736-" +
		caller + "-00"}).want(t, http.StatusOK)
	id := s.call(t, http.MethodGet, s.API+"/where", "", nil, to).want(t, http.StatusOK).Header.Get("X-Vcap-Request-Id")
	fresh := c.find(t, "a request without a trace", named("GET signals.apps.localhost", strings.ReplaceAll(id, "-", "")))
	if len(fresh.ParentSpanId) != 0 || attribute(fresh, "vcap.request_id") != id {
		t.Errorf("got %v, want a root with the id of the request", fresh)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, one := range c.spans {
		if strings.HasPrefix(hex.EncodeToString(one.TraceId), "1111") {
			t.Errorf("recorded against the client's decision: %v", one)
		}
	}
}

// logged waits for a line of the server's log with an id and a message.
func (s *site) serverLogged(t *testing.T, id, message string) {
	t.Helper()
	testkit.Eventually(t, "the log has "+message+" with the id "+id, func() bool {
		for line := range strings.Lines(s.Stderr.String()) {
			var entry struct {
				Msg     string
				Request string `json:"request_id"`
			}
			if json.Unmarshal([]byte(line), &entry) == nil && entry.Request == id && entry.Msg == message {
				return true
			}
		}
		return false
	})
}

// buildKeepsID creates a build with an id: its lines have it.
func buildKeepsID(t *testing.T, s *site, c *collector, app string) {
	token := s.adminToken(t)
	pkg := s.list(t, token, "/v3/apps/"+app+"/packages")[0]["guid"]
	const id = "e2e-build-1"
	r := s.call(t, http.MethodPost, "/v3/builds", token, map[string]any{"package": map[string]any{"guid": pkg}},
		header{"X-Vcap-Request-Id", id}).want(t, http.StatusCreated)
	if got := r.Header.Get("X-Vcap-Request-Id"); got != id {
		t.Errorf("the response has the id %q, want %q", got, id)
	}
	s.serverLogged(t, id, "request")
	s.serverLogged(t, id, "a build begins")
	build := r.object(t)["guid"].(string)
	childOf(t, c.find(t, "the build", func(s *tracepb.Span) bool { return attribute(s, "ingot.build.id") == build }),
		c.find(t, "the request", func(s *tracepb.Span) bool { return attribute(s, "vcap.request_id") == id }))
}

// brokerKeepsID creates a service instance with the id that other proxies send: the broker gets
// it, and the trace.
func brokerKeepsID(t *testing.T, s *site, c *collector, home string, b *brokertest.Broker) {
	cfOK(t, home, "create-service-broker", "signals", brokertest.Username, brokertest.Password, b.URL)
	cfOK(t, home, "enable-service-access", "fake")
	token := s.adminToken(t)
	space := s.list(t, token, "/v3/spaces?names=dev")[0]["guid"]
	plan := s.list(t, token, "/v3/service_plans?names=sync&service_broker_names=signals")[0]["guid"]
	const id = "e2e-broker-1"
	s.call(t, http.MethodPost, "/v3/service_instances", token, map[string]any{
		"type": "managed", "name": "signals", "relationships": map[string]any{
			"space":        map[string]any{"data": map[string]any{"guid": space}},
			"service_plan": map[string]any{"data": map[string]any{"guid": plan}},
		},
	}, header{"X-Request-Id", id}).want(t, http.StatusAccepted)
	testkit.Eventually(t, "the broker is called", func() bool { return len(b.Requests("provision")) == 1 })
	h := b.Requests("provision")[0].Header
	if h.Get("X-Broker-Api-Request-Identity") != id || h.Get("X-Vcap-Request-Id") != id {
		t.Errorf("the broker gets %v, want the id %s", h, id)
	}
	call := c.find(t, "the call", named("broker provision", ""))
	childOf(t, call, c.find(t, "the request", func(s *tracepb.Span) bool {
		return attribute(s, "vcap.request_id") == id && s.Name == "POST /v3/service_instances"
	}))
	if want := "00-" + hex.EncodeToString(call.TraceId) + "-" + hex.EncodeToString(call.SpanId) +
		"-01"; h.Get("Traceparent") != want {
		t.Errorf("the broker gets the traceparent %q, want %q", h.Get("Traceparent"), want)
	}
	testkit.Eventually(t, "the instance is created", func() bool {
		last, _ := s.list(t, token, "/v3/service_instances?names=signals")[0]["last_operation"].(map[string]any)
		return last["state"] == "succeeded"
	})
	cfOK(t, home, "delete-service", "signals", "-f", "--wait")
}

// mailKeepsID sends a message with an id: its delivery has it.
func mailKeepsID(t *testing.T, s *site, c *collector) {
	s.call(t, http.MethodPost, "/oauth/clients", s.adminToken(t), map[string]any{
		"client_id": "signals", "client_secret": "signals-secret", "authorized_grant_types": "client_credentials",
		"authorities": []string{"emails.write"},
	}).want(t, http.StatusCreated)
	const id = "e2e-mail-1"
	s.call(t, http.MethodPost, s.Notifications+"/emails", s.clientToken(t, "signals", "signals-secret"),
		map[string]any{"to": "someone@example.com", "subject": "Signals", "text": "Hello"}, header{"X-Vcap-Request-Id", id}).
		want(t, http.StatusOK)
	s.serverLogged(t, id, "message attempted")
	attempt := c.find(t, "the attempt", func(s *tracepb.Span) bool {
		return s.Name == "deliver message" && attribute(s, "vcap.request_id") == id
	})
	childOf(t, attempt, c.find(t, "the send", named("POST /emails", hex.EncodeToString(attempt.TraceId))))
	if strings.Contains(attempt.String(), "someone@") {
		t.Errorf("a span contains an address: %v", attempt)
	}
}

// readyWithReasons asks for the state of every part.
func readyWithReasons(t *testing.T, s *site) {
	var answer struct {
		Status string
		Parts  []struct{ Name, State, Reason string }
	}
	for _, address := range []string{s.API, s.Admin, s.Notifications} {
		s.call(t, http.MethodGet, address+"/readyz?verbose", "", nil).want(t, http.StatusOK).into(t, &answer)
		if answer.Status != "ok" || len(answer.Parts) != 7 {
			t.Errorf("%s: got %+v, want 7 parts", address, answer)
		}
		for _, p := range answer.Parts {
			if p.State != "ready" || p.Reason != "" {
				t.Errorf("%s: got %+v", address, p)
			}
		}
	}
}
