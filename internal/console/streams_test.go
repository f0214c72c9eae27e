package console

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// TestLogoutEndsStreams deletes the session of a live page.
func TestLogoutEndsStreams(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.api.HandleFunc("GET /v3/ingot/system", func(rw http.ResponseWriter, _ *http.Request) { fmt.Fprint(rw, `{"version":"1.2.3"}`) })
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.server.URL+"/console/live/system", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Cookie", sessionCookie+"="+w.cookie)
	resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() && !strings.Contains(lines.Text(), "1.2.3") {
	}
	if err := w.console.endSession(t.Context(), w.session.Hash); err != nil {
		t.Fatal(err)
	}
	for lines.Scan() { // until the end of the stream
	}
	if lines.Err() != nil {
		t.Error(lines.Err())
	}
}

// TestStreamLimit opens as many streams as a user may have, and one more.
func TestStreamLimit(t *testing.T) {
	t.Parallel()
	var s streams
	session := &Session{UserID: "anna", Hash: "one"}
	var ended atomic.Int32
	var leave []func()
	for range maxStreams {
		one, err := s.enter(session, func(error) { ended.Add(1) })
		if err != nil {
			t.Fatal(err)
		}
		leave = append(leave, one)
	}
	if _, err := s.enter(&Session{UserID: "anna", Hash: "two"}, func(error) {}); err == nil {
		t.Error("a user has more streams than allowed")
	}
	if _, err := s.enter(&Session{UserID: "ben", Hash: "three"}, func(error) {}); err != nil {
		t.Errorf("another user: %v", err)
	}
	s.end("one")
	if n := ended.Load(); n != maxStreams {
		t.Errorf("%d streams were ended", n)
	}
	for _, one := range leave {
		one()
	}
	if len(s.bySession) != 1 || len(s.byUser) != 1 {
		t.Errorf("left: %v, %v", s.bySession, s.byUser)
	}
}

// TestCharts reads the charts of an app once for as long as it is not measured again.
func TestCharts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var asked atomic.Int32
	w.api.HandleFunc("GET /api/v1/query_range", func(rw http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if q := r.URL.Query().Get("query"); q != `sum(cpu{source_id="the-app"})` && q != `sum(memory{source_id="the-app"})` {
			t.Errorf("the query is %s", q)
		}
		fmt.Fprint(rw, `{"status":"success","data":{"resultType":"matrix","result":[{"metric":{},"values":[[1,"10"],[2,"2048"]]}]}}`)
	})
	now := time.Now()
	w.console.now = func() time.Time { return now }
	read := func() charts {
		t.Helper()
		r, err := http.NewRequestWithContext(context.Background(), http.MethodGet, "/console/apps", nil)
		if err != nil {
			t.Fatal(err)
		}
		c, err := w.console.charts(w.console.platform(r, w.session), "the-app")
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	c := read()
	if c.CPU == nil || c.CPU.Label != "CPU: now 2048.0%, at most 2048.0%" || c.Memory == nil || c.Memory.Label != "Memory: now 2 KB, at most 2 KB" {
		t.Errorf("%+v, %+v", c.CPU, c.Memory)
	}
	read()
	if n := asked.Load(); n != 2 {
		t.Errorf("%d queries", n)
	}
	now = now.Add(sparkFor)
	read()
	if n := asked.Load(); n != 4 {
		t.Errorf("%d queries after a measurement", n)
	}
}
