package logs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/base/fault"
	"ingot/internal/base/token"
	"ingot/internal/base/web"
	"ingot/internal/platform"
)

const (
	// recheck is how often the reader's permission is checked again.
	recheck = time.Minute
	// writePatience is how long a reader may take for one batch. A slower one is
	// disconnected; it can reconnect and continue.
	writePatience = 30 * time.Second
	// lull is the pause after a write of a few lines, so that lines in quick succession are
	// sent together.
	lull = 5 * time.Millisecond
)

// tailOptions are the parameters of a tail.
type tailOptions struct {
	from             Start
	nothing          bool // envelope types without log lines
	include, exclude []string
}

// tail responds with Server-Sent Events: each has an envelope like the response to
// a read, and the line's number as its id. A reader that reconnects with
// Last-Event-ID continues after that line. Comments keep the stream alive.
//
//	event: missed   an envelope with the number of lines that were dropped before
//	                this reader got them; the number is also in its tag "missed"
//	event: end      no more events, with the reason: {"reason":"…"}; with
//	                "resume":true a reader can continue with a new token
func (a *api) tail(w http.ResponseWriter, r *http.Request) error {
	app, err := a.source(r)
	if err != nil {
		return err
	}
	if app == "" {
		w.WriteHeader(http.StatusNotFound)
		return nil
	}
	want, err := parseTail(r)
	if err != nil {
		return err
	}
	tails := &a.store.Readers().tails
	defer tails.Add(-1)
	if tails.Add(1) > int64(a.options.Tails) {
		return fault.New(fault.RateLimited, "too many log streams are open (%d); close some or try again later",
			a.options.Tails)
	}
	t, err := a.store.Tail(app, want.from)
	if err != nil {
		return err
	}
	defer t.Close()

	control := http.NewResponseController(w)
	// Remove the deadline of the request; the connection would end with it.
	_ = control.SetReadDeadline(time.Time{})
	h := w.Header()
	h.Set("Content-Type", "text/event-stream; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Accel-Buffering", "no") // proxies must not buffer it
	w.WriteHeader(http.StatusOK)
	s := &eventStream{w: w, control: control, app: app, want: want,
		about: func() *About { return a.access.About(r.Context(), app) }}
	if want.from.Kind != StartSince {
		s.last = t.At() // a reader that is disconnected before the first line continues here
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	stop := background.OnDone(web.Closing(r.Context()), "log stream", cancel)
	defer stop()
	a.follow(ctx, s, t)
	return nil
}

// follow sends lines until the reader disconnects, may no longer read, or the log ends.
func (a *api) follow(ctx context.Context, s *eventStream, t Tail) {
	expiry := time.Until(time.Unix(token.FromContext(ctx).ExpiresAt, 0))
	ctx, cancel := context.WithTimeout(ctx, expiry)
	defer cancel()
	if s.comment("connected") != nil {
		return
	}
	checked := time.Now()
	for {
		waiting, done := context.WithTimeout(ctx, a.options.Heartbeat)
		b, err := t.Next(waiting)
		quiet := err != nil && waiting.Err() != nil && ctx.Err() == nil
		done()
		if time.Since(checked) >= recheck {
			checked = time.Now()
			if may, err := a.mayRead(ctx, s.app); err == nil && !may {
				s.end("you may no longer read this log", false)
				return
			}
		}
		switch {
		case quiet:
			err = s.comment("")
		case err == nil:
			if err = s.batch(b); err == nil && len(b.Entries) < BatchLines/2 {
				background.Sleep(ctx, lull)
			}
		case errors.Is(err, context.DeadlineExceeded):
			s.end("the access token has expired: get a new one and go on from the last id", true)
			return
		case errors.Is(err, ErrClosed):
			s.end("the app was deleted", false)
			return
		}
		if err != nil {
			return
		}
	}
}

// eventStream writes events to one reader.
type eventStream struct {
	w       http.ResponseWriter
	control *http.ResponseController
	app     string
	want    tailOptions
	buf     []byte
	last    uint64           // number of the last line that was sent or skipped
	told    uint64           // the last id that was sent
	before  platform.LogLine // the last line that was sent
	middle  []byte           // the part of its envelope that other lines of its origin share
	about   func() *About
	known   *About // data of the app for the last batch
}

func (s *eventStream) comment(text string) error {
	s.buf = append(append(append(s.buf, ':'), text...), '\n')
	if s.last > s.told {
		// Lines that were filtered out need not be read again.
		s.buf = append(s.buf, "id: "...)
		s.buf = append(strconv.AppendUint(s.buf, s.last, 10), '\n')
		s.told = s.last
	}
	s.buf = append(s.buf, '\n')
	return s.flush()
}

func (s *eventStream) batch(b Batch) error {
	if about := s.about(); about != s.known {
		s.known, s.middle = about, s.middle[:0]
	}
	if b.Missed > 0 {
		n := strconv.FormatUint(b.Missed, 10)
		s.event("missed", b.First-1, &platform.LogLine{
			App: s.app, Time: time.Now(), Source: SourceLogs, Instance: "0", Stderr: true, Tags: map[string]string{"missed": n},
			Text: []byte(n + " lines are not shown: this reader was too slow, and they have been dropped to make room"),
		})
	}
	for i := range b.Entries {
		if e := &b.Entries[i]; s.want.wants(e) {
			s.event("", b.First+uint64(i), e)
		}
	}
	s.last = b.Last()
	if len(s.buf) == 0 {
		return nil
	}
	return s.flush()
}

// event appends one event. The envelope is JSON without line breaks.
func (s *eventStream) event(name string, number uint64, e *platform.LogLine) {
	if name != "" {
		s.buf = append(append(append(s.buf, "event: "...), name...), '\n')
	}
	s.buf = append(s.buf, "id: "...)
	s.buf = strconv.AppendUint(s.buf, number, 10)
	s.told = number
	s.buf = append(s.buf, "\ndata: "...)
	if len(s.middle) == 0 || !sameOrigin(&s.before, e) {
		s.middle = appendOriginJSON(s.middle[:0], e, s.known)
		s.before = *e
		s.before.Text = nil
	}
	s.buf = appendEnvelope(s.buf, e, s.middle)
	s.buf = append(s.buf, "\n\n"...)
}

func (s *eventStream) end(reason string, resume bool) {
	text, err := json.Marshal(struct {
		Reason string `json:"reason"`
		Resume bool   `json:"resume,omitempty"`
	}{reason, resume})
	if err != nil {
		return
	}
	s.buf = fmt.Appendf(s.buf, "event: end\ndata: %s\n\n", text)
	_ = s.flush() // the reader may be gone
}

func (s *eventStream) flush() error {
	_ = s.control.SetWriteDeadline(time.Now().Add(writePatience))
	_, err := s.w.Write(s.buf)
	if s.buf = s.buf[:0]; cap(s.buf) > 256<<10 {
		s.buf = nil
	}
	if err != nil {
		return err
	}
	return s.control.Flush()
}

// parseTail parses the query of a tail.
func parseTail(r *http.Request) (tailOptions, error) {
	v := r.URL.Query()
	q, err := parseRead(url.Values{"start_time": v["start_time"], "envelope_types": v["envelope_types"]})
	if err != nil {
		return tailOptions{}, err
	}
	w := tailOptions{include: names(v["source_types"]), exclude: names(v["exclude_source_types"])}
	w.nothing = !q.HasLines()
	last := r.Header.Get("Last-Event-ID")
	if last == "" {
		last = v.Get("last_event_id")
	}
	recent := v.Get("recent")
	switch {
	case last != "":
		n, err := strconv.ParseUint(last, 10, 64)
		if err != nil {
			return w, fault.New(fault.BadQuery, "Last-Event-ID must be the id of an event of this stream")
		}
		w.from = After(n)
	case recent != "":
		n, err := strconv.ParseUint(recent, 10, 32)
		if err != nil {
			return w, fault.New(fault.BadQuery, "recent must be a number of lines")
		}
		w.from = Newest(n)
	case v.Has("start_time"):
		w.from = Since(time.Unix(0, q.Start-1))
	default:
		w.from = Newest(0)
	}
	return w, nil
}

func names(lists []string) (out []string) {
	for _, list := range lists {
		for name := range strings.SplitSeq(list, ",") {
			if name = strings.TrimSpace(name); name != "" {
				out = append(out, name)
			}
		}
	}
	return out
}

// wants reports whether the reader wants a line. Lines of the log itself are left out only
// if that is requested.
func (w *tailOptions) wants(e *platform.LogLine) bool {
	from := func(source string) bool { return comesFrom(e, source) }
	if w.nothing || slices.ContainsFunc(w.exclude, from) {
		return false
	}
	return len(w.include) == 0 || e.Source == SourceLogs || slices.ContainsFunc(w.include, from)
}

// comesFrom reports whether the line's source is the given one or below it: APP includes
// APP/PROC/WEB.
func comesFrom(e *platform.LogLine, source string) bool {
	rest, ok := strings.CutPrefix(strings.ToUpper(e.Source), strings.ToUpper(source))
	return ok && (rest == "" || rest[0] == '/')
}
