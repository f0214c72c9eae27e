package chart

import (
	"fmt"
	"html"
	"html/template"
	"math"
	"strconv"
	"strings"
	"time"
)

// Line is one line of a chart. A nil value is a gap.
type Line struct {
	Name   string
	Values []*float64
}

// Limit is a horizontal line.
type Limit struct {
	Name  string
	Value float64
}

// Marker is a vertical line: what happened at a time.
type Marker struct {
	Time time.Time
	Kind string // one of few words, a class
	Text string
}

// Chart is a chart.
type Chart struct {
	Name  string // an id, unique on the page
	Title string
	// Say writes a value with its unit.
	Say func(float64) string
	// Least is the smallest value at the top of the scale, so that small values stay small. Base is
	// 1024 for bytes, and 10 otherwise.
	Least float64
	Base  int

	Start   time.Time
	Step    time.Duration
	Lines   []Line
	Limits  []Limit
	Markers []Marker
}

// The sizes of a chart, in units of its view box.
const (
	width, height = 720, 200
	left, right   = 70, 8
	top, bottom   = 8, 22
	// tableRows is about how many rows the table has, so that it can be listened to.
	tableRows = 12
	// maxMarkers is how many markers are drawn; the newest are.
	maxMarkers = 60
)

// points returns the number of values.
func (c *Chart) points() int {
	n := 0
	for _, l := range c.Lines {
		n = max(n, len(l.Values))
	}
	return n
}

// largest is the largest value of a scale. Above it lines of the grid come close to the largest number there is.
const largest = 1e18

// scale returns the value at the top and the distance of two lines of the grid. The top is a round
// number, so that it does not change with each value.
func (c *Chart) scale() (most, grid float64) {
	most = c.Least
	for _, l := range c.Lines {
		for _, v := range l.Values {
			if v != nil && !math.IsInf(*v, 0) {
				most = max(most, *v)
			}
		}
	}
	for _, l := range c.Limits {
		most = max(most, l.Value)
	}
	if most <= 0 || math.IsNaN(most) {
		most = 1
	}
	most = min(most, largest)
	grid = round(most/4, c.Base)
	return grid * math.Ceil(most/grid-1e-9), grid
}

// round returns the next larger number of the form 1, 2 or 5 times a power of 10, or a power of 2 for
// bytes.
func round(v float64, base int) float64 {
	if base == 1024 {
		return math.Exp2(math.Ceil(math.Log2(max(v, 1)) - 1e-9))
	}
	power := math.Pow10(int(math.Floor(math.Log10(v))))
	for _, f := range []float64{1, 2, 5} {
		if v <= f*power*(1+1e-9) {
			return f * power
		}
	}
	return 10 * power
}

// HTML returns the chart with its legend and its table.
func (c *Chart) HTML() template.HTML {
	var b strings.Builder
	most, grid := c.scale()
	fmt.Fprintf(&b, `<figure class="chart" aria-labelledby="%s"><figcaption id="%s">%s</figcaption>`, esc(c.Name),
		esc(c.Name), esc(c.Title))
	fmt.Fprintf(&b, `<svg class="chart" viewBox="0 0 %d %d" role="img" aria-label="%s">`, width, height,
		esc(c.Title+": "+c.summary()))
	c.axes(&b, most, grid)
	for i, l := range c.Lines {
		c.line(&b, i, l, most)
	}
	for _, l := range c.Limits {
		y := c.y(l.Value, most)
		fmt.Fprintf(&b, `<line class="limit" x1="%d" x2="%d" y1="%s" y2="%s"></line>`, left, width-right, y, y)
	}
	c.markers(&b)
	b.WriteString(`</svg>`)
	c.legend(&b)
	c.table(&b)
	b.WriteString("</figure>")
	return template.HTML(b.String()) //nolint:gosec // all texts are escaped
}

// axes draws the lines of the grid with their values, and the times.
func (c *Chart) axes(b *strings.Builder, most, grid float64) {
	for i := 0; float64(i)*grid <= most*(1+1e-9); i++ {
		v := float64(i) * grid
		y := c.y(v, most)
		fmt.Fprintf(b, `<line class="grid" x1="%d" x2="%d" y1="%s" y2="%s"></line><text class="y" x="%d" y="%s">%s</text>`,
			left, width-right, y, y, left-6, y, esc(c.Say(v)))
	}
	n := c.points()
	for i := range 5 {
		at := c.Start.Add(time.Duration(n) * c.Step * time.Duration(i) / 4)
		class := "x"
		switch i {
		case 0:
			class = "x first"
		case 4:
			class = "x last"
		}
		fmt.Fprintf(b, `<text class="%s" x="%s" y="%d">%s</text>`, class,
			number(left+float64(i)*(width-left-right)/4), height-4, c.clock(at))
	}
}

// clock writes a time as short as the range allows.
func (c *Chart) clock(t time.Time) string {
	if time.Duration(c.points())*c.Step > 48*time.Hour {
		return t.UTC().Format("Jan 2")
	}
	return t.UTC().Format("15:04")
}

func (c *Chart) x(at time.Time) (x float64, inside bool) {
	span := float64(c.points()) * c.Step.Seconds()
	if span <= 0 {
		return 0, false
	}
	share := at.Sub(c.Start).Seconds() / span
	return left + share*(width-left-right), share >= 0 && share <= 1
}

func (c *Chart) y(v, most float64) string {
	share := min(1, max(0, v/most))
	if math.IsNaN(share) {
		share = 0
	}
	return number(height - bottom - share*(height-top-bottom))
}

// line draws a line, with gaps where nothing was measured. A single value is a short line.
func (c *Chart) line(b *strings.Builder, index int, l Line, most float64) {
	if len(l.Values) == 0 {
		return
	}
	step := float64(width-left-right) / float64(c.points())
	var path strings.Builder
	drawn := false
	for i, v := range l.Values {
		if v == nil || math.IsNaN(*v) {
			drawn = false
			continue
		}
		x, y := left+(float64(i)+0.5)*step, c.y(*v, most)
		if !drawn {
			fmt.Fprintf(&path, "M%s %sh0", number(x), y)
		} else {
			fmt.Fprintf(&path, "L%s %s", number(x), y)
		}
		drawn = true
	}
	if path.Len() > 0 {
		fmt.Fprintf(b, `<path class="line l%d" d="%s"></path>`, index, path.String())
	}
}

func (c *Chart) markers(b *strings.Builder) {
	all := c.Markers
	if len(all) > maxMarkers {
		all = all[len(all)-maxMarkers:]
	}
	for _, m := range all {
		if x, inside := c.x(m.Time); inside {
			fmt.Fprintf(b, `<line class="marker %s" x1="%s" x2="%s" y1="%d" y2="%d"><title>%s</title></line>`, esc(m.Kind),
				number(x), number(x), top, height-bottom, esc(m.Time.UTC().Format("15:04:05")+" "+m.Text))
		}
	}
}

// legend names the lines, with their last and largest values.
func (c *Chart) legend(b *strings.Builder) {
	b.WriteString(`<ul class="legend">`)
	for i, l := range c.Lines {
		fmt.Fprintf(b, `<li class="l%d">%s <span class="quiet">%s</span></li>`, i, esc(l.Name), esc(c.figures(l)))
	}
	for _, l := range c.Limits {
		fmt.Fprintf(b, `<li class="limit">%s <span class="quiet">%s</span></li>`, esc(l.Name), esc(c.Say(l.Value)))
	}
	b.WriteString("</ul>")
}

func (c *Chart) figures(l Line) string {
	var newest, most *float64
	for _, v := range l.Values {
		if v == nil {
			continue
		}
		newest = v
		if most == nil || *v > *most {
			most = v
		}
	}
	if newest == nil {
		return "not measured"
	}
	return "now " + c.Say(*newest) + ", at most " + c.Say(*most)
}

// summary says what the lines show.
func (c *Chart) summary() string {
	all := make([]string, len(c.Lines))
	for i, l := range c.Lines {
		all[i] = l.Name + " " + c.figures(l)
	}
	return strings.Join(all, "; ")
}

// table has the averages of a few times, for those who cannot see the picture.
func (c *Chart) table(b *strings.Builder) {
	n := c.points()
	each := max(1, (n+tableRows-1)/tableRows)
	fmt.Fprintf(b, `<details><summary>%s as a table</summary><div class="scroll"><table><thead><tr>`+
		`<th scope="col">Time (UTC)</th>`, esc(c.Title))
	for _, l := range c.Lines {
		fmt.Fprintf(b, `<th scope="col">%s</th>`, esc(l.Name))
	}
	b.WriteString("</tr></thead><tbody>")
	for from := 0; from < n; from += each {
		fmt.Fprintf(b, `<tr><th scope="row">%s</th>`, c.Start.Add(time.Duration(from)*c.Step).UTC().Format("Jan 2 15:04"))
		for _, l := range c.Lines {
			fmt.Fprintf(b, `<td class="n" data-label="%s">%s</td>`, esc(l.Name), esc(c.average(l.Values, from, from+each)))
		}
		b.WriteString("</tr>")
	}
	b.WriteString("</tbody></table></div></details>")
}

func (c *Chart) average(values []*float64, from, to int) string {
	sum, n := 0.0, 0
	for i := from; i < min(to, len(values)); i++ {
		if values[i] != nil {
			sum, n = sum+*values[i], n+1
		}
	}
	if n == 0 {
		return "-"
	}
	return c.Say(sum / float64(n))
}

// number writes a coordinate.
func number(v float64) string { return strconv.FormatFloat(math.Round(v*10)/10, 'f', -1, 64) }

func esc(text string) string { return html.EscapeString(text) }
