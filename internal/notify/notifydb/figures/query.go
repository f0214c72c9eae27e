package figures

import (
	"fmt"

	"ingot/internal/base/db"
	"ingot/internal/notify"
)

// keys are the columns by which figures are grouped: two texts and a number.
var keys = map[notify.FigureDimension][3]string{
	notify.FiguresByKind:     {"s.client_id", "s.kind_id", "0"},
	notify.FiguresByChannel:  {"''", "''", "s.channel"},
	notify.FiguresByDomain:   {"''", "s.domain", "0"},
	notify.FiguresByTemplate: {"''", "s.template_id", "s.version"},
}

// key identifies a group in an answer.
type key struct {
	first, second string
	number        int64
}

func (k key) series(by notify.FigureDimension) (s notify.FigureSeries) {
	switch by {
	case notify.FiguresByKind:
		s.ClientID, s.KindID = k.first, k.second
	case notify.FiguresByChannel:
		s.Channel = notify.ChannelID(k.number)
	case notify.FiguresByDomain:
		s.Domain = k.second
	case notify.FiguresByTemplate:
		s.TemplateID, s.TemplateVersion = k.second, k.number
	}
	return s
}

// point is a row of an answer: the figures of a group, or of all, at a time.
type point struct {
	key
	total bool
	at    int64
	figures
}

func scanPoint(row db.Scanner) (p point, err error) {
	err = row.Scan(append([]any{&p.total, &p.first, &p.second, &p.number, &p.at}, p.pointers()...)...)
	return p, err
}

const summed = `CAST(SUM(p.accepted) AS BIGINT), CAST(SUM(p.delivered) AS BIGINT), CAST(SUM(p.failed) AS BIGINT),
	CAST(SUM(p.undeliverable) AS BIGINT), CAST(SUM(p.unsubscribed) AS BIGINT), CAST(SUM(p.canceled) AS BIGINT),
	CAST(SUM(p.skipped) AS BIGINT), CAST(SUM(p.digested) AS BIGINT), CAST(SUM(p.throttled) AS BIGINT), CAST(SUM(p.retried) AS BIGINT),
	CAST(SUM(p.opened) AS BIGINT), CAST(SUM(p.clicked) AS BIGINT), CAST(SUM(p.opens) AS BIGINT), CAST(SUM(p.clicks) AS BIGINT)`

// Query reads figures.
func Query(tx *db.Tx, q notify.FigureQuery) (notify.FigureReport, error) {
	by, known := keys[q.By]
	if !known {
		return notify.FigureReport{}, fmt.Errorf("figures cannot be grouped by %q", q.By)
	}
	hours := int64(1)
	if q.Daily {
		hours = 24
	}
	from := hourOf(q.From)
	where, args := "f.hour >= ? AND f.hour < ?", []any{from, hours, from, from + hours*int64(q.Points)}
	add := func(condition string, value any) { where, args = where+" AND "+condition, append(args, value) }
	if !q.Daily {
		add("f.daily = ?", false)
	}
	if !q.All {
		add("s.client_id = ?", q.ClientID)
	}
	if q.KindID != nil {
		add("s.kind_id = ?", *q.KindID)
	}
	if q.Channel != nil {
		add("s.channel = ?", int(*q.Channel))
	}
	if q.Domain != nil {
		add("s.domain = ?", *q.Domain)
	}
	if q.TemplateID != nil {
		add("s.template_id = ?", *q.TemplateID)
	}
	statement := "WITH picked AS (SELECT " + by[0] + " AS k1, " + by[1] + " AS k2, " + by[2] + ` AS k3, (f.hour - ?) / ? AS point,
		f.accepted, f.delivered, f.failed, f.undeliverable, f.unsubscribed, f.canceled, f.skipped, f.digested, f.throttled, f.retried,
		f.opened, f.clicked, f.opens, f.clicks
		FROM notify_series AS s JOIN notify_figures AS f ON f.series = s.id WHERE ` + where + `),
		largest AS (SELECT k1, k2, k3 FROM picked WHERE substr(k2, 1, 1) <> ? GROUP BY k1, k2, k3
			ORDER BY SUM(accepted) DESC, k1, k2, k3 LIMIT ?)
		SELECT FALSE, p.k1, p.k2, p.k3, p.point, ` + summed + ` FROM picked AS p JOIN largest AS l
			ON p.k1 = l.k1 AND p.k2 = l.k2 AND p.k3 = l.k3 GROUP BY p.k1, p.k2, p.k3, p.point
		UNION ALL SELECT TRUE, '', '', 0, p.point, ` + summed + " FROM picked AS p GROUP BY p.point"
	points, err := db.All(tx, scanPoint, statement, append(args, notify.OtherFigures, q.Groups)...)
	if err != nil {
		return notify.FigureReport{}, err
	}
	return report(q, points), nil
}

// report arranges the points of an answer.
func report(q notify.FigureQuery, points []point) notify.FigureReport {
	r := notify.FigureReport{Total: make([]notify.Figures, q.Points), Rest: make([]notify.Figures, q.Points)}
	groups := map[key]int{}
	for _, p := range points {
		if p.at < 0 || p.at >= int64(q.Points) {
			continue
		}
		f := notify.Figures(p.figures)
		if p.total {
			r.Total[p.at].Add(f)
			r.Rest[p.at].Add(f)
			continue
		}
		i, known := groups[p.key]
		if !known {
			i = len(r.Groups)
			groups[p.key] = i
			r.Groups = append(r.Groups, notify.FigureGroup{Series: p.series(q.By), Points: make([]notify.Figures, q.Points)})
		}
		r.Groups[i].Points[p.at].Add(f)
		r.Rest[p.at].Sub(f)
	}
	sortGroups(r.Groups)
	return r
}
