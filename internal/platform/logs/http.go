package logs

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"ingot/internal/base/fault"
	"ingot/internal/base/token"
	"ingot/internal/base/web"
	"ingot/internal/platform"
)

// apiVersion is the version of log-cache whose API this is. From 2.0.0 on clients read
// below /api/v1.
const apiVersion = "2.12.1"

// seesAll are the scopes that need no further permission.
var seesAll = append([]string{"doppler.firehose", "logs.admin"}, platform.ReadAllScopes...)

// TypeGauge is the envelope type of instance measurements.
const TypeGauge = "GAUGE"

// envelopeTypes are log-cache's types; only LOG and GAUGE have data here.
var envelopeTypes = []string{TypeAny, TypeLog, "COUNTER", TypeGauge, "TIMER", "EVENT"}

// Options of the API. Zero fields mean the default.
type Options struct {
	// Tails limits the number of concurrent tails over HTTP; 1000.
	Tails int
	// History has the measurements for queries; nil means that there are no queries.
	History *History
	// Heartbeat is the interval of keep-alives of a quiet tail over HTTP; 15 s.
	Heartbeat time.Duration
}

type api struct {
	store   Store
	access  Access
	options Options
	started time.Time

	measured measured
	streams  streamCount
}

// someLogs are the scopes of which one is needed to read any log; Access decides which logs
// it gives access to.
var someLogs = append([]string{platform.ScopeRead}, seesAll...)

// Routes registers the log-cache API, the stream of the reverse log proxy's gateway, and
// the live tail, which is an addition. All given groups share the limits on streams.
func Routes(s Store, access Access, o Options, groups ...*web.Group) {
	o.Tails, o.Heartbeat = cmp.Or(o.Tails, 1000), cmp.Or(o.Heartbeat, 15*time.Second)
	a := &api{store: s, access: access, options: o, started: time.Now(), measured: measured{access: access}}
	for _, g := range groups {
		a.routes(g)
	}
}

func (a *api) routes(g *web.Group) {
	g.Handle(http.MethodGet, "/api/v1/info", web.Public("clients ask for the version before they log in"), a.info)
	g.Handle(http.MethodGet, "/api/v1/read/{source}", web.Scope(someLogs...), a.read)
	g.Handle(http.MethodGet, "/api/v1/tail/{source}", web.Scope(someLogs...), a.tail)
	g.Handle(http.MethodGet, "/api/v1/meta", web.Scope(someLogs...), a.meta)
	g.Handle(http.MethodGet, "/v2/read", web.Scope(someLogs...), a.stream)
	g.Handle(http.MethodGet, "/apps/{source}/stream", web.Scope(someLogs...), a.appStream)
	g.Handle(http.MethodGet, "/firehose/{id}", web.Scope(seesAll...), a.firehose)
	if a.options.History != nil {
		g.Handle(http.MethodGet, "/api/v1/query", web.Scope(someLogs...), a.query)
		g.Handle(http.MethodGet, "/api/v1/query_range", web.Scope(someLogs...), a.queryRange)
	}
}

func (a *api) info(w http.ResponseWriter, _ *http.Request) error {
	web.WriteJSON(w, http.StatusOK, map[string]string{
		"version":   apiVersion,
		"vm_uptime": strconv.FormatInt(int64(time.Since(a.started).Seconds()), 10),
	})
	return nil
}

func (a *api) mayRead(ctx context.Context, app string) (bool, error) {
	claims := token.FromContext(ctx)
	if claims == nil {
		return false, nil
	}
	if claims.HasAny(seesAll...) {
		return true, nil
	}
	return a.access.MayRead(ctx, claims, app)
}

// source returns the requested app, or "" if the caller may not read it.
func (a *api) source(r *http.Request) (string, error) {
	app := web.Param(r, "source")
	if may, err := a.mayRead(r.Context(), app); err != nil || !may {
		return "", err
	}
	return app, nil
}

func (a *api) read(w http.ResponseWriter, r *http.Request) error {
	app, err := a.source(r)
	if err != nil {
		return err
	}
	if app == "" {
		// As in log-cache: the same answer as for an app that does not exist.
		w.WriteHeader(http.StatusNotFound)
		return nil
	}
	q, err := parseRead(r.URL.Query())
	if err != nil {
		return err
	}
	entries, err := a.store.Read(r.Context(), app, q)
	if err != nil {
		return err
	}
	gauges, err := a.gaugesFor(r.Context(), app, q)
	if err != nil {
		return err
	}
	body := appendEnvelopes(make([]byte, 0, 64+1024*len(entries)), entries, gauges, q, a.access.About(r.Context(), app))
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write(body) //nolint:gosec // JSON and nosniff; a disconnected client is not an error
	return nil
}

// parseRead parses the query of a read as log-cache does.
func parseRead(v url.Values) (ReadQuery, error) {
	var q ReadQuery
	for name, into := range map[string]*int64{"start_time": &q.Start, "end_time": &q.End} {
		if text := v.Get(name); text != "" {
			n, err := strconv.ParseInt(text, 10, 64)
			if err != nil {
				return q, fault.Wrap(err, fault.BadQuery, "%s must be a number of nanoseconds", name)
			}
			*into = n
		}
	}
	if q.End != 0 && q.Start > q.End {
		return q, fault.New(fault.BadQuery, "start_time (%d) must be before end_time (%d)", q.Start, q.End)
	}
	if text := v.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 || n > MaxLimit {
			return q, fault.New(fault.BadQuery, "limit must be a number from 0 to %d", MaxLimit)
		}
		q.Limit = n
	}
	if text := v.Get("descending"); text != "" {
		b, err := strconv.ParseBool(text)
		if err != nil {
			return q, fault.New(fault.BadQuery, "descending must be true or false")
		}
		q.Descending = b
	}
	for _, list := range v["envelope_types"] {
		for name := range strings.SplitSeq(list, ",") {
			name = strings.ToUpper(strings.TrimSpace(name))
			// Protocol buffers also accept an enum's number.
			if n, err := strconv.Atoi(name); err == nil && n >= 0 && n < len(envelopeTypes) {
				name = envelopeTypes[n]
			}
			if !slices.Contains(envelopeTypes, name) {
				return q, fault.New(fault.BadQuery, "envelope_types must be of %s", strings.Join(envelopeTypes, ", "))
			}
			q.Types = append(q.Types, name)
		}
	}
	return q, nil
}

func (a *api) meta(w http.ResponseWriter, r *http.Request) error {
	// Protocol buffers encode 64-bit numbers as strings.
	type info struct {
		Count   uint64 `json:"count,string"`
		Expired uint64 `json:"expired,string"`
		Oldest  int64  `json:"oldest_timestamp,string"`
		Newest  int64  `json:"newest_timestamp,string"`
	}
	all, err := a.store.Meta(r.Context())
	if err != nil {
		return err
	}
	out := map[string]info{}
	for app, m := range all {
		may, err := a.mayRead(r.Context(), app)
		if err != nil {
			return err
		}
		if may && m.Count > 0 {
			out[app] = info{m.Count, m.Expired, m.Oldest.UnixNano(), m.Newest.UnixNano()}
		}
	}
	web.WriteJSON(w, http.StatusOK, map[string]any{"meta": out})
	return nil
}

// appendEnvelopes appends the response to a read. Clients reject unknown members, so it has
// only those of loggregator's envelopes.
//
// Gauges are measured when they are read, so they are newer than any line.
func appendEnvelopes(b []byte, entries []platform.LogLine, gauges []Gauge, q ReadQuery, about *About) []byte {
	b = append(b, `{"envelopes":{"batch":[`...)
	begin := len(b)
	next := func() {
		if len(b) > begin {
			b = append(b, ',')
		}
	}
	limit := cmp.Or(q.Limit, DefaultLimit)
	gauges = gauges[:min(len(gauges), limit)]
	if len(gauges) > 0 && len(entries)+len(gauges) > limit {
		if q.Descending {
			entries = entries[:limit-len(gauges)] // the newest come first
		} else {
			gauges = gauges[:max(limit-len(entries), 0)]
		}
	}
	addGauges := func() {
		for i := range gauges {
			next()
			b = appendGauge(b, &gauges[i], about)
		}
	}
	if q.Descending {
		addGauges()
	}
	var previous *platform.LogLine
	var middle []byte // from source_id to the tags: the same for lines of one origin
	for i := range entries {
		e := &entries[i]
		next()
		if previous == nil || !sameOrigin(previous, e) {
			middle = appendOriginJSON(middle[:0], e, about)
			previous = e
		}
		b = appendEnvelope(b, e, middle)
	}
	if !q.Descending {
		addGauges()
	}
	return append(b, "]}}"...)
}

// appendEnvelope appends one envelope; middle is the result of appendOriginJSON.
func appendEnvelope(b []byte, e *platform.LogLine, middle []byte) []byte {
	b = append(b, `{"timestamp":"`...)
	b = strconv.AppendInt(b, e.Time.UnixNano(), 10)
	b = append(b, middle...)
	b = append(b, `,"log":{"payload":"`...)
	b = base64.StdEncoding.AppendEncode(b, e.Text)
	if e.Stderr {
		return append(b, `","type":"ERR"}}`...)
	}
	return append(b, `","type":"OUT"}}`...)
}

func sameOrigin(a, b *platform.LogLine) bool {
	return a.App == b.App && a.Source == b.Source && a.Instance == b.Instance && a.Stream == b.Stream &&
		len(a.Tags) == 0 && len(b.Tags) == 0
}

func appendOriginJSON(b []byte, e *platform.LogLine, about *About) []byte {
	b = append(b, `","source_id":`...)
	b = appendJSON(b, e.App)
	b = append(b, `,"instance_id":`...)
	b = appendJSON(b, e.Instance)
	b = append(b, `,"deprecated_tags":{},"tags":`...)
	return appendJSON(b, Tags(e, about))
}

func appendJSON(b []byte, v any) []byte {
	out, err := json.Marshal(v)
	if err != nil {
		panic(err) // strings only
	}
	return append(b, out...)
}
