package apps

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"ingot/internal/base/web"
	"ingot/internal/platform"
	"ingot/internal/platform/api/listing"
	"ingot/internal/platform/api/rest"
	"ingot/internal/platform/series"
)

// Series has what apps did over time.
type Series interface {
	// History returns the points of a scope of an app in a range of time that ends now.
	History(ctx context.Context, appGUID string, in series.Range, now time.Time) (*series.History, error)
}

const (
	// maxMarkers is the number of markers of an answer; the newest are shown.
	maxMarkers = 200
	// maxSeriesPoints is the largest number of points that can be asked for, and more than any
	// range has.
	maxSeriesPoints = 5000
)

// markerKinds are the audit events that are markers, with their kind.
var markerKinds = map[string]string{
	platform.EventCrash: "crash", "audit.app.deployment.create": "deployment", "audit.app.process.scale": "scaling",
	"audit.app.restart": "restart", "audit.app.start": "start", "audit.app.stop": "stop",
	platform.EventDevelopersNotified: "alert",
}

func (a *API) seriesRoutes(g *web.Group) {
	// Who may read an app may read its stats, and what they were.
	g.Handle(http.MethodGet, "/v3/ingot/apps/{guid}/series", rest.Read, a.series)
	g.Handle(http.MethodGet, "/v3/ingot/apps/{guid}/metrics", rest.Read, a.metrics)
	g.Handle(http.MethodGet, "/v3/ingot/system/series", web.Scope(platform.ReadAllScopes...), a.platformSeries)
}

type seriesLimits struct {
	Instances int   `json:"instances"`
	Memory    int64 `json:"memory"`
	Disk      int64 `json:"disk"`
	// LogRate is -1 where it is not limited.
	LogRate int64 `json:"log_rate"`
}

type marker struct {
	Time time.Time `json:"time"`
	Kind string    `json:"kind"`
	Text string    `json:"text"`
}

type seriesProcess struct {
	Type      string `json:"type"`
	Instances []int  `json:"instances"`
}

type seriesBody struct {
	Range     string                `json:"range"`
	Start     string                `json:"start"`
	End       string                `json:"end"`
	Step      int64                 `json:"step"`
	Process   *string               `json:"process"`
	Instance  *int                  `json:"instance"`
	Processes []seriesProcess       `json:"processes"`
	Limits    seriesLimits          `json:"limits"`
	Series    map[string][]*float64 `json:"series"`
	Markers   []marker              `json:"markers"`
	Links     rest.Links            `json:"links"`
}

// seriesQuery is what a request asks for.
type seriesQuery struct {
	in       series.Range
	process  string
	instance int // -1 means all
	points   int // 0 means as many as there are
}

func (q *seriesQuery) scope() string {
	if q.instance >= 0 {
		return series.Scope(q.process, q.instance)
	}
	return q.process
}

// coarser returns no more points than are asked for. The step stays a multiple of theirs.
func (q *seriesQuery) coarser(points series.Points) series.Points {
	return points.AtMost(q.points)
}

func readSeriesQuery(r *http.Request) (q seriesQuery, err error) {
	q.in, q.instance = series.Ranges[0], -1
	var names []string
	for _, one := range series.Ranges {
		names = append(names, one.Name)
	}
	for name, values := range r.URL.Query() {
		value := values[0]
		bad := func(want string) error {
			return listing.BadQuery("%s must be %s", name, want)
		}
		switch name {
		case "range":
			i := slices.Index(names, value)
			if i < 0 {
				return q, bad("one of " + strings.Join(names, ", "))
			}
			q.in = series.Ranges[i]
		case "process":
			q.process = value
		case "instance":
			if q.instance, err = strconv.Atoi(value); err != nil || q.instance < 0 {
				return q, bad("the index of an instance")
			}
		case "points":
			if q.points, err = strconv.Atoi(value); err != nil || q.points < 1 || q.points > maxSeriesPoints {
				return q, bad("a number from 1 to " + strconv.Itoa(maxSeriesPoints))
			}
		default:
			return q, listing.BadQuery("Unknown query parameter(s): '%s'. Valid parameters are: 'range', 'process', "+
				"'instance', 'points'", name)
		}
	}
	if q.instance >= 0 && q.process == "" {
		q.process = "web"
	}
	return q, nil
}

// series shows what an app did in the last hour, day, week or 30 days.
func (a *API) series(w http.ResponseWriter, r *http.Request) error {
	q, err := readSeriesQuery(r)
	if err != nil {
		return err
	}
	now := time.Now()
	from, to := q.in.Window(now.Unix())
	body, err := rest.View(a.Server, r, func(req *rest.Request) (*seriesBody, error) {
		app, err := rest.Find(req.Caller, req.Tx.Apps(), web.Param(r, "guid"), "App")
		if err != nil {
			return nil, err
		}
		b := &seriesBody{Range: q.in.Name, Process: rest.OrNull(q.process), Links: rest.Links{
			"self": rest.Href(req.Base, r.URL.Path), "app": req.Link("/apps/", rest.Escape(app.GUID))}}
		if q.instance >= 0 {
			b.Instance = &q.instance
		}
		if b.Limits, err = limitsOf(req.Tx, app.GUID, &q); err != nil {
			return nil, err
		}
		b.Markers, err = markersOf(req.Tx, app.GUID, time.Unix(from, 0), &q)
		return b, err
	})
	if err != nil {
		return err
	}
	history := series.Merge(nil, from, to, q.in.Step)
	if a.Series != nil {
		if history, err = a.Series.History(r.Context(), web.Param(r, "guid"), q.in, now); err != nil {
			return err
		}
	}
	points := q.coarser(history.Points(q.scope()))
	body.Start, body.End = rest.Timestamp(time.Unix(points.Start, 0)), rest.Timestamp(time.Unix(to, 0))
	body.Step, body.Processes, body.Series = points.Step, processesIn(history), presentSeries(points)
	return web.Answer(w, http.StatusOK, body, nil)
}

// limitsOf returns the limits of what a query asks for, as they are now.
func limitsOf(tx platform.Tx, app string, q *seriesQuery) (l seriesLimits, err error) {
	processes, _, err := tx.Processes().List(platform.Query{
		Where: []platform.Cond{platform.In("app_guid", app)}, WithoutSecrets: true})
	for _, p := range processes {
		n := p.Instances
		if q.process != "" && q.process != p.Type {
			continue
		}
		if q.instance >= 0 {
			n = 1
		}
		l.Instances += n
		l.Memory += int64(n) * int64(p.MemoryMB) << 20
		l.Disk += int64(n) * int64(p.DiskMB) << 20
		switch {
		case p.LogRate < 0 || l.LogRate < 0:
			l.LogRate = -1
		default:
			l.LogRate += int64(n) * p.LogRate
		}
	}
	return l, err
}

// markersOf returns what happened to an app since a time, the oldest first.
func markersOf(tx platform.Tx, app string, from time.Time, q *seriesQuery) ([]marker, error) {
	types := make([]any, 0, len(markerKinds))
	for kind := range markerKinds {
		types = append(types, kind)
	}
	query := platform.Where("target_guid", app).And(platform.In("type", types...)).
		And(platform.Cond{Field: "created_at", Op: platform.OpGreaterEqual, Values: []any{from}})
	query.Order, query.Desc, query.Page, query.PerPage = "created_at", true, 1, maxMarkers
	events, _, err := tx.AuditEvents().List(query)
	out := []marker{}
	for _, e := range events {
		kind := markerKinds[e.Type]
		if kind == "crash" && q.instance >= 0 && indexOf(e) != strconv.Itoa(q.instance) {
			continue
		}
		out = append(out, marker{e.Created.UTC(), kind, markerText(kind, e)})
	}
	slices.Reverse(out)
	return out, err
}

// indexOf returns the index of the instance that an event is about.
func indexOf(e *platform.AuditEvent) string { return fmt.Sprint(e.Data["index"]) }

// markerText describes an event in a few words.
func markerText(kind string, e *platform.AuditEvent) string {
	switch kind {
	case "crash":
		text := "Instance " + indexOf(e) + " crashed"
		if why, ok := e.Data["exit_description"].(string); ok && why != "" {
			text += ": " + why
		}
		return text
	case "deployment":
		return "Deployment by " + e.ActorName
	case "scaling":
		return "Scaled by " + e.ActorName
	case "restart":
		return "Restarted by " + e.ActorName
	case "start":
		return "Started by " + e.ActorName
	case "alert":
		return fmt.Sprintf("Developers were notified: %v", e.Data["subject"])
	}
	return "Stopped by " + e.ActorName
}

// processesIn returns the processes and instances that have points.
func processesIn(h *series.History) []seriesProcess {
	out := []seriesProcess{}
	at := map[string]int{}
	for _, scope := range h.Scopes {
		process, index := series.Split(scope)
		if process == "" {
			continue
		}
		i, known := at[process]
		if !known {
			i = len(out)
			at[process] = i
			out = append(out, seriesProcess{Type: process, Instances: []int{}})
		}
		if index >= 0 {
			out[i].Instances = append(out[i].Instances, index)
		}
	}
	for i := range out {
		slices.Sort(out[i].Instances)
	}
	return out
}

// seriesField is a field with its name in answers; a rate is divided by the seconds of a point.
type seriesField struct {
	name  string
	field series.Field
	rate  bool
	times float64
}

var seriesFields = []seriesField{
	{"requests_2xx", series.Status2xx, true, 1}, {"requests_3xx", series.Status3xx, true, 1},
	{"requests_4xx", series.Status4xx, true, 1}, {"requests_5xx", series.Status5xx, true, 1},
	{"requests_other", series.StatusOther, true, 1},
	{"latency_p50", series.P50, false, 1000}, {"latency_p95", series.P95, false, 1000},
	{"latency_p99", series.P99, false, 1000},
	{"cpu", series.CPU, false, 1}, {"memory", series.Memory, false, 1}, {"disk", series.Disk, false, 1},
	{"crashes", series.Crashes, false, 1}, {"log_rate", series.LogBytes, true, 1},
	{"instances", series.Instances, false, 1},
}

// presentSeries returns the values of each field; null where nothing was measured.
func presentSeries(points series.Points) map[string][]*float64 {
	out := map[string][]*float64{"requests": make([]*float64, len(points.All))}
	addSeries(out, points, seriesFields)
	for i := range points.All {
		if p := &points.All[i]; p.Has(series.Status2xx) {
			out["requests"][i] = rounded(p.Requests() / float64(points.Step))
		}
	}
	return out
}

// addSeries adds the values of fields.
func addSeries(out map[string][]*float64, points series.Points, fields []seriesField) {
	for _, f := range fields {
		values := make([]*float64, len(points.All))
		for i := range points.All {
			if p := &points.All[i]; p.Has(f.field) {
				v := p[f.field] * f.times
				if f.rate {
					v /= float64(points.Step)
				}
				values[i] = rounded(v)
			}
		}
		out[f.name] = values
	}
}

// rounded drops digits that mean nothing, so that answers are small.
func rounded(v float64) *float64 {
	scale := 10000.0
	if v >= 1000 {
		scale = 1
	}
	v = math.Round(v*scale) / scale
	return &v
}
