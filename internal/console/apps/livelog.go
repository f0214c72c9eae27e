package apps

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/base/web"
	"ingot/internal/console/page"
)

const (
	// logEvery is the time between two events of a live log. A line after a pause is sent at
	// once.
	logEvery = 100 * time.Millisecond
	// logEventLines and logEventBytes limit the lines of an event to what a browser draws
	// within a frame.
	logEventLines = 250
	logEventBytes = 128 << 10
	// logWaitLines and logWaitBytes limit the lines that wait for a browser. When more of them
	// wait, the log is busy until an event has room for all new lines: until then an event has
	// only the newest lines, logBusyLines of them, and there are fewer events. What is skipped
	// would have left the screen before anyone could read it.
	logWaitLines = 2000
	logWaitBytes = 1 << 20
	logBusyLines = 100
	logBusyEvery = 200 * time.Millisecond
	// logPatience is how long a browser may take for an event.
	logPatience = 30 * time.Second
)

// logStream is GET /console/apps/GUID/logs/stream: the live tail of the log cache, many lines to
// an event, with the filters of the page. ?since= is the time from which on lines are sent,
// ?after= the id of the last event.
//
//	event: lines   {"skipped":0,"lines":[{"id":"…","source":"…","instance":"…","err":false,"text":"…"}]}
//	event: end     no more events, with the reason, as in the log cache
//
// A browser that is too slow skips lines, and gets their number.
func (c *pages) logStream(w http.ResponseWriter, r *http.Request, s *page.Session) error {
	ctx, leave, err := c.OpenStream(r, s, page.StreamLife(s))
	if err != nil {
		return err
	}
	defer leave()
	call := c.Platform(r.WithContext(ctx), s)
	q := r.URL.Query()
	from := "recent=0"
	if since, bad := strconv.ParseInt(q.Get("since"), 10, 64); bad == nil && since > 0 {
		from = "start_time=" + strconv.FormatInt(since, 10)
	}
	req, err := call.Request(http.MethodGet, "/api/v1/tail/"+url.PathEscape(web.Param(r, "guid"))+"?"+from, nil)
	if err != nil {
		return err
	}
	// A browser that reconnects on its own sends the header, the script the parameter.
	if last := cmp.Or(r.Header.Get("Last-Event-Id"), q.Get("after")); last != "" {
		req.Header.Set("Last-Event-ID", last)
	}
	tail := newTailReader(filterOf(q))
	var reading background.WaitGroup
	defer reading.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	reading.Go("console log", func() {
		defer tail.close()
		call.Serve(tail, req.WithContext(ctx))
	})
	if status, body := tail.begun(); status >= http.StatusBadRequest {
		return page.ErrorOf(status, body)
	}
	control := page.BeginEvents(w)
	for {
		event, more := tail.next()
		_ = control.SetWriteDeadline(time.Now().Add(logPatience))
		if _, err := w.Write(event); err != nil || //nolint:gosec // JSON in an event stream, and nosniff
			control.Flush() != nil || !more {
			return nil
		}
		pause := time.NewTimer(tail.pause())
		select {
		case <-pause.C:
		case <-tail.closed:
			pause.Stop()
		}
	}
}

// envelope is a log line of the log cache.
type envelope struct {
	Timestamp string            `json:"timestamp"`
	Instance  string            `json:"instance_id"`
	Tags      map[string]string `json:"tags"`
	Log       struct {
		Payload []byte `json:"payload"`
		Type    string `json:"type"`
	} `json:"log"`
}

func (e *envelope) line() line {
	ns, _ := strconv.ParseInt(e.Timestamp, 10, 64)
	text := bytes.TrimRight(e.Log.Payload, "\r\n")
	return line{
		At: time.Unix(0, ns).UTC(), Source: e.Tags["source_type"], Instance: e.Instance, GUID: e.Tags["process_instance_id"],
		Stderr: e.Log.Type == "ERR",
		Text:   string(bytes.ToValidUTF8(text, []byte("\uFFFD"))),
	}
}

// sentLine is a line of an event.
type sentLine struct {
	ID       string `json:"id"`
	Source   string `json:"source"`
	Instance string `json:"instance"`
	Err      bool   `json:"err,omitempty"`
	Text     string `json:"text"`
}

// sentLines is the data of an event.
type sentLines struct {
	Skipped uint64     `json:"skipped,omitempty"`
	Lines   []sentLine `json:"lines"`
}

// waitingLine is a line as it came: one that is skipped is not decoded.
type waitingLine struct {
	id   string // of its event
	data []byte // its envelope
}

// tailReader is the response writer of a live tail. It never makes the tail wait: lines that
// a browser has not taken are skipped.
type tailReader struct {
	filter  lineFilter
	header  http.Header
	started chan struct{} // closed with the status
	closed  chan struct{} // closed with the tail
	changed chan struct{} // gets a value when next has something to send

	mu      sync.Mutex
	status  int
	body    []byte // of an error, or the beginning of an event
	waiting []waitingLine
	size    int  // of waiting, in bytes
	busy    bool // only the newest lines are sent
	skipped uint64
	last    string // the last id
	beat    bool   // a comment came
	end     []byte // the event end
}

func newTailReader(f lineFilter) *tailReader {
	return &tailReader{filter: f, header: http.Header{}, started: make(chan struct{}), closed: make(chan struct{}),
		changed: make(chan struct{}, 1)}
}

// Header implements http.ResponseWriter.
func (t *tailReader) Header() http.Header { return t.header }

// WriteHeader implements http.ResponseWriter.
func (t *tailReader) WriteHeader(status int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.status == 0 {
		t.status = status
		if status < http.StatusBadRequest { // the body of an error follows
			close(t.started)
		}
	}
}

// Flush implements http.Flusher.
func (t *tailReader) Flush() {}

// Write implements http.ResponseWriter.
func (t *tailReader) Write(b []byte) (int, error) {
	t.WriteHeader(http.StatusOK)
	t.mu.Lock()
	defer t.mu.Unlock()
	rest := b
	if len(t.body) > 0 || t.status >= http.StatusBadRequest {
		t.body = append(t.body, b...)
		rest = t.body
	}
	if t.status >= http.StatusBadRequest {
		return len(b), nil
	}
	for {
		event, after, ok := bytes.Cut(rest, []byte("\n\n"))
		if !ok {
			break
		}
		t.event(event)
		rest = after
	}
	t.body = append([]byte(nil), rest...) // usually none: the tail writes whole events
	select {
	case t.changed <- struct{}{}:
	default:
	}
	return len(b), nil
}

// event keeps an event of the tail.
func (t *tailReader) event(raw []byte) {
	var name, data []byte
	for field := range bytes.SplitSeq(raw, []byte("\n")) {
		key, value, _ := bytes.Cut(field, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(key) {
		case "":
			t.beat = true
		case "id":
			t.last = string(value)
		case "event":
			name = value
		case "data":
			data = value
		}
	}
	switch {
	case string(name) == "end":
		t.end = bytes.Clone(raw)
	case string(name) == "missed":
		var e envelope
		if json.Unmarshal(data, &e) == nil {
			n, _ := strconv.ParseUint(e.Tags["missed"], 10, 64)
			t.skipped += n
		}
	case len(data) > 0:
		t.keep(data)
	}
}

// keep adds a line to those that wait.
func (t *tailReader) keep(data []byte) {
	if t.filter != (lineFilter{}) {
		var e envelope
		if json.Unmarshal(data, &e) != nil || !t.filter.shows(e.line()) {
			return
		}
	}
	t.waiting, t.size = append(t.waiting, waitingLine{t.last, bytes.Clone(data)}), t.size+len(data)
	if len(t.waiting) <= logWaitLines && t.size <= logWaitBytes {
		return
	}
	t.busy = true
	t.skip()
}

// skip drops all waiting lines but the newest.
func (t *tailReader) skip() {
	first, size := len(t.waiting), 0
	for first > 0 && len(t.waiting)-first < logBusyLines {
		if size += len(t.waiting[first-1].data); size > logEventBytes && first < len(t.waiting) {
			size -= len(t.waiting[first-1].data)
			break
		}
		first--
	}
	t.skipped += uint64(first)
	t.waiting, t.size = slices.Clone(t.waiting[first:]), size
}

// pause returns the time until the next event.
func (t *tailReader) pause() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.busy {
		return logBusyEvery
	}
	return logEvery
}

// close ends the reader with its tail.
func (t *tailReader) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.status == 0 || t.status >= http.StatusBadRequest {
		close(t.started)
	}
	close(t.closed)
}

// begun waits for the status, and returns it with the body of an error.
func (t *tailReader) begun() (int, []byte) {
	<-t.started
	t.mu.Lock()
	defer t.mu.Unlock()
	return cmp.Or(t.status, http.StatusServiceUnavailable), t.body
}

// next waits for something to send and returns it, as much as an event has. more is false
// for the last event.
func (t *tailReader) next() (event []byte, more bool) {
	for {
		over := false
		select {
		case <-t.closed:
			over = true
		default:
		}
		if event, rest := t.take(); len(event) > 0 || over {
			return event, rest || !over
		}
		select {
		case <-t.changed:
		case <-t.closed:
		}
	}
}

// take removes what is sent next. rest reports whether more is left.
func (t *tailReader) take() (event []byte, rest bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.waiting) == 0 && t.skipped == 0 {
		if t.beat {
			event = append(event, ":\n"...)
			if t.last != "" {
				event = fmt.Appendf(event, "id: %s\n", t.last)
			}
			event = append(event, '\n')
		}
		if t.end != nil {
			event = append(append(event, t.end...), "\n\n"...)
		}
		t.beat, t.end = false, nil
		return event, false
	}
	if t.busy = t.busy && len(t.waiting) > logEventLines; t.busy {
		t.skip()
	}
	data := sentLines{Skipped: t.skipped, Lines: []sentLine{}}
	size, n := 0, 0
	id := t.last
	for _, one := range t.waiting {
		if size += len(one.data); n == logEventLines || n > 0 && size > logEventBytes {
			break
		}
		n++
		t.size -= len(one.data)
		id = one.id
		var e envelope
		if json.Unmarshal(one.data, &e) != nil {
			continue
		}
		l := e.line()
		data.Lines = append(data.Lines, sentLine{l.ID(), l.Source, l.Instance, l.Stderr, l.Text})
	}
	if t.waiting, t.skipped, t.beat = t.waiting[n:], 0, false; len(t.waiting) == 0 {
		t.waiting, id = nil, t.last
	}
	b, err := json.Marshal(data)
	if err != nil {
		return nil, false // texts and numbers
	}
	return fmt.Appendf(nil, "event: lines\nid: %s\ndata: %s\n\n", id, b), true
}
