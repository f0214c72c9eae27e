package logs_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"ingot/internal/base/web"
	"ingot/internal/platform"
	"ingot/internal/platform/logs"
	"ingot/internal/platform/logs/logfiles"
	"ingot/internal/platform/logs/logstest"
)

// sseEvent is one event of a stream; comments have only a comment.
type sseEvent struct {
	name, data, comment string
	id                  uint64
}

func (e sseEvent) text(t testing.TB) string {
	t.Helper()
	var got envelope
	d := json.NewDecoder(strings.NewReader(e.data))
	d.DisallowUnknownFields()
	if err := d.Decode(&got); err != nil {
		t.Fatalf("%q: %v", e.data, err)
	}
	return got.Tags["source_type"] + "/" + got.InstanceID + " " + string(got.Log.Payload)
}

// sse reads a stream of events, as a browser does.
type sse struct {
	t     testing.TB
	body  io.Closer
	lines *bufio.Reader
	// begins is the number of the line before the first.
	begins uint64
}

func (d *desk) follow(path, user, last string) *sse {
	d.t.Helper()
	return d.followAs(path, d.token(user, "cloud_controller.read"), last)
}

func (d *desk) followAs(path, bearer, last string) *sse {
	d.t.Helper()
	r, err := http.NewRequestWithContext(d.t.Context(), http.MethodGet, d.url+path, nil)
	if err != nil {
		d.t.Fatal(err)
	}
	r.Header.Set("Authorization", "bearer "+bearer)
	if last != "" {
		r.Header.Set("Last-Event-ID", last)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Do(r)
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { answer.Body.Close() })
	if kind := answer.Header.Get("Content-Type"); answer.StatusCode != http.StatusOK ||
		kind != "text/event-stream; charset=utf-8" {
		d.t.Fatalf("answer is %s of type %q, want 200 with an event stream", answer.Status, kind)
	}
	s := &sse{t: d.t, body: answer.Body, lines: bufio.NewReader(answer.Body)}
	first, err := s.next()
	if err != nil || first.comment != "connected" {
		d.t.Fatalf("first event is %+v, %v, want connected", first, err)
	}
	s.begins = first.id
	return s
}

func (s *sse) next() (e sseEvent, err error) {
	for {
		text, err := s.lines.ReadString('\n')
		if err != nil {
			return e, err
		}
		name, value, _ := strings.Cut(strings.TrimSuffix(text, "\n"), ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case text == "\n":
			return e, nil
		case name == "":
			e.comment = value
		case name == "id":
			e.id, err = strconv.ParseUint(value, 10, 64)
			if err != nil {
				return e, err
			}
		case name == "event":
			e.name = value
		case name == "data":
			e.data = value
		}
	}
}

// event is the next one that is no heartbeat.
func (s *sse) event() sseEvent {
	s.t.Helper()
	for {
		e, err := s.next()
		if err != nil {
			s.t.Fatal(err)
		}
		if e.data != "" {
			return e
		}
	}
}

func TestLiveTail(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	logstest.Fill(t, d.store, "u", 0, 10)
	live := d.follow("/api/v1/tail/u", "u", "")
	recent := d.follow("/api/v1/tail/u?recent=2", "u", "")
	since := d.follow("/api/v1/tail/u?start_time="+strconv.FormatInt(logstest.T0.UnixNano()+7, 10), "u", "")
	logstest.Fill(t, d.store, "u", 10, 12)
	for name, tc := range map[string]struct {
		s    *sse
		want uint64
	}{"live": {live, 11}, "recent": {recent, 9}, "since": {since, 8}} {
		for want := tc.want; want <= 12; want++ {
			e := tc.s.event()
			if text := e.text(t); e.id != want || text != fmt.Sprintf("APP/PROC/WEB/0 %040d", want-1) || e.name != "" {
				t.Errorf("%s: %d %s, want %d", name, e.id, text, want)
			}
		}
	}
}

// A reader that is cut off again and again, and gives its last id each time,
// sees every line once.
func TestTailResumes(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	const total = 3000
	go logstest.Fill(t, d.store, "u", 0, total)
	last := uint64(0)
	for cut := uint64(1); last < total; cut = cut*2 + 7 {
		s := d.follow("/api/v1/tail/u", "u", strconv.FormatUint(last, 10))
		for n := uint64(0); n < cut && last < total; n++ {
			e := s.event()
			if text := e.text(t); e.id != last+1 || text != fmt.Sprintf("APP/PROC/WEB/0 %040d", last) {
				t.Fatalf("%d %s after %d", e.id, text, last)
			}
			last++
		}
		s.body.Close()
	}
}

func TestTailFilters(t *testing.T) {
	t.Parallel()
	d := newDeskWith(t, logs.Options{Heartbeat: 20 * time.Millisecond}, logfiles.Options{})
	var all []platform.LogLine
	for i, source := range []string{"APP/PROC/WEB", "RTR", "APP/PROC/WORKER", "APPLE", "LGR", "RTR"} {
		all = append(all, platform.LogLine{App: "u", Time: logstest.T0.Add(time.Duration(i)), Source: source,
			Instance: strconv.Itoa(i), Text: []byte("x")})
	}
	logstest.Add(t, d.store, all...)
	for query, want := range map[string][]string{
		"exclude_source_types=RTR": {"APP/PROC/WEB/0 x", "APP/PROC/WORKER/2 x", "APPLE/3 x", "LGR/4 x"},
		"source_types=app":         {"APP/PROC/WEB/0 x", "APP/PROC/WORKER/2 x", "LGR/4 x"},
		"source_types=APP,RTR&exclude_source_types=LGR,APP/PROC/WEB": {"RTR/1 x", "APP/PROC/WORKER/2 x", "RTR/5 x"},
		"envelope_types=COUNTER":                                     {},
		"envelope_types=LOG&source_types=APPLE":                      {"APPLE/3 x", "LGR/4 x"},
	} {
		s := d.follow("/api/v1/tail/u?recent=100&"+query, "u", "")
		var got []string
		// A heartbeat carries the id of the last line, seen or not.
		for last := uint64(0); last < 6; {
			e, err := s.next()
			if err != nil {
				t.Fatal(err)
			}
			last = max(last, e.id)
			if e.data != "" {
				got = append(got, e.text(t))
			}
		}
		if strings.Join(got, ",") != strings.Join(want, ",") {
			t.Errorf("%s: %q, want %q", query, got, want)
		}
	}
}

// A reader that does not read delays no other reader, and learns what it missed.
func TestTailSlowReader(t *testing.T) {
	t.Parallel()
	d := newDeskWith(t, logs.Options{}, logfiles.Options{PerAppBytes: 256 << 10})
	address := strings.TrimPrefix(d.url, "http://")
	c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.(*net.TCPConn).SetReadBuffer(128 << 10); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(c, "GET /api/v1/tail/u HTTP/1.0\r\nHost: x\r\nAuthorization: bearer %s\r\n\r\n",
		d.token("u", "cloud_controller.read"))
	s := &sse{t: t, body: c, lines: bufio.NewReader(c)}
	for {
		e, err := s.next()
		if err != nil {
			t.Fatal(err)
		}
		if e.comment == "connected" {
			break
		}
	}
	// More than all buffers on the way hold, without a reader.
	const total = 50000
	logstest.Fill(t, d.store, "u", 0, total)
	last, missed := uint64(0), uint64(0)
	for last < total {
		e := s.event()
		if e.name == "missed" {
			n := e.id - last
			missed += n
			if text := e.text(t); text != fmt.Sprintf(
				"LGR/0 %d lines are not shown: this reader was too slow, and they have been dropped to make room", n) {
				t.Fatalf("%s after %d", text, last)
			}
		} else if e.id != last+1 {
			t.Fatalf("%d after %d", e.id, last)
		}
		last = e.id
	}
	if missed == 0 {
		t.Error("nothing was missed: the test shows nothing")
	}
}

// Who is cut off before the first line came knows where to go on, too.
func TestTailResumesFromNothing(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	logstest.Fill(t, d.store, "u", 0, 10)
	s := d.follow("/api/v1/tail/u", "u", "")
	s.body.Close()
	logstest.Fill(t, d.store, "u", 10, 12)
	if e := d.follow("/api/v1/tail/u", "u", strconv.FormatUint(s.begins, 10)).event(); e.id != 11 {
		t.Errorf("it goes on with line %d: %s", e.id, e.text(t))
	}
}

func TestTailEnds(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	deleted := d.follow("/api/v1/tail/u", "u", "")
	logstest.Add(t, d.store, logstest.Line("u", "", 0, logstest.T0, "x"))
	if err := d.store.DeleteApp("u"); err != nil {
		t.Fatal(err)
	}
	for {
		e := deleted.event()
		if e.name == "end" {
			if e.data != `{"reason":"the app was deleted"}` {
				t.Errorf("end is %s, want the deleted app as its reason", e.data)
			}
			break
		}
	}
	if e, err := deleted.next(); err == nil {
		t.Errorf("after the end: %+v", e)
	}
	// A stopping server waits for requests, but not for these.
	open := d.follow("/api/v1/tail/u", "u", "")
	stopped := make(chan struct{})
	go func() {
		d.server.Stop()
		close(stopped)
	}()
	if e, err := open.next(); err == nil {
		t.Errorf("event is %+v, want the end of the stream", e)
	}
	<-stopped
	if n := metrics(t, d.store)["ingot_log_tails"]; n != 0 {
		t.Errorf("%v tails are left, want none", n)
	}
}

// A stream outlives the deadlines that other requests have.
func TestTailOutlivesDeadlines(t *testing.T) {
	t.Parallel()
	limit := 2 * time.Second // until the stream is one
	d := newDeskWith(t, logs.Options{Heartbeat: limit / 4}, logfiles.Options{}, web.Limits{Read: limit, Write: limit})
	s := d.follow("/api/v1/tail/u", "u", "")
	for began := time.Now(); time.Since(began) < 2*limit; {
		if _, err := s.next(); err != nil {
			t.Fatal(err)
		}
	}
	logstest.Add(t, d.store, logstest.Line("u", "", 0, logstest.T0, "still there"))
	if text := s.event().text(t); text != "APP/PROC/WEB/0 still there" {
		t.Errorf("event says %q, want APP/PROC/WEB/0 still there", text)
	}
}

func TestTailRefusals(t *testing.T) {
	t.Parallel()
	d := newDeskWith(t, logs.Options{Tails: 1}, logfiles.Options{})
	reader := d.token("u", "cloud_controller.read")
	for path, want := range map[string]int{
		"/api/v1/tail/other":                 http.StatusNotFound,
		"/api/v1/tail/u?last_event_id=x":     http.StatusBadRequest,
		"/api/v1/tail/u?recent=-1":           http.StatusBadRequest,
		"/api/v1/tail/u?start_time=now":      http.StatusBadRequest,
		"/api/v1/tail/u?envelope_types=LOGS": http.StatusBadRequest,
	} {
		if status, body := d.get(path, reader); status != want {
			t.Errorf("%s answers %d, want %d: %s", path, status, want, body)
		}
	}
	if status, _ := d.get("/api/v1/tail/u", d.token("u", "openid")); status != http.StatusForbidden {
		t.Errorf("without a scope: %d", status)
	}
	if status, _ := d.get("/api/v1/tail/u", ""); status != http.StatusUnauthorized {
		t.Errorf("without a token: %d", status)
	}
	s := d.follow("/api/v1/tail/u", "u", "")
	if status, _ := d.get("/api/v1/tail/u", reader); status != http.StatusTooManyRequests {
		t.Errorf("one too many: %d", status)
	}
	s.body.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for metrics(t, d.store)["ingot_log_tails"] > 0 && ctx.Err() == nil {
		<-time.After(time.Millisecond) // until the server sees that the reader left
	}
	if ctx.Err() != nil {
		t.Error("a reader that left is still counted")
	}
}
