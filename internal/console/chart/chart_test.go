package chart_test

import (
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ingot/internal/console/chart"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// values returns values; a negative one is a gap.
func values(all ...float64) []*float64 {
	out := make([]*float64, len(all))
	for i, v := range all {
		if v >= 0 {
			out[i] = &v
		}
	}
	return out
}

func say(v float64) string { return fmt.Sprintf("%.4g%%", v) }

// TestGolden compares charts with files: a line with gaps, a limit and markers, nothing at all, zeros,
// and hostile texts.
func TestGolden(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	for name, c := range map[string]chart.Chart{
		"line": {Title: "CPU", Lines: []chart.Line{{"CPU", values(1, 2, -1, 40, 30)}, {"Other", values(5, 5, 5, 5, 5)}},
			Limits: []chart.Limit{{"Limit", 50}}, Markers: []chart.Marker{
				{start.Add(20 * time.Second), "crash", "Instance 0 crashed"},
				{start.Add(-time.Hour), "deployment", "before"}}},
		"nothing": {Title: "CPU", Lines: []chart.Line{{"CPU", values(-1, -1, -1)}}},
		"zeros":   {Title: "CPU", Lines: []chart.Line{{"CPU", values(0, 0, 0, 0)}}},
		"hostile": {Title: `<script>"x"</script>`, Lines: []chart.Line{{`<b>"`, values(1)}},
			Markers: []chart.Marker{{start, `x" onload="x()`, "<script>"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.Name, c.Say, c.Least, c.Base, c.Start, c.Step = "cpu", say, 10, 10, start, 10*time.Second
			got := strings.ReplaceAll(string(c.HTML()), "><", ">\n<") + "\n"
			file := filepath.Join("testdata", name+".html")
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil || string(want) != got {
				t.Errorf("%s is\n%s\nwant\n%s\n%v; go test ./internal/console/chart -update", name, got, want, err)
			}
			if strings.Contains(got, "style") || strings.Contains(got, "<script") || strings.Contains(got, ` onload="`) {
				t.Errorf("the chart has a style or a script: %s", got)
			}
		})
	}
}

// TestFlat: zeros are a line at the bottom, and a small value stays small.
func TestFlat(t *testing.T) {
	t.Parallel()
	for _, v := range []float64{0, 0.04} {
		c := chart.Chart{Name: "cpu", Title: "CPU", Say: say, Least: 10, Base: 10, Step: time.Second,
			Lines: []chart.Line{{"CPU", values(v, v)}}}
		if got := string(c.HTML()); !strings.Contains(got, "10%</text>") || !strings.Contains(got, " 178h0L") &&
			!strings.Contains(got, " 177.3h0L") {
			t.Errorf("%v is %s", v, got)
		}
	}
}

// TestHostileValues: a chart of values that no measurement returns is still one, with coordinates that are numbers
// inside of it.
func TestHostileValues(t *testing.T) {
	t.Parallel()
	for name, v := range map[string][]float64{
		"no numbers": {math.NaN(), math.NaN()}, "infinite": {1, math.Inf(1), 2}, "minus infinite": {1, math.Inf(-1), 2},
		"negative": {-1, -1e300}, "huge": {math.MaxFloat64, 1}, "tiny": {math.SmallestNonzeroFloat64}, "none": {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := make([]*float64, len(v))
			for i := range v {
				all[i] = &v[i]
			}
			c := chart.Chart{Name: "cpu", Title: "CPU", Say: func(float64) string { return "x" }, Least: 10, Base: 10,
				Step: time.Second, Lines: []chart.Line{{"CPU", all}}, Limits: []chart.Limit{{"Limit", v0(v)}}}
			if got := string(c.HTML()); strings.Contains(got, "NaN") || strings.Contains(got, "Inf") ||
				!strings.Contains(got, "</figure>") {
				t.Errorf("the chart is %s", got)
			}
		})
	}
}

// v0 returns the first of some values, or 0.
func v0(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	return v[0]
}

// BenchmarkHTML draws a chart of 360 points with five lines.
func BenchmarkHTML(b *testing.B) {
	c := chart.Chart{Name: "x", Title: "X", Say: say, Least: 1, Base: 10, Step: time.Hour}
	for l := range 5 {
		var all []float64
		for i := range 360 {
			all = append(all, float64(i*l%37))
		}
		c.Lines = append(c.Lines, chart.Line{Name: "l", Values: values(all...)})
	}
	for range b.N {
		_ = c.HTML()
	}
}
