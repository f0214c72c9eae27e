package system

import (
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"time"

	"ingot/internal/base/cfapi"
	"ingot/internal/base/digits"
	"ingot/internal/console/chart"
	"ingot/internal/console/page"
)

// ranges are the time spans of the page, the shortest first.
var ranges = []string{"1h", "24h", "7d", "30d"}

type historyData struct {
	Charts  []template.HTML
	Ranges  []page.Tab
	Command string
}

// loadHistory is GET /console/system/history, for administrators: ?range=.
func (c pages) loadHistory(r *http.Request, s *page.Session) (any, error) {
	in := r.URL.Query().Get("range")
	if !slices.Contains(ranges, in) {
		in = ranges[0]
	}
	const address = "/v3/ingot/system/series"
	var found cfapi.Series
	if err := c.Platform(r, s).Get(&found, address, url.Values{"range": {in}, "points": {"360"}}); err != nil {
		return nil, forAdministrators(err, "The history of the system is for administrators and global auditors.")
	}
	data := &historyData{Charts: charts(&found), Command: page.Command("cf", "curl", address+"?range="+in)}
	for _, name := range ranges {
		data.Ranges = append(data.Ranges, page.Tab{Name: name, Link: page.Path + "/system/history?range=" + name,
			Current: name == in})
	}
	return data, nil
}

// charts draws the charts of an answer.
func charts(s *cfapi.Series) []template.HTML {
	const ten, binary = 10, 1024
	bytes := func(v float64) string { return page.HumanBytes(int64(v)) }
	line := func(name, key string) chart.Line { return chart.Line{Name: name, Values: s.Values[key]} }
	all := []chart.Chart{
		{Name: "requests", Title: "Requests to apps", Say: chart.PerSecond, Least: 1, Base: ten, Lines: []chart.Line{
			line("2xx", "requests_2xx"), line("3xx", "requests_3xx"), line("4xx", "requests_4xx"), line("5xx", "requests_5xx"),
			line("other", "requests_other")}},
		{Name: "latency", Title: "Latency of apps", Say: digits.Milliseconds, Least: ten, Base: ten, Lines: []chart.Line{
			line("p50", "latency_p50"), line("p95", "latency_p95"), line("p99", "latency_p99")}},
		{Name: "messages", Title: "Messages", Say: chart.PerSecond, Least: 1, Base: ten, Lines: []chart.Line{
			line("accepted", "messages_queued"), line("delivered", "messages_delivered"), line("failed", "messages_failed"),
			line("undeliverable", "messages_undeliverable"), line("unsubscribed", "messages_unsubscribed"),
			line("tried again", "messages_retried")}},
		{Name: "queue", Title: "Messages that wait", Say: chart.Number, Least: ten, Base: ten, Lines: []chart.Line{
			line("Waiting", "messages_waiting")}},
		{Name: "builds", Title: "Builds", Say: chart.Number, Least: 4, Base: ten, Lines: []chart.Line{
			line("staged", "builds_staged"), line("failed", "builds_failed"), line("errors", "builds_error"),
			line("running", "builds_running"), line("waiting", "builds_waiting")}},
		{Name: "instances", Title: "Instances", Say: chart.Number, Least: 4, Base: ten, Lines: []chart.Line{
			line("Running", "instances")}},
		{Name: "crashes", Title: "Crashes", Say: chart.Number, Least: 4, Base: ten, Lines: []chart.Line{
			line("Crashes", "crashes")}},
		{Name: "cpu", Title: "CPU of apps", Say: chart.Percent, Least: ten, Base: ten, Lines: []chart.Line{
			{Name: "CPU", Values: chart.Percents(s.Values["cpu"])}}},
		{Name: "memory", Title: "Memory of apps", Say: bytes, Least: 1 << 20, Base: binary, Lines: []chart.Line{
			line("Memory", "memory")}},
	}
	out := make([]template.HTML, len(all))
	for i := range all {
		all[i].Start, all[i].Step = s.Start, time.Duration(s.Step)*time.Second
		out[i] = all[i].HTML()
	}
	return out
}
