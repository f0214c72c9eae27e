package notifications

import (
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"ingot/internal/console/chart"
	"ingot/internal/console/page"
)

// figurePoints have a number for each time, as the API has them.
type figurePoints struct {
	Accepted, Delivered, Failed, Undeliverable, Unsubscribed, Canceled, Skipped, Digested, Throttled, Retried []int64
	Opened, Clicked, Opens, Clicks                                                                            []int64
}

type figureGroup struct {
	ClientID string `json:"client_id"`
	KindID   string `json:"kind_id"`
	Channel  string
	Domain   string
	Template string `json:"template_id"`
	Version  int64  `json:"template_version"`
	Figures  figurePoints
}

type figureAnswer struct {
	Times       []time.Time
	Total, Rest figurePoints
	Groups      []figureGroup
}

// figureRow is a row of the table: sums of a group.
type figureRow struct {
	Name, Link string
	Numbers    []int64
}

type figuresPage struct {
	By, In   []page.Tab
	Filters  []string // what is shown only
	Without  string   // the page without filters
	Charts   []template.HTML
	Grouped  string
	Headings []string
	Rows     []figureRow
	Total    []int64
	None     bool
	Command  string
}

// figureSpans are the time spans of the page.
var figureSpans = []struct{ name, period, last string }{
	{"48 hours", "hour", "48"}, {"30 days", "day", "30"}, {"90 days", "day", "90"},
}

var (
	figureDimensions = []string{"kind", "channel", "domain", "template"}
	figureHeadings   = []string{"Accepted", "Delivered", "Failed", "Undeliverable", "Unsubscribed", "Canceled", "Skipped",
		"In digests", "Over a limit", "Tried again", "Opened", "Clicked", "Opens", "Clicks"}
)

// figures is GET /console/notifications/figures: numbers of deliveries, for administrators of all clients. ?by= is what
// rows are, ?in= the time span; ?kind_id=, ?channel=, ?domain= and ?template_id= select.
func (c pages) figures(r *http.Request, s *page.Session) (any, error) {
	q := r.URL.Query()
	by, span := q.Get("by"), q.Get("in")
	if !slices.Contains(figureDimensions, by) {
		by = figureDimensions[0]
	}
	in := figureSpans[1]
	for _, one := range figureSpans {
		if one.name == span {
			in = one
		}
	}
	query := url.Values{"by": {by}, "period": {in.period}, "last": {in.last}, "groups": {"50"}}
	if s.Has(scopeNotifyAdmin) {
		query.Set("client_id", "*")
	}
	here := url.Values{"by": {by}, "in": {in.name}}
	d := &figuresPage{Grouped: by, Headings: figureHeadings}
	d.Without = figuresLink(here)
	command := []string{"ingot", "notifications", "figures", "--by", by}
	for _, filter := range []struct{ name, flag string }{
		{"kind_id", "--kind"}, {"channel", "--channel"}, {"domain", "--domain"}, {"template_id", "--template"},
	} {
		if value := q.Get(filter.name); value != "" {
			query.Set(filter.name, value)
			here.Set(filter.name, value)
			d.Filters = append(d.Filters, value)
			command = append(command, filter.flag, value)
		}
	}
	d.Command = page.Command(append(command, "--"+in.period+"s", in.last)...)
	for _, name := range figureDimensions {
		d.By = append(d.By, page.Tab{Name: "By " + name, Link: figuresLink(here, "by", name), Current: name == by})
	}
	for _, one := range figureSpans {
		d.In = append(d.In, page.Tab{Name: one.name, Link: figuresLink(here, "in", one.name), Current: one == in})
	}
	var answer figureAnswer
	if err := c.Notifications(r, s).Get(&answer, "/figures", query); err != nil {
		return nil, err
	}
	d.show(&answer, here, in.period)
	return d, nil
}

// figuresLink is the address of the page with a parameter changed.
func figuresLink(here url.Values, change ...string) string {
	q := url.Values{}
	for name, values := range here {
		q[name] = values
	}
	if len(change) == 2 {
		q.Set(change[0], change[1])
	}
	return notificationsPath + "/figures?" + q.Encode()
}

// name is how a group is shown, and filter the parameter that selects it.
func (g *figureGroup) name(by string) (name, filter, value string) {
	switch by {
	case "channel":
		return g.Channel, "channel", g.Channel
	case "domain":
		if g.Domain == "" {
			return "no address", "", ""
		}
		return g.Domain, "domain", g.Domain
	case "template":
		if g.Template == "" {
			return "not rendered", "", ""
		}
		return g.Template + ", version " + strconv.FormatInt(g.Version, 10), "template_id", g.Template
	}
	if g.KindID == "" {
		return g.ClientID + " / no kind", "", ""
	}
	return g.ClientID + " / " + g.KindID, "kind_id", g.KindID
}

func (p *figurePoints) sums() []int64 {
	all := make([]int64, 0, len(figureHeadings))
	for _, of := range [][]int64{p.Accepted, p.Delivered, p.Failed, p.Undeliverable, p.Unsubscribed, p.Canceled, p.Skipped,
		p.Digested, p.Throttled, p.Retried, p.Opened, p.Clicked, p.Opens, p.Clicks} {
		sum := int64(0)
		for _, n := range of {
			sum += n
		}
		all = append(all, sum)
	}
	return all
}

// drawnGroups is how many groups a chart has lines for.
const drawnGroups = 5

// show fills the charts and the table.
func (d *figuresPage) show(a *figureAnswer, here url.Values, period string) {
	d.Total = a.Total.sums()
	if d.None = !slices.ContainsFunc(d.Total, positive); d.None || len(a.Times) == 0 {
		return
	}
	step := 24 * time.Hour
	if period == "hour" {
		step = time.Hour
	}
	draw := func(name, title string, lines []chart.Line) {
		one := chart.Chart{Name: name, Title: title, Say: chart.Number, Least: 4, Base: 10, Start: a.Times[0], Step: step,
			Lines: lines}
		d.Charts = append(d.Charts, one.HTML())
	}
	draw("results", "Messages in each "+period, []chart.Line{
		{Name: "delivered", Values: values(a.Total.Delivered)}, {Name: "failed", Values: values(a.Total.Failed)},
		{Name: "undeliverable", Values: values(a.Total.Undeliverable)},
		{Name: "unsubscribed", Values: values(a.Total.Unsubscribed)}, {Name: "tried again", Values: values(a.Total.Retried)}})
	counted := slices.ContainsFunc(d.Total[len(d.Total)-reactionHeadings:], positive)
	if counted {
		draw("reactions", "Opened and clicked in each "+period+", of mail to recipients who allow it", []chart.Line{
			{Name: "opened", Values: values(a.Total.Opened)}, {Name: "clicked", Values: values(a.Total.Clicked)}})
	}
	var lines []chart.Line
	for i := range a.Groups {
		g := &a.Groups[i]
		name, filter, value := g.name(d.Grouped)
		row := figureRow{Name: name, Numbers: g.Figures.sums()}
		if filter != "" {
			row.Link = figuresLink(here, filter, value)
		}
		d.Rows = append(d.Rows, row)
		if i < drawnGroups {
			lines = append(lines, chart.Line{Name: name, Values: values(g.Figures.Delivered)})
		}
	}
	if rest := a.Rest.sums(); slices.ContainsFunc(rest, positive) {
		d.Rows = append(d.Rows, figureRow{Name: "others", Numbers: rest})
	}
	if !counted {
		d.withoutReactions()
	}
	if len(lines) > 1 {
		draw("groups", "Delivered in each "+period+", by "+d.Grouped, lines)
	}
}

// reactionHeadings are the last of figureHeadings.
const reactionHeadings = 4

// withoutReactions leaves out the columns of what few kinds count.
func (d *figuresPage) withoutReactions() {
	d.Headings, d.Total = d.Headings[:len(d.Headings)-reactionHeadings], d.Total[:len(d.Total)-reactionHeadings]
	for i, r := range d.Rows {
		d.Rows[i].Numbers = r.Numbers[:len(r.Numbers)-reactionHeadings]
	}
}

func positive(n int64) bool { return n > 0 }

// values are points of a chart.
func values(points []int64) []*float64 {
	all := make([]*float64, len(points))
	for i, n := range points {
		v := float64(n)
		all[i] = &v
	}
	return all
}
