package apps

import (
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"ingot/internal/base/cfapi"
	"ingot/internal/base/digits"
	"ingot/internal/console/chart"
	"ingot/internal/console/page"
)

// historyRanges are the time spans of the page, the shortest first.
var historyRanges = []string{"1h", "24h", "7d", "30d"}

// historyPoints is how many points a chart has at most, which are more than can be seen.
const historyPoints = "360"

type historyData struct {
	Charts  []template.HTML
	Ranges  []page.Tab
	Scopes  []page.Tab
	Markers []cfapi.SeriesMarker
	Command string
}

// history is GET /console/apps/GUID/history: ?range=, ?process=, ?instance=.
func (c *pages) history(w http.ResponseWriter, r *http.Request, s *page.Session) error {
	return ShowTab(c.Console, w, r, s, "history", loadHistory)
}

func loadHistory(r *http.Request, call *page.Caller, d *Data) (any, error) {
	q := r.URL.Query()
	in := q.Get("range")
	if !slices.Contains(historyRanges, in) {
		in = historyRanges[0]
	}
	process, instance := q.Get("process"), q.Get("instance")
	if _, err := strconv.ParseUint(instance, 10, 31); err != nil {
		instance = ""
	}
	values := url.Values{"range": {in}, "points": {historyPoints}}
	set := func(v url.Values) {
		if process != "" {
			v.Set("process", process)
		}
		if instance != "" {
			v.Set("instance", instance)
		}
	}
	set(values)
	var found cfapi.Series
	if err := call.Get(&found, "/v3/ingot/apps/"+url.PathEscape(d.App.GUID)+"/series", values); err != nil {
		return nil, err
	}
	at := page.Path + "/apps/" + url.PathEscape(d.App.GUID) + "/history?"
	data := &historyData{Charts: historyCharts(&found), Command: page.Command("ingot", "app", d.App.Name, "--history="+in)}
	for _, name := range historyRanges {
		v := url.Values{"range": {name}}
		set(v)
		data.Ranges = append(data.Ranges, page.Tab{Name: name, Link: at + v.Encode(), Current: name == in})
	}
	data.Scopes = historyScopes(&found, at, in, process, instance)
	if n := len(found.Markers); n > 0 {
		data.Markers = slices.Clone(found.Markers[max(0, n-20):])
		slices.Reverse(data.Markers)
	}
	return data, nil
}

// historyScopes returns links to the app, its processes and its instances.
func historyScopes(s *cfapi.Series, at, in, process, instance string) []page.Tab {
	all := []page.Tab{{Name: "App", Link: at + url.Values{"range": {in}}.Encode(),
		Current: process == "" && instance == ""}}
	for _, p := range s.Processes {
		all = append(all, page.Tab{Name: p.Type, Link: at + url.Values{"range": {in}, "process": {p.Type}}.Encode(),
			Current: process == p.Type && instance == ""})
		for _, i := range p.Instances {
			index := strconv.Itoa(i)
			all = append(all, page.Tab{Name: p.Type + "/" + index, Link: at + url.Values{"range": {in}, "process": {p.Type},
				"instance": {index}}.Encode(), Current: process == p.Type && instance == index})
		}
	}
	return all
}

// historyCharts draws the charts of an answer.
func historyCharts(s *cfapi.Series) []template.HTML {
	const ten = 10
	bytes := func(v float64) string { return page.HumanBytes(int64(v)) }
	line := func(name, key string) chart.Line { return chart.Line{Name: name, Values: s.Values[key]} }
	limit := func(name string, value int64) []chart.Limit {
		if value <= 0 {
			return nil
		}
		return []chart.Limit{{Name: name, Value: float64(value)}}
	}
	charts := []chart.Chart{
		{Name: "requests", Title: "Requests", Say: chart.PerSecond, Least: 1, Base: ten, Lines: []chart.Line{
			line("2xx", "requests_2xx"), line("3xx", "requests_3xx"), line("4xx", "requests_4xx"), line("5xx", "requests_5xx"),
			line("other", "requests_other")}},
		{Name: "latency", Title: "Latency", Say: digits.Milliseconds, Least: 10,
			Base: ten, Lines: []chart.Line{line("p50", "latency_p50"), line("p95", "latency_p95"), line("p99", "latency_p99")}},
		{Name: "cpu", Title: "CPU", Say: chart.Percent, Least: 10, Base: ten,
			Lines: []chart.Line{{Name: "CPU", Values: chart.Percents(s.Values["cpu"])}}},
		{Name: "memory", Title: "Memory", Say: bytes, Least: 1 << 20, Base: 1024, Lines: []chart.Line{line("Memory",
			"memory")}, Limits: limit("Limit", s.Limits.Memory)},
		{Name: "disk", Title: "Disk", Say: bytes, Least: 1 << 20, Base: 1024, Lines: []chart.Line{line("Disk", "disk")},
			Limits: limit("Limit", s.Limits.Disk)},
		{Name: "log-rate", Title: "Log output", Say: func(v float64) string { return bytes(v) + "/s" }, Least: 1024,
			Base: 1024, Lines: []chart.Line{line("Output", "log_rate")}, Limits: limit("Limit", s.Limits.LogRate)},
		{Name: "crashes", Title: "Crashes", Say: chart.Number, Least: 4,
			Base: ten, Lines: []chart.Line{line("Crashes", "crashes")}},
		{Name: "instances", Title: "Instances", Say: chart.Number, Least: 4,
			Base: ten, Lines: []chart.Line{line("Running", "instances")}, Limits: limit("Wanted", int64(s.Limits.Instances))},
	}
	out := make([]template.HTML, len(charts))
	for i := range charts {
		one := &charts[i]
		one.Start, one.Step = s.Start, time.Duration(s.Step)*time.Second
		for _, m := range s.Markers {
			one.Markers = append(one.Markers, chart.Marker{Time: m.Time, Kind: markerClass(m.Kind), Text: m.Text})
		}
		out[i] = one.HTML()
	}
	return out
}

// markerClass returns the class of a kind of marker.
func markerClass(kind string) string {
	switch kind {
	case "crash", "deployment", "scaling", "alert":
		return kind
	}
	return "other"
}
