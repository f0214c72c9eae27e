package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
)

const (
	alertRules    = "../packaging/monitoring/alerts.yaml"
	dashboardFile = "../packaging/monitoring/dashboard.json"
	monitoring    = "../docs/monitoring.md"
)

var promParser = parser.NewParser(parser.Options{})

// knownMetrics returns the metrics that docs/monitoring.md lists, which a test of
// internal/system compares with those of a server, and those that Prometheus's own
// libraries add.
func knownMetrics(t *testing.T, scrape string) map[string]bool {
	t.Helper()
	page, err := os.ReadFile(monitoring)
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{"up": true}
	for _, m := range regexp.MustCompile("(?m)^\\| `(ingot_[a-z0-9_]+)` \\| (counter|gauge|histogram) \\|").
		FindAllStringSubmatch(string(page), -1) {
		known[m[1]] = true
		if m[2] == "histogram" {
			for _, suffix := range []string{"_bucket", "_sum", "_count"} {
				known[m[1]+suffix] = true
			}
		}
	}
	if len(known) < 50 {
		t.Fatalf("%s lists %d metrics, want more", monitoring, len(known))
	}
	for _, m := range regexp.MustCompile(`(?m)^((?:go|process)_[a-z0-9_]+)(?:\{| )`).FindAllStringSubmatch(scrape, -1) {
		known[m[1]] = true
	}
	return known
}

// usesKnown reports metrics of an expression that do not exist.
func usesKnown(t *testing.T, what, text string, known map[string]bool) {
	t.Helper()
	expr, err := promParser.ParseExpr(text)
	if err != nil {
		t.Errorf("%s: %q: %v", what, text, err)
		return
	}
	found := 0
	parser.Inspect(expr, func(n parser.Node, _ []parser.Node) error {
		if v, ok := n.(*parser.VectorSelector); ok {
			found++
			if !known[v.Name] {
				t.Errorf("%s uses %q, which does not exist", what, v.Name)
			}
		}
		return nil
	})
	if found == 0 {
		t.Errorf("%s uses no metric", what)
	}
}

// readRules parses the alert rules as Prometheus does.
func readRules(t *testing.T) map[string]rulefmt.Rule {
	t.Helper()
	groups, errs := rulefmt.ParseFile(alertRules, false, model.UTF8Validation, promParser, slog.New(slog.DiscardHandler))
	for _, err := range errs {
		t.Fatal(err)
	}
	rules := map[string]rulefmt.Rule{}
	for _, g := range groups.Groups {
		for _, r := range g.Rules {
			rules[r.Alert] = r
		}
	}
	return rules
}

// figure is a series with its value before and in the last two minutes.
type figure struct {
	series      string
	before, now float64
}

// sampleLine is a line of the text format.
var sampleLine = regexp.MustCompile(`(?m)^([a-z][a-zA-Z0-9_]*(?:\{.*\})?) ([^ \n]+)$`)

// samplesOf parses a scrape.
func samplesOf(t *testing.T, scrape string) map[string]float64 {
	t.Helper()
	all := map[string]float64{}
	for _, m := range sampleLine.FindAllStringSubmatch(scrape, -1) {
		value, err := strconv.ParseFloat(m[2], 64)
		if err != nil {
			t.Fatalf("%s: %v", m[0], err)
		}
		all[m[1]] = value
	}
	if len(all) < 100 {
		t.Fatalf("the scrape has %d samples, want more:\n%s", len(all), scrape)
	}
	return all
}

// longBucket is a bucket of durations of a second and more.
var longBucket = regexp.MustCompile(`_bucket\{.*le="([1-9][0-9.e+]*)"`)

// quick changes samples as if nothing had taken longer than a second: how long it took says
// more about the machine of the test than about the server.
func quick(samples map[string]float64) map[string]float64 {
	for series := range samples {
		if m := longBucket.FindStringSubmatchIndex(series); m != nil {
			if all, ok := samples[series[:m[2]]+"+Inf"+series[m[3]:]]; ok {
				samples[series] = all
			}
		}
	}
	return samples
}

// evaluator evaluates expressions at one time.
type evaluator struct {
	engine *promql.Engine
	now    time.Time
	series []storage.Series
}

// newEvaluator returns one for series that had their first value for an hour, and the other one
// for the last two minutes, as scraped every 15 seconds.
func newEvaluator(t *testing.T, all []figure) *evaluator {
	t.Helper()
	e := &evaluator{now: time.Now().Truncate(time.Second), engine: promql.NewEngine(promql.EngineOpts{
		MaxSamples: 1e6, Timeout: time.Minute, Parser: promParser,
	})}
	t.Cleanup(func() { _ = e.engine.Close() })
	for _, s := range all {
		metric, err := promParser.ParseMetric(s.series)
		if err != nil {
			t.Fatalf("%s: %v", s.series, err)
		}
		var points []chunks.Sample
		for at := e.now.Add(-7 * time.Hour); !at.After(e.now); at = at.Add(15 * time.Second) {
			value := s.before
			if at.After(e.now.Add(-2 * time.Minute)) {
				value = s.now
			} else if strings.HasPrefix(s.series, "ingot_disk_free_bytes") { // it falls slowly
				value += (s.now - s.before) * (1 - e.now.Sub(at).Hours()/7)
			}
			points = append(points, point{at.UnixMilli(), value})
		}
		all := labels.NewBuilder(metric).Set("job", "ingot").Set("instance", "one:8082").Labels()
		e.series = append(e.series, storage.NewListSeries(all, points))
	}
	return e
}

// point is a chunks.Sample.
type point struct {
	at    int64
	value float64
}

func (p point) T() int64                      { return p.at }
func (p point) ST() int64                     { return 0 }
func (p point) F() float64                    { return p.value }
func (p point) H() *histogram.Histogram       { return nil }
func (p point) FH() *histogram.FloatHistogram { return nil }
func (p point) Type() chunkenc.ValueType      { return chunkenc.ValFloat }
func (p point) Copy() chunks.Sample           { return p }

// seriesSet is a storage.SeriesSet of a list.
type seriesSet struct {
	storage.SeriesSet
	all []storage.Series
	at  int
}

func (s *seriesSet) Next() bool         { s.at++; return s.at <= len(s.all) }
func (s *seriesSet) At() storage.Series { return s.all[s.at-1] }

func (e *evaluator) Querier(int64, int64) (storage.Querier, error) {
	return &storage.MockQuerier{SelectMockFunction: func(_ bool, _ *storage.SelectHints,
		matchers ...*labels.Matcher) storage.SeriesSet {
		found := &seriesSet{SeriesSet: storage.EmptySeriesSet()}
		for _, s := range e.series {
			if !slices.ContainsFunc(matchers, func(m *labels.Matcher) bool { return !m.Matches(s.Labels().Get(m.Name)) }) {
				found.all = append(found.all, s)
			}
		}
		return found
	}}, nil
}

// value returns the result of an expression; "" if it is empty, which means that an alert
// does not fire.
func (e *evaluator) value(t *testing.T, expr string) string {
	t.Helper()
	q, err := e.engine.NewInstantQuery(context.Background(), e, nil, expr, e.now)
	if err != nil {
		t.Fatalf("%s: %v", expr, err)
	}
	defer q.Close()
	r := q.Exec(context.Background())
	if r.Err != nil {
		t.Fatalf("%s: %v", expr, r.Err)
	}
	return r.String()
}

// sick are figures with which an alert fires.
var sick = map[string][]figure{
	"IngotDown":            {{`up`, 1, 0}},
	"IngotPartNotReady":    {{`ingot_part_ready{part="database"}`, 1, 0}},
	"IngotPanics":          {{`ingot_panics_total{part="build"}`, 1, 2}},
	"IngotFileDescriptors": {{`process_open_fds`, 10, 900}, {`process_max_fds`, 1000, 1000}},
	"IngotSpansLost":       {{`ingot_trace_spans_total{result="dropped"}`, 0, 10}},
	"IngotMemoryShort":     {{`ingot_pressure_seconds_total{resource="memory",waiting="full"}`, 0, 100}},
	"IngotDiskLow":         {{`ingot_disk_free_bytes`, 900, 150}, {`ingot_disk_reserve_bytes`, 100, 100}},
	"IngotDiskFull":        {{`ingot_disk_free_bytes`, 900, 50}, {`ingot_disk_reserve_bytes`, 100, 100}},
	"IngotBackupOld": {{`ingot_backup_last_success_timestamp_seconds`, 0,
		float64(time.Now().Add(-72 * time.Hour).Unix())}},
	"IngotBackupFailed": {{`ingot_backup_last_attempt_success`, 1, 0}},
	"IngotCertificateExpires": {{`ingot_acme_next_expiry_timestamp_seconds`, 0,
		float64(time.Now().Add(72 * time.Hour).Unix())}},
	"IngotCertificateOrdersFail": {{`ingot_acme_orders_total{outcome="failed"}`, 0, 10}},
	"IngotDatabaseDown":          {{`ingot_database_up{database="platform"}`, 1, 0}},
	"IngotDatabaseSlow": {
		{`ingot_database_transaction_duration_seconds_bucket{database="platform",mode="write",le="1"}`, 0, 1},
		{`ingot_database_transaction_duration_seconds_bucket{database="platform",mode="write",le="5"}`, 0, 100},
		{`ingot_database_transaction_duration_seconds_bucket{database="platform",mode="write",le="+Inf"}`, 0, 100}},
	"IngotDatabaseConnectionsScarce": {{`ingot_database_connection_wait_seconds_total{database="platform",pool="write"}`,
		0, 1000}},
	"IngotAppsHeldBack":        {{`ingot_apps_held_back`, 0, 1}},
	"IngotFirewallChanged":     {{`ingot_firewall_restored_total`, 0, 1}},
	"IngotInstancesNotRunning": {{`ingot_app_instances{state="crashed"}`, 0, 3}},
	"IngotTasksWait":           {{`ingot_tasks{state="pending"}`, 0, 1}},
	"IngotBuildsWait":          {{`ingot_staging_builds_waiting`, 0, 1}},
	"IngotBuildsFail":          {{`ingot_staging_duration_seconds_count{result="error"}`, 0, 1}},
	"IngotRouterErrors": {{`ingot_router_refusals_total{error="endpoint_failure"}`, 0, 5},
		{`ingot_router_requests_total{class="5xx"}`, 0, 5}, {`ingot_router_requests_total{class="2xx"}`, 0, 95}},
	"IngotAccessLogFull": {{`ingot_router_access_log_waiting`, 0, 13000}},
	"IngotAPIErrors": {
		{`ingot_http_request_duration_seconds_count{api="platform",method="GET",route="/v3/apps",status="500"}`, 0, 5},
		{`ingot_http_request_duration_seconds_count{api="platform",method="GET",route="/v3/apps",status="200"}`, 0, 95}},
	"IngotAPISlow": {
		{`ingot_http_request_duration_seconds_bucket{api="platform",method="GET",route="/v3/apps",status="200",le="2.5"}`, 0,
			1}, {`ingot_http_request_duration_seconds_bucket{api="platform",method="GET",route="/v3/apps",status="200",le="10"}`,
			0, 100},
		{`ingot_http_request_duration_seconds_bucket{api="platform",method="GET",route="/v3/apps",status="200",le="+Inf"}`, 0,
			100}},
	"IngotBrokerFails": {{`ingot_broker_request_duration_seconds_count{operation="bind",result="timeout"}`,
		0, 9}},
	"IngotServiceJobsWait": {{`ingot_service_jobs{state="processing"}`, 0, 200}},
	"IngotMailWaits":       {{`ingot_notify_waiting`, 5000, 4000}},
	"IngotMailFails": {{`ingot_notify_messages_total{status="failed"}`, 0, 90},
		{`ingot_notify_messages_total{status="delivered"}`, 0, 10}},
	"IngotRecipientsUnknown":   {{`ingot_notify_expansion_lag_seconds`, 0, 1000}},
	"IngotMailJournal":         {{`ingot_notify_journal_errors_total`, 0, 1}},
	"IngotLogLinesLost":        {{`ingot_log_lines_lost_total`, 0, 7}},
	"IngotLogDrainDown":        {{`ingot_log_drain_up{app_id="a",drain="d"}`, 1, 0}},
	"IngotShardsWithoutServer": {{`ingot_cluster_shards`, 64, 40}},
	"IngotClockSkew":           {{`ingot_cluster_clock_skew_seconds`, 0, -3}},
	"IngotDiskFillsUp": {{`ingot_disk_free_bytes`, 1e12, 2e11}, {`ingot_disk_reserve_bytes`, 1e11, 1e11},
		{`ingot_disk_size_bytes`, 1e12, 1e12}},
}

// rulesHold evaluates the alert rules with Prometheus's engine: all are silent with the figures
// of a healthy server, before and after it had something to do, and each fires when it should.
func rulesHold(t *testing.T, before, now string) {
	t.Helper()
	rules, known := readRules(t), knownMetrics(t, now)
	page, err := os.ReadFile(monitoring)
	if err != nil {
		t.Fatal(err)
	}
	old, healthy := quick(samplesOf(t, before)), []figure{{"up", 1, 1}}
	for series, value := range quick(samplesOf(t, now)) {
		healthy = append(healthy, figure{series, old[series], value})
	}
	well := newEvaluator(t, healthy)
	if well.value(t, "sum(increase(ingot_database_transaction_duration_seconds_count[5m])) > 10") == "" {
		t.Error("the server had nothing to do")
	}
	for name, r := range rules {
		usesKnown(t, name, r.Expr, known)
		if fires := well.value(t, r.Expr); fires != "" {
			t.Errorf("%s fires on a healthy server: %s", name, fires)
		}
		if len(sick[name]) == 0 {
			t.Errorf("no figures make %s fire", name)
		} else if newEvaluator(t, sick[name]).value(t, r.Expr) == "" {
			t.Errorf("%s does not fire with %v", name, sick[name])
		}
		if want := "docs/monitoring.md#" + strings.ToLower(name); r.Annotations["runbook_url"] != want ||
			!strings.Contains(string(page), "\n### "+name+"\n") {
			t.Errorf("%s: the runbook is %q, want %q and a heading there", name, r.Annotations["runbook_url"], want)
		}
		if !slices.Contains([]string{"critical", "warning", "info"}, r.Labels["severity"]) {
			t.Errorf("%s has severity %q", name, r.Labels["severity"])
		}
	}
	for name := range maps.Keys(sick) {
		if _, ok := rules[name]; !ok {
			t.Errorf("there is no rule %s", name)
		}
	}
}

// dashboardHolds parses every query of the dashboard, and evaluates it.
func dashboardHolds(t *testing.T, now string) {
	t.Helper()
	text, err := os.ReadFile(dashboardFile)
	if err != nil {
		t.Fatal(err)
	}
	var board struct {
		Title  string
		Panels []struct {
			Title, Type string
			Targets     []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(text, &board); err != nil {
		t.Fatal(err)
	}
	var all []figure
	for series, value := range samplesOf(t, now) {
		all = append(all, figure{series, value, value})
	}
	known, e, queries := knownMetrics(t, now), newEvaluator(t, all), 0
	for _, p := range board.Panels {
		if p.Type == "row" {
			continue
		}
		if len(p.Targets) == 0 {
			t.Errorf("panel %q has no query", p.Title)
		}
		for i, target := range p.Targets {
			queries++
			expr := strings.ReplaceAll(target.Expr, "$instance", ".*")
			usesKnown(t, fmt.Sprintf("panel %q, query %d", p.Title, i), expr, known)
			e.value(t, expr)
		}
	}
	if queries < 40 {
		t.Errorf("the dashboard has %d queries, want more", queries)
	}
}
