package logs_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	client "code.cloudfoundry.org/go-log-cache/v3"
	"github.com/coder/websocket"

	"ingot/internal/base/background"
	"ingot/internal/base/background/backgroundtest"
	"ingot/internal/platform/logs"
	"ingot/internal/platform/logs/logfiles"
	"ingot/internal/platform/logs/logstest"
	"ingot/internal/platform/logs/promql"
)

// newQueryDesk has a history, of which its Access is set late.
func newQueryDesk(t *testing.T) *desk {
	t.Helper()
	late := &lateAccess{}
	history := logs.NewHistory(late)
	d := newDeskWith(t, logs.Options{History: history}, logfiles.Options{})
	late.Access, d.history = d, history
	return d
}

type lateAccess struct{ logs.Access }

func TestHistory(t *testing.T) {
	t.Parallel()
	backgroundtest.Stress(t, func(*testing.T) background.Service { return logs.NewHistory(&lateAccess{}) })
}

// The client library of log-cache queries the gauges of an app. A query for an
// app that the caller may not read is refused.
func TestPromQL(t *testing.T) {
	t.Parallel()
	d := newQueryDesk(t)
	d.rename("one", "shop")
	c := client.NewClient(d.url, client.WithHTTPClient(bearer{d.token("x", "logs.admin"),
		&http.Transport{DisableKeepAlives: true}}))
	got, err := c.PromQL(t.Context(), `cpu{source_id="one"} * 2`)
	if err != nil {
		t.Fatal(err)
	}
	samples := got.GetVector().GetSamples()
	if len(samples) != 1 || samples[0].GetPoint().GetValue() != 25 || samples[0].GetMetric()["app_name"] != "shop" ||
		samples[0].GetMetric()["process_instance_id"] != "one-i" {
		t.Errorf("got %v, want CPU 25 of shop", samples)
	}
	now := time.Now()
	ranged, err := c.PromQLRange(t.Context(), `sum(memory{source_id="one"})`,
		client.WithPromQLStart(now.Add(-time.Minute)), client.WithPromQLEnd(now.Add(time.Minute)),
		client.WithPromQLStep("30s"))
	if err != nil {
		t.Fatal(err)
	}
	series := ranged.GetMatrix().GetSeries()
	if len(series) != 1 || len(series[0].GetPoints()) == 0 || series[0].GetPoints()[0].GetValue() != 1<<20 {
		t.Errorf("got %v, want a series of memory", series)
	}
	admin, mine := d.token("x", "logs.admin"), d.token("me", "cloud_controller.read")
	for _, x := range []struct {
		path, bearer string
		status       int
		has          string
	}{
		{"/api/v1/query?query=" + url.QueryEscape(`cpu`), admin, 400, "does not have a 'source_id' label"},
		{"/api/v1/query?query=" + url.QueryEscape(`cpu{source_id="one"}`) + "&time=x", admin, 400, "valid timestamp"},
		{"/api/v1/query?query=" + url.QueryEscape(`cpu{source_id="one"}`) + "&time=1", admin, 200, `"result":[]`},
		{"/api/v1/query?query=" + url.QueryEscape(`cpu{source_id="one"} + cpu{source_id="foreign"}`), mine, 404, ""},
		{"/api/v1/query_range?query=" + url.QueryEscape(`cpu{source_id="one"}`) + "&start=1&end=2", admin, 400,
			"valid duration"},
		{"/api/v1/query_range?query=" + url.QueryEscape(`cpu{source_id="one"}`) + "&start=1&end=20000000&step=1", admin, 400,
			"exceeded maximum resolution"},
		{"/api/v1/query?query=" + url.QueryEscape(`cpu{source_id="one"}`), d.token("x", "openid"), 403, ""},
	} {
		if status, body := d.get(x.path, x.bearer); status != x.status || !strings.Contains(body, x.has) {
			t.Errorf("%s: %d %s, want %d %s", x.path, status, body, x.status, x.has)
		}
	}
	status, body := d.get("/api/v1/query?query="+url.QueryEscape(`cpu{source_id="one"}`), admin)
	var answer struct {
		Status string
		Data   struct {
			ResultType string
			Result     []struct{ Value [2]any }
		}
	}
	if err := json.Unmarshal([]byte(body), &answer); err != nil || status != 200 || answer.Status != "success" ||
		answer.Data.ResultType != "vector" || answer.Data.Result[0].Value[1] != "12.5" {
		t.Errorf("the answer is %d %s, %v", status, body, err)
	}
}

// past has one sample of a process and one of an instance for every metric.
type past struct{}

func (past) Select(_ context.Context, _, metric string, from, _ time.Time) ([]promql.Series, error) {
	if metric == "crashes_total" {
		return nil, promql.ErrTooMuch
	}
	at := []promql.Sample{{Time: from.Add(time.Minute), Value: 7}}
	return []promql.Series{
		{Labels: map[string]string{"process_type": "web", "status": metric}, Samples: at},
		{Labels: map[string]string{"process_type": "web", "instance_id": "3"}, Samples: at},
	}, nil
}

// TestPromQLPast: metrics that only the history has, and times before those that are measured here, come from
// the history, with the tags of the app.
func TestPromQLPast(t *testing.T) {
	t.Parallel()
	d := newQueryDesk(t)
	d.history.Past = past{}
	d.rename("one", "shop")
	for text, want := range map[string]string{
		`sum_over_time(http_requests_total{source_id="one",status="http_requests_total"}[5m])`: `"7"`,
		`sum_over_time(cpu{source_id="one",instance_id="3"}[1h])`:                              `"7"`,
		`cpu{source_id="one"}`:          `"12.5"`,
		`memory_quota{source_id="one"}`: `"result":[]`,
	} {
		status, body := d.get("/api/v1/query?query="+url.QueryEscape(text), d.token("x", "logs.admin"))
		if status != 200 || !strings.Contains(body, want) {
			t.Errorf("%s: %d %s, want %s", text, status, body, want)
		}
		if strings.Contains(want, "7") && (!strings.Contains(body, `"app_name":"shop"`) || strings.Contains(body, "source_type") ||
			strings.Contains(body, `"instance_id":""`)) {
			t.Errorf("%s has other tags: %s", text, body)
		}
	}
	for _, path := range []string{"/api/v1/query?query=", "/api/v1/query_range?start=1&end=60&step=30&query="} {
		path += url.QueryEscape(`crashes_total{source_id="one"}`)
		if status, body := d.get(path, d.token("x", "logs.admin")); status != 400 || !strings.Contains(body, "samples") {
			t.Errorf("%s that reads too much: %d %s, want 400", path, status, body)
		}
	}
}

// fieldsOf returns the fields of a protocol buffer: texts by number, and numbers as texts.
func fieldsOf(t *testing.T, b []byte) map[uint64][]string {
	t.Helper()
	out := map[uint64][]string{}
	for len(b) > 0 {
		key, n := binary.Uvarint(b)
		b = b[n:]
		v, n := binary.Uvarint(b)
		switch key & 7 {
		case 0:
			b = b[n:]
			out[key>>3] = append(out[key>>3], string(binary.AppendUvarint(nil, v)))
		case 1:
			out[key>>3] = append(out[key>>3], string(b[:8]))
			b = b[8:]
		case 2:
			b = b[n:]
			out[key>>3] = append(out[key>>3], string(b[:v]))
			b = b[v:]
		default:
			t.Fatalf("field %d has wire type %d", key>>3, key&7)
		}
	}
	return out
}

// Nozzles read lines and gauges from WebSockets.
func TestFirehose(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.rename("one", "shop")
	dial := func(path, bearer string) (*websocket.Conn, *http.Response, error) {
		return websocket.Dial(t.Context(), "ws"+strings.TrimPrefix(d.url, "http")+path, &websocket.DialOptions{
			HTTPHeader: http.Header{"Authorization": {"bearer " + bearer}, "Origin": {"http://localhost"}},
		})
	}
	for _, path := range []string{"/firehose/nozzle", "/apps/one/stream"} {
		c, _, err := dial(path, d.token("x", "doppler.firehose"))
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		t.Cleanup(func() { _ = c.CloseNow() })
		next := func(kind byte) map[uint64][]string {
			t.Helper()
			for {
				_, message, err := c.Read(t.Context())
				if err != nil {
					t.Fatalf("%s: %v", path, err)
				}
				if f := fieldsOf(t, message); f[2][0] == string([]byte{kind}) {
					return f
				}
			}
		}
		gauge := fieldsOf(t, []byte(next(9)[12][0]))
		if gauge[1][0] != "one" || gauge[2][0] != "\x01" || gauge[3][0] != "\x00\x00\x00\x00\x00\x00\x29\x40" {
			t.Errorf("%s: the gauge is %v, want CPU 12.5 of instance 1", path, gauge)
		}
		logstest.Add(t, d.store, logstest.Line("one", "s"+path, 1, logstest.T0, "hello "+path))
		envelope := next(5)
		line := fieldsOf(t, []byte(envelope[8][0]))
		if line[1][0] != "hello "+path || line[4][0] != "one" || !strings.HasPrefix(line[5][0], "APP/PROC/") ||
			envelope[13][0] != "test" {
			t.Errorf("%s: the line is %v of %v", path, line, envelope)
		}
	}
	for path, want := range map[string]int{"/firehose/nozzle": 403, "/apps/foreign/stream": 404} {
		_, answer, err := dial(path, d.token("me", "cloud_controller.read"))
		if err == nil || answer == nil || answer.StatusCode != want {
			t.Errorf("%s: %v, want status %d", path, err, want)
		}
	}
	if status, body := d.get("/firehose/x", d.token("x", "logs.admin")); status != 400 ||
		!strings.Contains(body, "Upgrade") {
		t.Errorf("without an upgrade: %d %s", status, body)
	}
}
