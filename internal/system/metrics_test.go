package system

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"ingot/internal/base/tracing/tracingtest"
	"ingot/internal/server/acme"
)

var update = flag.Bool("update", false, "write the table of metrics of docs/monitoring.md anew")

const monitoringPage = "../../docs/monitoring.md"

// described is a metric as its collector describes it.
type described struct {
	name, help string
	labels     []string
}

// kind returns the type that a metric has by its name: the names of counters end with _total,
// those of histograms with _duration_seconds.
func (d described) kind() string {
	switch {
	case strings.HasSuffix(d.name, "_total"):
		return "counter"
	case strings.HasSuffix(d.name, "_duration_seconds") && !strings.HasSuffix(d.name, "_last_duration_seconds"):
		return "histogram"
	}
	return "gauge"
}

var descText = regexp.MustCompile(
	`^Desc\{fqName: "([^"]*)", help: "((?:[^"\\]|\\.)*)", unit: "[^"]*", constLabels: \{\}, variableLabels: \{([^}]*)\}\}$`)

// metricsOf returns the metrics that a server can have, whether they have values yet or not.
func metricsOf(t *testing.T, r *prometheus.Registry) map[string]described {
	t.Helper()
	descs := make(chan *prometheus.Desc)
	go func() {
		defer close(descs)
		r.Describe(descs)
	}()
	all := map[string]described{}
	for d := range descs {
		m := descText.FindStringSubmatch(d.String())
		if m == nil {
			if strings.Contains(d.String(), `"ingot_`) {
				t.Errorf("unknown format: %s", d)
			}
			continue
		}
		one := described{name: m[1], help: strings.ReplaceAll(m[2], `\"`, `"`)}
		if m[3] != "" {
			one.labels = strings.Split(m[3], ",")
		}
		all[m[1]] = one
	}
	return all
}

// ours reports whether a metric is Ingot's, not of the libraries of Prometheus.
func ours(name string) bool { return strings.HasPrefix(name, "ingot_") }

func tracedSystem(t *testing.T) *System {
	t.Helper()
	c := testConfig(t)
	c.Traces.Endpoint = tracingtest.Start(t).URL // so that there are the metrics of traces, too
	c.SMTPURL = "smtp://127.0.0.1:1"             // and those of a mail server
	c.BounceListen = "127.0.0.1:0"
	s := startSystem(t, c)
	s.built.Load().registry.MustRegister(&acme.Manager{}) // and those of --acme-email
	return s
}

// Every metric is in docs/monitoring.md with its labels and its help, and every one there
// exists. Every label is explained, with its bound.
func TestMetricsAreDocumented(t *testing.T) {
	t.Parallel()
	all := metricsOf(t, tracedSystem(t).built.Load().registry)
	var table strings.Builder
	table.WriteString("| Metric | Type | Labels | Meaning |\n|---|---|---|---|\n")
	labels := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if m := all[name]; ours(name) {
			quoted := make([]string, len(m.labels))
			for i, l := range m.labels {
				labels[l], quoted[i] = true, "`"+l+"`"
			}
			fmt.Fprintf(&table, "| `%s` | %s | %s | %s |\n", name, m.kind(), strings.Join(quoted, ", "), m.help)
		}
	}
	raw, err := os.ReadFile(monitoringPage)
	if err != nil {
		t.Fatal(err)
	}
	const begin, end = "<!-- metrics: go test ./internal/system -run MetricsAreDocumented -update writes this table " +
		"-->\n\n", "\n<!-- end of metrics -->"
	before, rest, ok := strings.Cut(string(raw), begin)
	old, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		t.Fatalf("%s has no table of metrics", monitoringPage)
	}
	if *update {
		if err := os.WriteFile(monitoringPage, []byte(before+begin+table.String()+end+after), //nolint:gosec // a page
			0o644); err != nil {
			t.Fatal(err)
		}
	} else if old != table.String() {
		t.Errorf("the table of metrics in %s is not up to date; run: go test ./internal/system -run MetricsAreDocumented "+
			"-update\n%s", monitoringPage, differences(old, table.String()))
	}
	for label := range labels {
		if !slices.ContainsFunc(strings.Split(after, "\n"), func(row string) bool {
			cells := strings.Split(row, "|")
			return len(cells) == 4 && strings.Contains(cells[1], "`"+label+"`")
		}) {
			t.Errorf("%s does not say what bounds the label %s", monitoringPage, label)
		}
	}
}

// differences returns the lines that only one of the texts has.
func differences(old, now string) string {
	var b strings.Builder
	for _, pair := range []struct{ sign, a, b string }{{"-", old, now}, {"+", now, old}} {
		for line := range strings.Lines(pair.a) {
			if !strings.Contains(pair.b, line) {
				b.WriteString(pair.sign + line)
			}
		}
	}
	return b.String()
}

var metricName = regexp.MustCompile(`^ingot_[a-z]+(_[a-z0-9]+)*$`)

// Names follow the conventions of Prometheus: a prefix, base units, _total for counters and
// only for them; help texts are sentences; labels do not collide with those of a scrape.
func TestMetricsFollowConventions(t *testing.T) {
	t.Parallel()
	registry := tracedSystem(t).built.Load().registry
	for name, m := range metricsOf(t, registry) {
		if !ours(name) {
			continue
		}
		if !metricName.MatchString(name) {
			t.Errorf("%s: not a name of a metric", name)
		}
		for _, unit := range []string{"_ms", "_milliseconds", "_micros", "_kb", "_mb", "_kib", "_mib", "_minutes", "_hours",
			"_percent", "_count", "_sum", "_bucket"} {
			if strings.HasSuffix(name, unit) || strings.Contains(name, unit+"_") {
				t.Errorf("%s: %s is not a base unit, or reserved", name, unit)
			}
		}
		if m.help == "" || !strings.HasSuffix(m.help, ".") || strings.HasPrefix(m.help, " ") {
			t.Errorf("%s: the help %q is not a sentence", name, m.help)
		}
		for _, label := range m.labels {
			if slices.Contains([]string{"job", "instance", "le", "quantile", "user", "host", "path"}, label) {
				t.Errorf("%s: the label %s belongs to the scrape, or is not bounded", name, label)
			}
		}
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		want := described{name: f.GetName()}.kind()
		if got := strings.ToLower(f.GetType().String()); ours(f.GetName()) && got != want {
			t.Errorf("%s is a %s, but has the name of a %s", f.GetName(), got, want)
		}
	}
}
