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
	"sync"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/base/fault"
	"ingot/internal/base/token"
	"ingot/internal/base/web"
	"ingot/internal/platform"
)

const (
	// Limits of concurrent streams.
	maxStreamsOfOne = 20 // of one user or client
	maxStreamsOfAll = 500
	maxSources      = 1000 // apps that a stream may name
	// beatEvery is the interval of heartbeats on a quiet stream.
	beatEvery = 10 * time.Second
	// streamBatch is the largest number of envelopes in an event.
	streamBatch = 100
)

// streamOptions are the parameters of a stream.
type streamOptions struct {
	apps  []string // nil: all
	shard string
	log   bool
	gauge bool
	// names are the metrics that a gauge must have.
	names []string
}

// problem writes an error in the format of the reverse log proxy's gateway.
func problem(w http.ResponseWriter, status int, name, message string) error {
	text, err := json.Marshal(map[string]string{"error": name, "message": message})
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(append(text, '\n')) //nolint:gosec // JSON and nosniff
	return nil
}

// parseStream parses the query of a stream; word and sentence describe an error.
func parseStream(v url.Values) (q streamOptions, word, sentence string) {
	if len(v) == 0 {
		return q, "empty_query", "query cannot be empty"
	}
	some := false
	for _, name := range []string{"log", "counter", "gauge", "timer", "event", "counter.name", "gauge.name"} {
		some = some || v.Has(name)
	}
	if !some {
		return q, "missing_envelope_type", "query must provide at least one envelope type"
	}
	for name, word := range map[string]string{"counter.name": "missing_counter_name", "gauge.name": "missing_gauge_name"} {
		if v.Has(name) && v.Get(name) == "" {
			return q, word, name + " is invalid without value"
		}
	}
	q.log, q.gauge = v.Has("log"), v.Has("gauge") || v.Has("gauge.name")
	for _, list := range v["gauge.name"] {
		q.names = append(q.names, strings.Split(list, ",")...)
	}
	for _, app := range v["source_id"] {
		if app != "" && !slices.Contains(q.apps, app) {
			q.apps = append(q.apps, app)
		}
	}
	if len(q.apps) > maxSources {
		return q, "too_many_source_ids", fmt.Sprintf("query must not have more than %d source ids", maxSources)
	}
	q.shard = v.Get("shard_id")
	return q, "", ""
}

// stream is the API of the reverse log proxy's gateway: Server-Sent Events, each
// with a batch of envelopes, from now on and of many apps. There are log lines
// and the gauges of instances; no counters, timers or events.
//
//	data: {"batch":[…]}
//	event: heartbeat   the time, when nothing came for a while
//	event: closing     why no more will come
func (a *api) stream(w http.ResponseWriter, r *http.Request) error {
	q, word, sentence := parseStream(r.URL.Query())
	if word != "" {
		return problem(w, http.StatusBadRequest, word, sentence)
	}
	if may, err := a.mayStream(r.Context(), q.apps); err != nil {
		return err
	} else if !may {
		return problem(w, http.StatusNotFound, "not_found", "resource not found")
	}
	claims := token.FromContext(r.Context())
	hose, leave, err := a.openHose(claims, q)
	if err != nil {
		return err
	}
	defer leave()

	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Time{})
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-cache")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Accel-Buffering", "no")
	w.WriteHeader(http.StatusOK)
	if control.Flush() != nil {
		return nil
	}
	ctx, cancel := context.WithDeadline(r.Context(), time.Unix(claims.ExpiresAt, 0))
	defer cancel()
	stop := background.OnDone(web.Closing(r.Context()), "log stream of many apps", cancel)
	defer stop()
	a.sendEnvelopes(ctx, &envelopeWriter{api: a, w: w, control: control, want: q, abouts: map[string]*About{}}, hose)
	return nil
}

// openHose returns the lines for a stream of the caller, and a function to call when it
// ends.
func (a *api) openHose(claims *token.Claims, q streamOptions) (hose *Hose, leave func(), err error) {
	caller := claims.UserID
	if !claims.IsUser() {
		caller = "client " + claims.ClientID
	}
	if !a.streams.enter(caller) {
		return nil, nil, fault.New(fault.RateLimited,
			"too many log streams are open (at most %d of one user, %d of all); close some or try again later", maxStreamsOfOne,
			maxStreamsOfAll)
	}
	shard := q.shard
	if shard != "" {
		shard = caller + "\n" + shard // callers do not share each other's shards
	}
	hose = a.store.Readers().Hose(q.apps, shard)
	return hose, func() {
		hose.Close()
		a.streams.leave(caller)
	}, nil
}

// mayStream reports whether the caller may read all these apps, or every app if none is
// given.
func (a *api) mayStream(ctx context.Context, apps []string) (bool, error) {
	if claims := token.FromContext(ctx); claims != nil && claims.HasAny(seesAll...) {
		return true, nil
	}
	for _, app := range apps {
		if may, err := a.mayRead(ctx, app); err != nil || !may {
			return false, err
		}
	}
	return len(apps) > 0, nil
}

// sendEnvelopes sends envelopes until the reader disconnects or may no longer read.
func (a *api) sendEnvelopes(ctx context.Context, p *envelopeWriter, hose *Hose) {
	checked, measured, sent := time.Now(), time.Time{}, time.Now()
	for {
		now := time.Now()
		if p.want.gauge && now.Sub(measured) >= gaugeEvery {
			measured = now
			gauges, err := a.access.Gauges(ctx, p.want.apps)
			if err == nil && p.gauges(ctx, gauges) != nil {
				return
			}
			if len(gauges) > 0 {
				sent = time.Now()
			}
		}
		next := sent.Add(beatEvery)
		if due := measured.Add(gaugeEvery); p.want.gauge && due.Before(next) {
			next = due
		}
		waiting, done := context.WithDeadline(ctx, next)
		entries, dropped, err := hose.Next(waiting)
		done()
		if time.Since(checked) >= recheck {
			checked = time.Now()
			if may, err := a.mayStream(ctx, p.want.apps); err == nil && !may {
				p.closing("you may no longer read these logs")
				return
			}
		}
		switch {
		case err == nil:
			if err = p.lines(ctx, entries, dropped); err == nil && len(entries) < streamBatch {
				background.Sleep(ctx, lull)
			}
			if p.want.log {
				sent = time.Now()
			}
		case errors.Is(ctx.Err(), context.DeadlineExceeded):
			p.closing("the access token has expired")
			return
		case ctx.Err() != nil:
			return
		default:
			err = nil
		}
		if err == nil && time.Since(sent) >= beatEvery { // also while there are lines that this stream does not want
			sent = time.Now()
			p.buf = fmt.Appendf(p.buf, "event: heartbeat\ndata: %d\n\n", sent.Unix())
			err = p.flush()
		}
		if err != nil {
			return
		}
	}
}

// envelopeWriter writes batches of envelopes to one reader.
type envelopeWriter struct {
	api     *api
	w       http.ResponseWriter
	control *http.ResponseController
	want    streamOptions
	buf     []byte
	inBatch int
	abouts  map[string]*About // of this write
}

func (p *envelopeWriter) about(ctx context.Context, app string) *About {
	about, ok := p.abouts[app]
	if !ok {
		about = p.api.access.About(ctx, app)
		p.abouts[app] = about
	}
	return about
}

// envelope starts another envelope, in a new event if needed.
func (p *envelopeWriter) envelope() {
	switch {
	case p.inBatch == streamBatch:
		p.endBatch()
		fallthrough
	case p.inBatch == 0:
		p.buf = append(p.buf, `data: {"batch":[`...)
	default:
		p.buf = append(p.buf, ',')
	}
	p.inBatch++
}

func (p *envelopeWriter) endBatch() {
	if p.inBatch > 0 {
		p.buf = append(p.buf, "]}\n\n"...)
	}
	p.inBatch = 0
}

func (p *envelopeWriter) lines(ctx context.Context, entries []platform.LogLine, dropped uint64) error {
	if !p.want.log {
		return nil
	}
	clear(p.abouts)
	var previous *platform.LogLine
	var middle []byte
	add := func(e *platform.LogLine) {
		if previous == nil || !sameOrigin(previous, e) {
			middle, previous = appendOriginJSON(middle[:0], e, p.about(ctx, e.App)), e
		}
		p.envelope()
		p.buf = appendEnvelope(p.buf, e, middle)
	}
	for i := range entries {
		add(&entries[i])
	}
	if dropped > 0 {
		n := strconv.FormatUint(dropped, 10)
		e := platform.LogLine{Time: time.Now(), Source: SourceLogs, Instance: "0", Stderr: true,
			Tags: map[string]string{"missed": n},
			Text: []byte(n + " lines are not in this stream: its reader was too slow")}
		if len(p.want.apps) == 1 {
			e.App = p.want.apps[0]
		}
		add(&e)
	}
	p.endBatch()
	return p.flush()
}

func (p *envelopeWriter) gauges(ctx context.Context, all []Gauge) error {
	clear(p.abouts)
	for i := range all {
		g := &all[i]
		if slices.ContainsFunc(p.want.names, func(name string) bool { _, has := g.Metrics[name]; return !has }) {
			continue
		}
		p.envelope()
		p.buf = appendGauge(p.buf, g, p.about(ctx, g.App))
	}
	p.endBatch()
	return p.flush()
}

func (p *envelopeWriter) closing(reason string) {
	p.buf = fmt.Appendf(p.buf, "event: closing\ndata: %s\n\n", reason)
	_ = p.flush() // the reader may be gone
}

func (p *envelopeWriter) flush() error {
	if len(p.buf) == 0 {
		return nil
	}
	_ = p.control.SetWriteDeadline(time.Now().Add(writePatience))
	_, err := p.w.Write(p.buf)
	if p.buf = p.buf[:0]; cap(p.buf) > 256<<10 {
		p.buf = nil
	}
	if err != nil {
		return err
	}
	return p.control.Flush()
}

// streamCount limits the streams of a caller and of all.
type streamCount struct {
	mu  sync.Mutex
	all int
	by  map[string]int
}

func (c *streamCount) enter(caller string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all >= maxStreamsOfAll || c.by[caller] >= maxStreamsOfOne {
		return false
	}
	if c.by == nil {
		c.by = map[string]int{}
	}
	c.all++
	c.by[caller]++
	return true
}

func (c *streamCount) leave(caller string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all--
	if c.by[caller]--; c.by[caller] == 0 {
		delete(c.by, caller)
	}
}
