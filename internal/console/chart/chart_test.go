package chart_test

import (
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
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

// The lowest and the highest y of a line in a chart.
const lowest, highest = 178.0, 8.0

// heights returns the y of each point of the first line, those of the lines of limits, and the text at the top of the
// scale.
func heights(t *testing.T, html string) (line, limits []float64, most string) {
	t.Helper()
	number := func(text string) float64 {
		v, err := strconv.ParseFloat(text, 64)
		if err != nil {
			t.Fatalf("%v in %s", err, html)
		}
		return v
	}
	path := regexp.MustCompile(`class="line l0" d="([^"]*)"`).FindStringSubmatch(html)
	if path == nil {
		t.Fatalf("no line in %s", html)
	}
	for _, point := range regexp.MustCompile(`[ML]\S+ ([0-9.]+)`).FindAllStringSubmatch(path[1], -1) {
		line = append(line, number(point[1]))
	}
	for _, l := range regexp.MustCompile(`class="limit" x1="70" x2="712" y1="(\S+)" y2="(\S+)"`).FindAllStringSubmatch(
		html, -1) {
		if l[1] != l[2] {
			t.Errorf("the limit %v is not horizontal", l)
		}
		limits = append(limits, number(l[1]))
	}
	scale := regexp.MustCompile(`class="y" x="64" y="8">([^<]*)<`).FindStringSubmatch(html)
	if scale == nil {
		t.Fatalf("nothing at the top of the scale: %s", html)
	}
	return line, limits, scale[1]
}

// TestFlat: zeros are a line at the bottom, a small value stays small, and the scale stays the same.
func TestFlat(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		values []*float64
		y      float64
	}{
		{values(0, 0, 0), lowest}, {values(0.04, 0.04), 177.3}, {values(0.0001, 0.0001), lowest}, {values(0), lowest},
		{values(10, 10), highest},
	} {
		c := chart.Chart{Name: "cpu", Title: "CPU", Say: chart.Percent, Least: 10, Base: 10, Step: time.Second,
			Lines: []chart.Line{{"CPU", test.values}}}
		line, _, most := heights(t, string(c.HTML()))
		if len(line) != len(test.values) || most != "10.0%" {
			t.Errorf("%d values have the points %v below %s", len(test.values), line, most)
		}
		for _, y := range line {
			if y != test.y {
				t.Errorf("the line is at %v, want %v", line, test.y)
			}
		}
	}
}

// TestLimits: a limit is a line within the scale, also if it is far above or below the values, and the legend has its
// value.
func TestLimits(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		value, limit float64
		base         int
		least        float64
		most         string
	}{
		{1, 64 << 20, 1024, 1 << 20, "6.711e+07%"}, {200, 50, 10, 10, "200%"}, {0, 100, 10, 10, "100%"},
		{3, 4, 10, 4, "4%"}, {0, 97, 10, 10, "100%"}, {1e15, 1, 10, 10, "1e+15%"},
	} {
		c := chart.Chart{Name: "x", Title: "X", Say: say, Least: test.least, Base: test.base, Step: time.Second,
			Lines: []chart.Line{{"X", values(test.value)}}, Limits: []chart.Limit{{"Quota", test.limit}}}
		html := string(c.HTML())
		line, limits, most := heights(t, html)
		if most != test.most || len(limits) != 1 || len(line) != 1 {
			t.Errorf("%+v: the line %v, the limits %v, the scale %s", test, line, limits, most)
			continue
		}
		if y := limits[0]; y < highest || y > lowest || (line[0] > y) != (test.value < test.limit) {
			t.Errorf("%+v: the line is at %v and the limit at %v", test, line, limits)
		}
		if want := "Quota <span class=\"quiet\">" + say(test.limit); !strings.Contains(html, want) {
			t.Errorf("%+v: the legend lacks %s", test, want)
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
