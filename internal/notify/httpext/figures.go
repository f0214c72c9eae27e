package httpext

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"ingot/internal/base/fault"
	"ingot/internal/base/web"
	"ingot/internal/notify"
)

// Limits of the groups of figures, and the points without a parameter.
const (
	defaultGroups = 20
	maxGroups     = 100
	defaultHours  = notify.FigureHours
	defaultLast   = 30 // days
)

type figuresBody struct {
	By     notify.FigureDimension `json:"by"`
	Period string                 `json:"period"`
	Times  []time.Time            `json:"times"`
	Total  pointsBody             `json:"total"`
	Groups []figureGroup          `json:"groups"`
	Rest   pointsBody             `json:"rest"`
}

// pointsBody has a number for each time.
type pointsBody struct {
	Accepted      []int64 `json:"accepted"`
	Delivered     []int64 `json:"delivered"`
	Failed        []int64 `json:"failed"`
	Undeliverable []int64 `json:"undeliverable"`
	Unsubscribed  []int64 `json:"unsubscribed"`
	Canceled      []int64 `json:"canceled"`
	Skipped       []int64 `json:"skipped"`
	Digested      []int64 `json:"digested"`
	Throttled     []int64 `json:"throttled"`
	Retried       []int64 `json:"retried"`
	Opened        []int64 `json:"opened"`
	Clicked       []int64 `json:"clicked"`
	Opens         []int64 `json:"opens"`
	Clicks        []int64 `json:"clicks"`
}

// figureGroup has the fields of what figures are grouped by.
type figureGroup struct {
	ClientID string     `json:"client_id,omitempty"`
	KindID   *string    `json:"kind_id,omitempty"`
	Channel  string     `json:"channel,omitempty"`
	Domain   *string    `json:"domain,omitempty"`
	Template *string    `json:"template_id,omitempty"`
	Version  *int64     `json:"template_version,omitempty"`
	Figures  pointsBody `json:"figures"`
}

func presentPoints(points []notify.Figures) pointsBody {
	n := len(points)
	b := pointsBody{make([]int64, n), make([]int64, n), make([]int64, n), make([]int64, n), make([]int64, n),
		make([]int64, n), make([]int64, n), make([]int64, n), make([]int64, n), make([]int64, n), make([]int64, n),
		make([]int64, n), make([]int64, n), make([]int64, n)}
	for i, p := range points {
		b.Accepted[i], b.Delivered[i], b.Failed[i], b.Undeliverable[i] = p.Accepted, p.Delivered, p.Failed, p.Undeliverable
		b.Unsubscribed[i], b.Canceled[i], b.Skipped[i], b.Digested[i] = p.Unsubscribed, p.Canceled, p.Skipped, p.Digested
		b.Throttled[i], b.Retried[i] = p.Throttled, p.Retried
		b.Opened[i], b.Clicked[i], b.Opens[i], b.Clicks[i] = p.Opened, p.Clicked, p.Opens, p.Clicks
	}
	return b
}

func presentGroup(by notify.FigureDimension, g notify.FigureGroup) figureGroup {
	s := g.Series
	out := figureGroup{Figures: presentPoints(g.Points)}
	switch by {
	case notify.FiguresByKind:
		out.ClientID, out.KindID = s.ClientID, &s.KindID
	case notify.FiguresByChannel:
		out.Channel = s.Channel.String()
	case notify.FiguresByDomain:
		out.Domain = &s.Domain
	case notify.FiguresByTemplate:
		out.Template, out.Version = &s.TemplateID, &s.TemplateVersion
	}
	return out
}

// numberIn returns a parameter that is a number from 1 to a limit.
func numberIn(q url.Values, name string, otherwise, limit int) (int, error) {
	text := q.Get(name)
	if text == "" {
		return otherwise, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > limit {
		return 0, fault.New(fault.BadQuery, "%s must be a number from 1 to %d.", name, limit)
	}
	return n, nil
}

// figureQuery reads the parameters of GET /figures.
func figureQuery(r *http.Request, now time.Time) (out notify.FigureQuery, err error) {
	q, err := readQuery(r, "by", "period", "last", "groups", "kind_id", "channel", "domain", "template_id", "client_id")
	if err != nil {
		return out, err
	}
	if out.ClientID, out.All, err = owner(r, q); err != nil {
		return out, err
	}
	out.By = notify.FigureDimension(q.Get("by"))
	if out.By == "" {
		out.By = notify.FiguresByKind
	}
	if !slices.Contains(notify.FigureDimensions, out.By) {
		return out, fault.New(fault.BadQuery, "by must be kind, channel, domain or template.")
	}
	step := 24 * time.Hour
	switch q.Get("period") {
	case "", "day":
		out.Daily = true
		out.Points, err = numberIn(q, "last", defaultLast, notify.FigureDays)
	case "hour":
		step = time.Hour
		out.Points, err = numberIn(q, "last", defaultHours, notify.FigureHours)
	default:
		err = fault.New(fault.BadQuery, "period must be hour or day.")
	}
	if err != nil {
		return out, err
	}
	out.From = now.UTC().Truncate(step).Add(-time.Duration(out.Points-1) * step)
	if out.Groups, err = numberIn(q, "groups", defaultGroups, maxGroups); err != nil {
		return out, err
	}
	for name, into := range map[string]**string{"kind_id": &out.KindID, "domain": &out.Domain,
		"template_id": &out.TemplateID} {
		if q.Has(name) {
			value := q.Get(name)
			*into = &value
		}
	}
	if name := q.Get("channel"); name != "" {
		channels, err := notify.ParseChannels([]string{name})
		if err != nil {
			return out, fault.Wrap(err, fault.BadQuery, "channel must be one of %s.", notify.ChannelNames())
		}
		channel := channels.Primary()
		out.Channel = &channel
	}
	return out, nil
}

// figures returns what was delivered, by kind, channel, domain or version of the template, for each hour or day.
func (f *handlers) figures(w http.ResponseWriter, r *http.Request) error {
	q, err := figureQuery(r, time.Now())
	if err != nil {
		return err
	}
	report, err := f.Store.Figures(r.Context(), q)
	if err != nil {
		return err
	}
	out := figuresBody{By: q.By, Period: "hour", Times: make([]time.Time, q.Points), Total: presentPoints(report.Total),
		Groups: make([]figureGroup, len(report.Groups)), Rest: presentPoints(report.Rest)}
	step := time.Hour
	if q.Daily {
		out.Period, step = "day", 24*time.Hour
	}
	for i := range out.Times {
		out.Times[i] = q.From.Add(time.Duration(i) * step)
	}
	for i, g := range report.Groups {
		out.Groups[i] = presentGroup(q.By, g)
	}
	return web.Answer(w, http.StatusOK, out, nil)
}
