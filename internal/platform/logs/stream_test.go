package logs_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	client "code.cloudfoundry.org/go-log-cache/v3"
	"code.cloudfoundry.org/go-log-cache/v3/rpc/logcache_v1"
	"code.cloudfoundry.org/go-loggregator/v10"
	"code.cloudfoundry.org/go-loggregator/v10/rpc/loggregator_v2"

	"ingot/internal/platform/logs"
	"ingot/internal/platform/logs/logstest"
)

// pour opens a stream.
func (d *desk) sendEnvelopes(query, bearer string) *sse {
	d.t.Helper()
	r, err := http.NewRequestWithContext(d.t.Context(), http.MethodGet, d.url+"/v2/read?"+query, nil)
	if err != nil {
		d.t.Fatal(err)
	}
	r.Header.Set("Authorization", "bearer "+bearer)
	answer, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(r)
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { answer.Body.Close() })
	if answer.StatusCode != http.StatusOK || answer.Header.Get("Content-Type") != "text/event-stream" {
		d.t.Fatalf("answer is %s %v, want 200 with an event stream", answer.Status, answer.Header)
	}
	return &sse{t: d.t, body: answer.Body, lines: bufio.NewReader(answer.Body)}
}

// texts are the lines of the next event.
func (s *sse) texts() (all []string) {
	s.t.Helper()
	var b struct {
		Batch []struct {
			SourceID string `json:"source_id"`
			Log      struct{ Payload []byte }
		}
	}
	if err := json.Unmarshal([]byte(s.event().data), &b); err != nil {
		s.t.Fatal(err)
	}
	for _, e := range b.Batch {
		all = append(all, e.SourceID+" "+string(e.Log.Payload))
	}
	return all
}

// The client library of the reverse log proxy's gateway reads lines and gauges.
func TestRealStreamClient(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.rename("one", "shop")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	c := loggregator.NewRLPGatewayClient(d.url, loggregator.WithRLPGatewayHTTPClient(bearer{d.token("x", "logs.admin"),
		&http.Transport{DisableKeepAlives: true}}))
	next := c.Stream(ctx, &loggregator_v2.EgressBatchRequest{ShardId: "mine", Selectors: []*loggregator_v2.Selector{
		{SourceId: "one", Message: &loggregator_v2.Selector_Log{Log: &loggregator_v2.LogSelector{}}},
		{SourceId: "one", Message: &loggregator_v2.Selector_Gauge{Gauge: &loggregator_v2.GaugeSelector{}}},
	}})
	gauge := next()
	if len(gauge) != 1 || gauge[0].GetGauge().GetMetrics()["cpu"].GetValue() != 12.5 || gauge[0].GetGauge().
		GetMetrics()["memory"].GetUnit() != "bytes" ||
		gauge[0].GetInstanceId() != "1" || gauge[0].GetTags()["app_name"] != "shop" ||
		gauge[0].GetTags()["process_id"] != "one-web" || gauge[0].GetTags()["source_type"] != "" {
		t.Fatalf("gauge is %v, want CPU 12.5 of instance 1 of shop", gauge)
	}
	logstest.Add(t, d.store, logstest.Line("two", "t", 1, logstest.T0, "of another app"),
		logstest.Line("one", "s", 1, logstest.T0, "hello"))
	lines := next()
	if len(lines) != 1 || string(lines[0].GetLog().GetPayload()) != "hello" || lines[0].GetTags()["app_name"] != "shop" ||
		lines[0].GetTags()["process_instance_id"] != "s" {
		t.Errorf("lines are %v, want hello of shop only", lines)
	}
}

// Container metrics are also in log-cache, once each.
func TestRealClientReadsGauges(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	c := client.NewClient(d.url, client.WithHTTPClient(bearer{d.token("x", "logs.admin"),
		&http.Transport{DisableKeepAlives: true}}))
	read := func(from time.Time) []*loggregator_v2.Envelope {
		t.Helper()
		got, err := c.Read(t.Context(), "a", from, client.WithEnvelopeTypes(logcache_v1.EnvelopeType_GAUGE))
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	first := read(time.Time{})
	if len(first) != 1 || first[0].GetGauge().GetMetrics()["disk"].GetValue() != 1<<21 {
		t.Fatalf("first read is %v, want one gauge with disk %d", first, 1<<21)
	}
	if again := read(time.Unix(0, first[0].GetTimestamp()+1)); len(again) != 0 {
		t.Errorf("measured again: %v", again)
	}
}

// The log-cache plugin's tail asks for envelopes of any type until the time of its request: the
// measurement that the request causes is among them, once.
func TestRealClientTails(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	c := client.NewClient(d.url, client.WithHTTPClient(bearer{d.token("x", "logs.admin"),
		&http.Transport{DisableKeepAlives: true}}))
	logstest.Add(t, d.store, logstest.Line("a", "s", 1, logstest.T0, "hello"))
	read := func(from time.Time) []*loggregator_v2.Envelope {
		t.Helper()
		got, err := c.Read(t.Context(), "a", from, client.WithEndTime(time.Now()),
			client.WithEnvelopeTypes(logcache_v1.EnvelopeType_ANY), client.WithLimit(10), client.WithDescending())
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	first := read(time.Time{})
	if len(first) != 2 || len(first[0].GetGauge().GetMetrics()) == 0 || string(first[1].GetLog().GetPayload()) != "hello" {
		t.Fatalf("got %v, want the measurement and the line", first)
	}
	if again := read(time.Unix(0, first[0].GetTimestamp()+1)); len(again) != 0 {
		t.Errorf("measured again: %v", again)
	}
}

// The firehose is for those who see everything; others name apps that they may
// read.
func TestWhoMayStream(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	anna := d.token("anna", "cloud_controller.read")
	for name, tc := range map[string]struct {
		query, bearer string
		status        int
		word          string
	}{
		"all":          {"log", anna, http.StatusNotFound, "not_found"},
		"empty source": {"log&source_id=", anna, http.StatusNotFound, "not_found"},
		"another's":    {"log&source_id=anna&source_id=bert", anna, http.StatusNotFound, "not_found"},
		"no token":     {"log", "", http.StatusUnauthorized, ""},
		"no scope":     {"log", d.token("x", "openid"), http.StatusForbidden, ""},
		"no query":     {"", anna, http.StatusBadRequest, "empty_query"},
		"no type":      {"source_id=anna", anna, http.StatusBadRequest, "missing_envelope_type"},
		"no name":      {"gauge.name=&source_id=anna", anna, http.StatusBadRequest, "missing_gauge_name"},
	} {
		if status, body := d.get("/v2/read?"+tc.query, tc.bearer); status != tc.status || tc.word != "" &&
			!strings.Contains(body, `"error":"`+tc.word+`"`) {
			t.Errorf("%s: answer is %d %s, want %d %s", name, status, body, tc.status, tc.word)
		}
	}
	mine := d.sendEnvelopes("log&source_id=anna", anna)
	all := d.sendEnvelopes("log", d.token("x", "doppler.firehose"))
	logstest.Add(t, d.store, logstest.Line("bert", "t", 1, logstest.T0, "his"),
		logstest.Line("anna", "s", 1, logstest.T0, "hers"))
	if got := fmt.Sprint(mine.texts()); got != "[anna hers]" {
		t.Errorf("hers: %s", got)
	}
	seen := map[string]bool{}
	for len(seen) < 2 {
		for _, line := range all.texts() {
			seen[line] = true
		}
	}
	if !seen["bert his"] || !seen["anna hers"] {
		t.Errorf("all: %v", seen)
	}
}

// Readers with one shard id share the lines among themselves only.
func TestShards(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	a, b := d.store.Readers().Hose(nil, "x"), d.store.Readers().Hose(nil, "x")
	other := d.store.Readers().Hose(nil, "y")
	alone := d.store.Readers().Hose([]string{"one"}, "")
	t.Cleanup(func() {
		for _, h := range []*logs.Hose{a, b, other, alone} {
			h.Close()
		}
	})
	for i := range 10 {
		logstest.Add(t, d.store, logstest.Line("one", "s", uint64(i+1), logstest.T0, fmt.Sprint(i)))
	}
	counts := []int{}
	for _, h := range []*logs.Hose{a, b, other, alone} {
		n, ctx := 0, t.Context()
		lines, dropped, err := h.Next(ctx)
		if n += len(lines); err != nil || dropped != 0 {
			t.Fatalf("%d dropped, %v, want none", dropped, err)
		}
		counts = append(counts, n)
	}
	if fmt.Sprint(counts) != "[5 5 10 10]" {
		t.Errorf("counts are %v, want [5 5 10 10]", counts)
	}
	b.Close()
	logstest.Add(t, d.store, logstest.Line("one", "s", 11, logstest.T0, "x"),
		logstest.Line("one", "s", 12, logstest.T0, "y"))
	if lines, _, err := a.Next(t.Context()); err != nil || len(lines) != 2 {
		t.Errorf("the last of a shard has %d lines, %v", len(lines), err)
	}
}

// A reader that does not keep up loses lines, is told how many, and keeps no one
// waiting.
func TestSlowStream(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	h := d.store.Readers().Hose(nil, "")
	defer h.Close()
	long := strings.Repeat("x", 100<<10)
	for i := range 30 {
		logstest.Add(t, d.store, logstest.Line("one", "s", uint64(i+1), logstest.T0, long))
	}
	lines, dropped, err := h.Next(t.Context())
	if err != nil || len(lines) != 10 || dropped != 20 {
		t.Fatalf("%d lines, %d dropped, %v, want 10 and 20", len(lines), dropped, err)
	}
	streams, lost := metrics(t, d.store)["ingot_log_streams"], metrics(t, d.store)["ingot_log_stream_lines_dropped_total"]
	if streams != 1 || lost != 20 {
		t.Errorf("%v streams with %v dropped lines are counted, want 1 and 20", streams, lost)
	}
	logstest.Add(t, d.store, logstest.Line("one", "s", 31, logstest.T0, "after"))
	if lines, dropped, err := h.Next(t.Context()); err != nil || len(lines) != 1 || dropped != 0 ||
		string(lines[0].Text) != "after" {
		t.Errorf("%d lines, %d dropped, %v, want only the line after", len(lines), dropped, err)
	}
}

// Streams are bounded for each caller, and one that ends makes room.
func TestStreamsOfOneCaller(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	anna := d.token("anna", "cloud_controller.read")
	var open []*sse
	for range 20 {
		open = append(open, d.sendEnvelopes("log&source_id=anna", anna))
	}
	if status, body := d.get("/v2/read?log&source_id=anna", anna); status != http.StatusTooManyRequests {
		t.Errorf("status %d, want %d: %s", status, http.StatusTooManyRequests, body)
	}
	d.sendEnvelopes("log&source_id=bert", d.token("bert", "cloud_controller.read"))
	open[0].body.Close()
	for {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, d.url+"/v2/read?log&source_id=anna", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "bearer "+anna)
		// until the server has noticed; the test's own time bounds it
		res, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(r)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode == http.StatusOK {
			return
		}
	}
}

// Names follow a rename at once: in what is read, old lines too, and in a tail
// and a stream that are open.
func TestNamesFollow(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.rename("u", "before")
	logstest.Add(t, d.store, logstest.Line("u", "s", 1, logstest.T0, "one"))
	tail := d.follow("/api/v1/tail/u?recent=1", "u", "")
	stream := d.sendEnvelopes("log&source_id=u", d.token("u", "cloud_controller.read"))
	named := func(data, name string) {
		t.Helper()
		for _, has := range []string{`"app_name":"` + name + `"`, `"process_id":"u-web"`, `"origin":"rep"`,
			`"job":"diego-cell"`, `"deployment":"test"`} {
			if !strings.Contains(data, has) {
				t.Errorf("%s is not in %s", has, data)
			}
		}
	}
	named(tail.event().data, "before")
	d.rename("u", "after")
	if got := d.read("u?envelope_types=LOG"); len(got) != 1 || got[0].Tags["app_name"] != "after" {
		t.Errorf("envelopes are %+v, want one with the app name after", got)
	}
	logstest.Add(t, d.store, logstest.Line("u", "s", 2, logstest.T0.Add(1), "two"))
	named(tail.event().data, "after")
	named(stream.event().data, "after")
}
