package logs_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	client "code.cloudfoundry.org/go-log-cache/v3"
	"code.cloudfoundry.org/go-log-cache/v3/rpc/logcache_v1"
	"code.cloudfoundry.org/go-loggregator/v10/rpc/loggregator_v2"

	"ingot/internal/platform"
	"ingot/internal/platform/logs/logstest"
)

type bearer struct {
	token string
	base  http.RoundTripper
}

func (b bearer) Do(r *http.Request) (*http.Response, error) {
	r.Header.Set("Authorization", "bearer "+b.token)
	return b.base.RoundTrip(r)
}

// TestRealClient asks the client library that the cf program uses.
func TestRealClient(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	for i := range 250 {
		logstest.Add(t, d.store, platform.LogLine{App: "a", Time: logstest.T0.Add(time.Duration(i)), Source: "APP/PROC/WEB",
			Instance: "1", Text: []byte{byte(i)}, Stream: "s", Seq: uint64(i + 1), Stderr: i%2 == 1})
	}
	c := client.NewClient(d.url, client.WithHTTPClient(bearer{d.token("x", "logs.admin"),
		&http.Transport{DisableKeepAlives: true}}))
	got, err := c.Read(t.Context(), "a", time.Time{}, client.WithLimit(1000), client.WithDescending(),
		client.WithEnvelopeTypes(logcache_v1.EnvelopeType_LOG))
	if err != nil || len(got) != 250 || got[0].GetTimestamp() != logstest.T0.UnixNano()+249 {
		t.Fatalf("%d envelopes, %v, want 250, the newest first", len(got), err)
	}
	e := got[0]
	if e.GetLog().GetType() != loggregator_v2.Log_ERR || e.GetInstanceId() != "1" ||
		e.GetTags()["source_type"] != "APP/PROC/WEB" || e.GetLog().GetPayload()[0] != 249 {
		t.Errorf("envelope is %v, want payload 249 of APP/PROC/WEB instance 1 as ERR", e)
	}
	n := 0
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	client.Walk(ctx, "a", func(batch []*loggregator_v2.Envelope) bool {
		for _, e := range batch {
			if e.GetLog().GetPayload()[0] != byte(n) {
				t.Errorf("%v, want %d", e, n)
			}
			n++
		}
		return n < 250
	}, c.Read, client.WithWalkStartTime(logstest.T0), client.WithWalkLimit(33),
		client.WithWalkEnvelopeTypes(logcache_v1.EnvelopeType_LOG))
	if n != 250 {
		t.Errorf("walked %d", n)
	}
	meta, err := c.Meta(t.Context())
	if err != nil || meta["a"].GetCount() != 250 || meta["a"].GetOldestTimestamp() != logstest.T0.UnixNano() {
		t.Errorf("meta is %v, %v, want 250 lines, the oldest at %d", meta, err, logstest.T0.UnixNano())
	}
	if v, err := c.LogCacheVersion(t.Context()); err != nil || v.Major != 2 {
		t.Errorf("version is %v, %v, want major 2", v, err)
	}
}
