package notifications

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"ingot/internal/cli/core"
	"ingot/internal/cli/term"
)

// notifications figures

type figuresFlags struct {
	notifyFlags
	By       string `long:"by" value-name:"NAME" description:"Rows: kind, channel, domain or template (default: kind)"`
	Hours    int    `long:"hours" value-name:"N" description:"The last hours, at most 48"`
	Days     int    `long:"days" value-name:"N" description:"The last days, at most 90 (default: 30)"`
	Each     bool   `long:"each" description:"A row for each hour or day instead"`
	Kind     string `long:"kind" value-name:"KIND" description:"Only this kind or campaign type"`
	Channel  string `long:"channel" value-name:"NAME" description:"Only this channel"`
	Domain   string `long:"domain" value-name:"NAME" description:"Only addresses of this domain"`
	Template string `long:"template" value-name:"ID" description:"Only this template"`
	All      bool   `long:"all-clients" description:"Of all clients, not only your own; requires the scope notifications.admin"`
}

// figurePoints have a number for each time.
type figurePoints struct {
	Accepted      []int64
	Delivered     []int64
	Failed        []int64
	Undeliverable []int64
	Unsubscribed  []int64
	Canceled      []int64
	Skipped       []int64
	Digested      []int64
	Throttled     []int64
	Retried       []int64
	Opened        []int64
	Clicked       []int64
	Opens         []int64
	Clicks        []int64
}

// figuresShown is what the service has counted. JSON output is what it sent.
type figuresShown struct {
	raw    json.RawMessage
	each   bool
	all    bool
	By     string
	Period string
	Times  []time.Time
	Total  figurePoints
	Groups []struct {
		ClientID string `json:"client_id"`
		KindID   string `json:"kind_id"`
		Channel  string
		Domain   string
		Template string `json:"template_id"`
		Version  int64  `json:"template_version"`
		Figures  figurePoints
	}
	Rest figurePoints
}

// UnmarshalJSON keeps the text.
func (f *figuresShown) UnmarshalJSON(text []byte) error {
	type plain figuresShown
	f.raw = append(json.RawMessage{}, text...)
	return json.Unmarshal(text, (*plain)(f))
}

// MarshalJSON returns all of it.
func (f *figuresShown) MarshalJSON() ([]byte, error) { return f.raw, nil }

// row are the cells of points from one on, up to another.
func (p *figurePoints) row(from, to int) (cells []string, empty bool) {
	empty = true
	for _, of := range [][]int64{p.Accepted, p.Delivered, p.Failed, p.Undeliverable, p.Unsubscribed, p.Canceled, p.Skipped,
		p.Digested, p.Throttled, p.Retried, p.Opened, p.Clicked, p.Opens, p.Clicks} {
		sum := int64(0)
		for i := from; i < min(to, len(of)); i++ {
			sum += of[i]
		}
		cells = append(cells, strconv.FormatInt(sum, 10))
		empty = empty && sum == 0
	}
	return cells, empty
}

// reactionColumns are the last columns: opened, clicked, opens and clicks.
const reactionColumns = 4

// Show prints a table.
func (f *figuresShown) Show(p *term.Printer) {
	numbers := []string{"accepted", "delivered", "failed", "undeliverable", "unsubscribed", "canceled", "skipped",
		"digested", "throttled", "retried", "opened", "clicked", "opens", "clicks"}
	all := len(f.Times)
	total, none := f.Total.row(0, all)
	if none {
		p.Println("Nothing was delivered in this time.")
		return
	}
	p.Println("")
	columns := len(numbers)
	if !slices.ContainsFunc(total[columns-reactionColumns:], func(s string) bool { return s != "0" }) {
		columns -= reactionColumns // few kinds count them
	}
	table := term.Table{Heading: append([]string{f.By}, numbers[:columns]...)}
	add := func(name string, cells []string) {
		cells = cells[:columns]
		table.Rows = append(table.Rows, append(term.Cells(name), term.Cells(cells...)...))
	}
	if f.each {
		table.Heading[0] = f.Period + " (UTC)"
		format := time.DateOnly
		if f.Period == "hour" {
			format = "2006-01-02 15:04"
		}
		for i, at := range f.Times {
			if cells, empty := f.Total.row(i, i+1); !empty {
				add(at.UTC().Format(format), cells)
			}
		}
		add("total", total)
		p.Table(table)
		return
	}
	for _, g := range f.Groups {
		name := g.Channel
		switch {
		case f.By == "kind" && f.all:
			name = g.ClientID + "/" + g.KindID
		case f.By == "kind":
			name = cmp.Or(g.KindID, "(no kind)")
		case f.By == "domain":
			name = cmp.Or(g.Domain, "(no domain)")
		case f.By == "template" && g.Template == "":
			name = "(not rendered)"
		case f.By == "template":
			name = g.Template + " version " + strconv.FormatInt(g.Version, 10)
		}
		cells, _ := g.Figures.row(0, all)
		add(strings.Map(printable, name), cells)
	}
	if rest, empty := f.Rest.row(0, all); !empty {
		add("(others)", rest)
	}
	add("total", total)
	p.Table(table)
}

// printable leaves out what a terminal would carry out.
func printable(r rune) rune {
	if unicode.IsPrint(r) {
		return r
	}
	return -1
}

func showFigures(ctx context.Context, s *core.Session, _ core.Words, f *figuresFlags) (core.Result, error) {
	if f.Hours != 0 && f.Days != 0 {
		return nil, core.UsageError("--hours and --days cannot be used together")
	}
	q := url.Values{"groups": {"100"}}
	switch {
	case f.Hours != 0:
		q.Set("period", "hour")
		q.Set("last", strconv.Itoa(f.Hours))
	case f.Days != 0:
		q.Set("last", strconv.Itoa(f.Days))
	}
	for name, value := range map[string]string{"by": f.By, "kind_id": f.Kind, "channel": f.Channel, "domain": f.Domain,
		"template_id": f.Template} {
		if value != "" {
			q.Set(name, value)
		}
	}
	if f.All {
		f.administers()
		q.Set("client_id", "*")
	}
	s.Say("Getting figures of deliveries...")
	out := &figuresShown{each: f.Each, all: f.All}
	if err := f.call(ctx, s, http.MethodGet, "/figures?"+q.Encode(), nil, out); err != nil {
		return nil, err
	}
	return out, nil
}
