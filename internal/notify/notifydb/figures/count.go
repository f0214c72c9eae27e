package figures

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"time"

	"ingot/internal/base/db"
	"ingot/internal/notify"
)

// hourOf returns the number of the hour since 1970.
func hourOf(at time.Time) int64 { return at.Unix() / 3600 }

// Changes are the figures of one transaction.
type Changes struct {
	of map[place]*notify.Figures
	// last is the place of the last message, which often is that of the next, too.
	last   place
	counts *notify.Figures
	// loaded are the clients whose series were read.
	loaded map[string]*client
}

// place is where a message counts.
type place struct {
	notify.FigureSeries
	hour int64
}

// Outcome counts an outcome of a message of a send, as the message was before. email is the address that it has
// afterwards.
func (c *Changes) Outcome(send *notify.Send, m *notify.Message, o *notify.Outcome, email string) {
	f := notify.FiguresOf(m, o)
	if f == (notify.Figures{}) || send.ClientID == "" { // the send was purged
		return
	}
	at := place{notify.FigureSeries{ClientID: send.ClientID, KindID: send.Preferred().KindID, Channel: m.Channel,
		TemplateID: o.TemplateID, TemplateVersion: o.TemplateVersion}, hourOf(o.At)}
	if m.Channel == notify.Email {
		at.Domain = notify.DomainOf(email)
	}
	c.add(at, f)
}

// Reaction counts a reaction to mail of a series.
func (c *Changes) Reaction(of notify.FigureSeries, f notify.Figures, at time.Time) {
	c.add(place{of, hourOf(at)}, f)
}

func (c *Changes) add(at place, f notify.Figures) {
	if c.counts == nil || at != c.last {
		if c.of == nil {
			c.of = map[place]*notify.Figures{}
		}
		if c.of[at] == nil {
			c.of[at] = &notify.Figures{}
		}
		c.last, c.counts = at, c.of[at]
	}
	c.counts.Add(f)
}

// row is a row of notify_figures.
type row struct {
	Series int64 `json:"i"`
	Daily  bool  `json:"y"`
	Hour   int64 `json:"h"`
	Shard  int   `json:"s"`
	figures
}

// figures are the numbers of a row.
type figures struct {
	Accepted      int64 `json:"a"`
	Delivered     int64 `json:"d"`
	Failed        int64 `json:"f"`
	Undeliverable int64 `json:"u"`
	Unsubscribed  int64 `json:"n"`
	Canceled      int64 `json:"c"`
	Skipped       int64 `json:"k"`
	Digested      int64 `json:"g"`
	Throttled     int64 `json:"t"`
	Retried       int64 `json:"r"`
	Opened        int64 `json:"o"`
	Clicked       int64 `json:"l"`
	Opens         int64 `json:"p"`
	Clicks        int64 `json:"x"`
}

func (f *figures) pointers() []any {
	return []any{&f.Accepted, &f.Delivered, &f.Failed, &f.Undeliverable, &f.Unsubscribed, &f.Canceled, &f.Skipped,
		&f.Digested, &f.Throttled, &f.Retried, &f.Opened, &f.Clicked, &f.Opens, &f.Clicks}
}

// Store adds the figures to those that are stored. Transactions call it last, and change rows in the same order, to
// avoid deadlocks. After the commit, Committed has to follow.
func (k *Keeper) Store(tx *db.Tx, c *Changes, shard int) error {
	if len(c.of) == 0 {
		return nil
	}
	byID := map[[2]int64]*notify.Figures{}
	c.loaded = map[string]*client{}
	for _, at := range c.places() {
		id, err := k.series(tx, c, at.FigureSeries)
		if err != nil {
			return err
		}
		key := [2]int64{id, at.hour}
		if byID[key] == nil {
			byID[key] = &notify.Figures{}
		}
		byID[key].Add(*c.of[at])
	}
	rows := make([]row, 0, len(byID))
	for key, f := range byID {
		rows = append(rows, row{Series: key[0], Hour: key[1], Shard: shard, figures: figures(*f)})
	}
	return add(tx, rows)
}

// places returns where messages count, in a fixed order.
func (c *Changes) places() []place {
	all := make([]place, 0, len(c.of))
	for at := range c.of {
		all = append(all, at)
	}
	slices.SortFunc(all, func(a, b place) int {
		return cmp.Or(strings.Compare(a.ClientID, b.ClientID), strings.Compare(a.KindID, b.KindID),
			cmp.Compare(a.Channel, b.Channel), strings.Compare(a.TemplateID, b.TemplateID),
			cmp.Compare(a.TemplateVersion, b.TemplateVersion), strings.Compare(a.Domain, b.Domain),
			cmp.Compare(a.hour, b.hour))
	})
	return all
}

const (
	numbers = "accepted, delivered, failed, undeliverable, unsubscribed, canceled, skipped, digested, throttled, " +
		"retried, opened, clicked, opens, clicks"
	columns = "series, daily, hour, shard, " + numbers
	// rowsAtOnce is how many rows a statement for SQLite has; the rest is stored one by one.
	rowsAtOnce = 16
)

// sums makes an upsert add.
const sums = ` ON CONFLICT (series, daily, hour, shard) DO UPDATE SET accepted = notify_figures.accepted + excluded.accepted,
	delivered = notify_figures.delivered + excluded.delivered, failed = notify_figures.failed + excluded.failed,
	undeliverable = notify_figures.undeliverable + excluded.undeliverable,
	unsubscribed = notify_figures.unsubscribed + excluded.unsubscribed, canceled = notify_figures.canceled + excluded.canceled,
	skipped = notify_figures.skipped + excluded.skipped, digested = notify_figures.digested + excluded.digested,
	throttled = notify_figures.throttled + excluded.throttled, retried = notify_figures.retried + excluded.retried,
	opened = notify_figures.opened + excluded.opened, clicked = notify_figures.clicked + excluded.clicked,
	opens = notify_figures.opens + excluded.opens, clicks = notify_figures.clicks + excluded.clicks`

// addJSON adds all rows in one round trip, for PostgreSQL.
const addJSON = "INSERT INTO notify_figures (" + columns + `) SELECT i, y, h, s, a, d, f, u, n, c, k, g, t, r, o, l, p, x
	FROM json_to_recordset(CAST(CAST(? AS TEXT) AS JSON)) AS v (i BIGINT, y BOOLEAN, h BIGINT, s INTEGER, a BIGINT, d BIGINT,
	f BIGINT, u BIGINT, n BIGINT, c BIGINT, k BIGINT, g BIGINT, t BIGINT, r BIGINT,
	o BIGINT, l BIGINT, p BIGINT, x BIGINT)` + sums

// addRows are statements for one row and for many, for SQLite.
var addRows = sync.OnceValues(func() (one, many string) {
	const marks = "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
	const insert = "INSERT INTO notify_figures (" + columns + ") VALUES "
	return insert + marks + sums, insert + strings.Repeat(marks+", ", rowsAtOnce-1) + marks + sums
})

func add(tx *db.Tx, rows []row) error {
	slices.SortFunc(rows, func(a, b row) int {
		return cmp.Or(cmp.Compare(a.Series, b.Series), cmp.Compare(a.Hour, b.Hour))
	})
	if tx.Dialect() == db.Postgres {
		text, err := json.Marshal(rows)
		if err != nil {
			return err
		}
		_, err = tx.Exec(addJSON, string(text))
		return err
	}
	one, many := addRows()
	for len(rows) > 0 {
		statement, n := many, rowsAtOnce
		if len(rows) < rowsAtOnce {
			statement, n = one, 1
		}
		args := make([]any, 0, 18*n)
		for _, r := range rows[:n] {
			args = append(args, r.Series, r.Daily, r.Hour, r.Shard, r.Accepted, r.Delivered, r.Failed, r.Undeliverable,
				r.Unsubscribed, r.Canceled, r.Skipped, r.Digested, r.Throttled, r.Retried, r.Opened, r.Clicked, r.Opens,
				r.Clicks)
		}
		if _, err := tx.Exec(statement, args...); err != nil {
			return err
		}
		rows = rows[n:]
	}
	return nil
}
