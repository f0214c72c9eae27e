package apps

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
)

// tailEvent is an event of the log cache.
func tailEvent(id int, text string) string {
	return fmt.Sprintf(`id: %d
data: {"timestamp":"%d","instance_id":"0","tags":{"source_type":"APP/PROC/WEB"},"log":{"payload":"%s","type":"OUT"}}

`, id, 1e18+id, base64.StdEncoding.EncodeToString([]byte(text)))
}

// readEvent reads the next event of a tail as a browser does.
func readEvent(t *testing.T, r *tailReader) (id string, v sentLines, rest string) {
	t.Helper()
	event, _ := r.next()
	rest = string(event)
	if after, ok := strings.CutPrefix(rest, "event: lines\nid: "); ok {
		id, after, _ = strings.Cut(after, "\n")
		if err := json.Unmarshal([]byte(strings.TrimPrefix(after, "data: ")), &v); err != nil {
			t.Fatalf("%v in %s", err, event)
		}
	}
	return id, v, rest
}

// TestLiveLogOfABusyApp writes many more lines than a browser takes.
func TestLiveLogOfABusyApp(t *testing.T) {
	t.Parallel()
	r := newTailReader(lineFilter{})
	const lines = 3*logWaitLines + 17
	var all strings.Builder
	for i := range lines {
		all.WriteString(tailEvent(i, "line "+strconv.Itoa(i)+"\r\n"))
	}
	// The events need not arrive in one piece.
	for text := all.String(); text != ""; {
		n := min(len(text), 1009)
		if wrote, err := r.Write([]byte(text[:n])); wrote != n || err != nil {
			t.Fatal(wrote, err)
		}
		text = text[n:]
	}
	if len(r.waiting) > logWaitLines || r.size > logWaitBytes {
		t.Errorf("%d lines of %d bytes wait", len(r.waiting), r.size)
	}
	got, events := uint64(0), 0
	var newest sentLine
	var id string
	for {
		var v sentLines
		if id, v, _ = readEvent(t, r); len(v.Lines) == 0 || len(v.Lines) > logEventLines {
			t.Fatalf("an event of %d lines", len(v.Lines))
		}
		if events++; v.Skipped > 0 && events > 1 {
			t.Errorf("event %d skips %d lines, although no more came", events, v.Skipped)
		}
		if newest = v.Lines[len(v.Lines)-1]; newest.ID != strconv.Itoa(1e18+toInt(t, id)) {
			t.Fatalf("the event %s ends with %+v", id, newest)
		}
		if got += v.Skipped + uint64(len(v.Lines)); got >= lines {
			break
		}
	}
	if got != lines || newest.Text != "line "+strconv.Itoa(lines-1) || id != strconv.Itoa(lines-1) || r.size != 0 {
		t.Errorf("%d lines with those skipped, the last is %+v with the id %s; %d bytes are left", got, newest, id, r.size)
	}
}

func toInt(t *testing.T, text string) int {
	t.Helper()
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestLiveLogOfLongLines keeps few lines if they are long, and never none.
func TestLiveLogOfLongLines(t *testing.T) {
	t.Parallel()
	r := newTailReader(lineFilter{})
	long := strings.Repeat("x", 2*logEventBytes)
	for i := range 20 {
		if _, err := r.Write([]byte(tailEvent(i, long+strconv.Itoa(i)))); err != nil {
			t.Fatal(err)
		}
		if r.size > 2*logWaitBytes {
			t.Fatalf("%d bytes wait", r.size)
		}
	}
	for {
		id, v, _ := readEvent(t, r)
		if len(v.Lines) != 1 {
			t.Fatalf("an event of %d lines", len(v.Lines))
		}
		if id == "19" {
			return
		}
	}
}

// TestLiveLogFilter sends only lines that the filter of the page shows, and skips no others.
func TestLiveLogFilter(t *testing.T) {
	t.Parallel()
	r := newTailReader(lineFilter{Query: "NEEDLE"})
	for i := range 2 * logWaitLines {
		text := "hay"
		if i%1000 == 0 {
			text = "a needle"
		}
		if _, err := r.Write([]byte(tailEvent(i, text))); err != nil {
			t.Fatal(err)
		}
	}
	id, v, _ := readEvent(t, r)
	if v.Skipped != 0 || len(v.Lines) != 4 || id != strconv.Itoa(2*logWaitLines-1) {
		t.Errorf("%+v until %s", v, id)
	}
}

// TestLiveLogOtherEvents passes on what is no line.
func TestLiveLogOtherEvents(t *testing.T) {
	t.Parallel()
	r := newTailReader(lineFilter{})
	write := func(text string) {
		t.Helper()
		if _, err := r.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	write(":connected\nid: 7\n\n")
	if _, _, rest := readEvent(t, r); rest != ":\nid: 7\n\n" {
		t.Errorf("a comment becomes %q", rest)
	}
	write("event: missed\nid: 9\ndata: {\"tags\":{\"missed\":\"41\"},\"log\":{}}\n\n" + tailEvent(50, "after the gap"))
	write("event: end\ndata: {\"reason\":\"the app was deleted\"}\n\n")
	if id, v, _ := readEvent(t, r); v.Skipped != 41 || len(v.Lines) != 1 || v.Lines[0].Text != "after the gap" ||
		id != "50" {
		t.Errorf("%+v until %s", v, id)
	}
	r.close()
	if event, more := r.next(); string(event) != "event: end\ndata: {\"reason\":\"the app was deleted\"}\n\n" || more {
		t.Errorf("the end is %q, more %t", event, more)
	}
}

// TestLogStreamRefused shows the error of the log cache.
func TestLogStreamRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.API.HandleFunc("GET /api/v1/tail/busy", func(rw http.ResponseWriter, _ *http.Request) {
		rw.WriteHeader(http.StatusTooManyRequests)
		fmt.Fprint(rw, `{"errors":[{"detail":"too many log streams are open"}]}`)
	})
	status, text := w.Get("/console/apps/busy/logs/stream")
	if status != http.StatusTooManyRequests || !strings.Contains(text, "too many log streams are open") {
		t.Errorf("%d %s", status, text)
	}
}

// TestLogDownload downloads more lines than the log cache returns at once, some of them of the
// same time.
func TestLogDownload(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const lines = 3*maxLines + 5
	at := func(i int) int64 { return int64(10 + i/3) } // three lines of each time
	w.API.HandleFunc("GET /api/v1/read/the-app", func(rw http.ResponseWriter, r *http.Request) {
		from, err := strconv.ParseInt(r.URL.Query().Get("start_time"), 10, 64)
		if err != nil {
			t.Error(err)
		}
		var batch []string
		for i := 0; i < lines && len(batch) < maxLines; i++ {
			if at(i) >= from {
				batch = append(batch, fmt.Sprintf(`{"timestamp":"%d","instance_id":"0","tags":{"source_type":"APP/PROC/WEB"},"log":{"payload":%q,"type":"ERR"}}`,
					at(i), base64.StdEncoding.EncodeToString([]byte("line "+strconv.Itoa(i)))))
			}
		}
		fmt.Fprintf(rw, `{"envelopes":{"batch":[%s]}}`, strings.Join(batch, ","))
	})
	status, text := w.Get("/console/apps/the-app/log-lines")
	got := strings.Split(strings.TrimSpace(text), "\n")
	if status != http.StatusOK || len(got) != lines {
		t.Fatalf("%d with %d lines, want %d", status, len(got), lines)
	}
	for i, text := range got {
		if !strings.HasSuffix(text, fmt.Sprintf(" [APP/PROC/WEB/0] ERR line %d", i)) {
			t.Fatalf("line %d is %s", i, text)
		}
	}
}
