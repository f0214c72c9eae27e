package figures

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"ingot/internal/base/db"
	"ingot/internal/notify"
)

// sortGroups puts the largest first.
func sortGroups(groups []notify.FigureGroup) {
	sizes := map[notify.FigureSeries]int64{}
	for _, g := range groups {
		sizes[g.Series] = notify.SumFigures(g.Points).Accepted
	}
	slices.SortFunc(groups, func(a, b notify.FigureGroup) int {
		return cmp.Or(cmp.Compare(sizes[b.Series], sizes[a.Series]), strings.Compare(a.Series.ClientID, b.Series.ClientID),
			strings.Compare(a.Series.KindID, b.Series.KindID), cmp.Compare(a.Series.Channel, b.Series.Channel),
			strings.Compare(a.Series.Domain, b.Series.Domain), strings.Compare(a.Series.TemplateID, b.Series.TemplateID),
			cmp.Compare(a.Series.TemplateVersion, b.Series.TemplateVersion))
	})
}

// purgeBatch limits the series of a transaction.
const purgeBatch = 500

// Lock runs a transaction.
type Lock func(ctx context.Context, change func(*db.Tx) error) error

// Purge makes days of hours that are older than they are kept, deletes old days, and then series without figures.
// Each step is a transaction.
func (k *Keeper) Purge(ctx context.Context, lock Lock) error {
	now := k.Now()
	hours := hourOf(now) - notify.FigureHours
	days := (hourOf(now)/24 - notify.FigureDays) * 24
	for more := true; more; {
		err := lock(ctx, func(tx *db.Tx) (err error) {
			more, err = roll(tx, hours)
			return err
		})
		if err != nil {
			return err
		}
	}
	for more := true; more; {
		err := lock(ctx, func(tx *db.Tx) error {
			old, err := oldest(tx, true, days)
			if more = len(old) > 0; err != nil || !more {
				return err
			}
			_, err = take(tx, true, old)
			return err
		})
		if err != nil {
			return err
		}
	}
	return lock(ctx, func(tx *db.Tx) error { return retire(tx, now) })
}

// old is where old figures are.
type old struct{ hour, series int64 }

// oldest returns some series of the oldest hour or day before a limit that has any.
func oldest(tx *db.Tx, daily bool, before int64) ([]old, error) {
	return db.All(tx, func(row db.Scanner) (o old, err error) {
		err = row.Scan(&o.hour, &o.series)
		return o, err
	}, `SELECT DISTINCT hour, series FROM notify_figures WHERE daily = ? AND hour = (SELECT MIN(hour) FROM notify_figures
		WHERE daily = ? AND hour < ?) ORDER BY series LIMIT ?`, daily, daily, before, purgeBatch)
}

// take deletes figures and returns them.
func take(tx *db.Tx, daily bool, all []old) ([]row, error) {
	ids := make([]string, len(all))
	args := []any{daily, all[0].hour}
	for i, o := range all {
		ids[i] = "?"
		args = append(args, o.series)
	}
	return db.All(tx, func(s db.Scanner) (r row, err error) {
		err = s.Scan(append([]any{&r.Series}, r.pointers()...)...)
		return r, err
	}, "DELETE FROM notify_figures WHERE daily = ? AND hour = ? AND series IN ("+strings.Join(ids, ", ")+
		") RETURNING series, "+numbers, args...)
}

// roll adds an old hour of some series to their day, and reports whether there may be more.
func roll(tx *db.Tx, before int64) (bool, error) {
	all, err := oldest(tx, false, before)
	if err != nil || len(all) == 0 {
		return false, err
	}
	rows, err := take(tx, false, all)
	if err != nil {
		return false, err
	}
	day := all[0].hour - all[0].hour%24
	sums := map[int64]*notify.Figures{}
	for _, r := range rows {
		if sums[r.Series] == nil {
			sums[r.Series] = &notify.Figures{}
		}
		sums[r.Series].Add(notify.Figures(r.figures))
	}
	days := make([]row, 0, len(sums))
	for series, f := range sums {
		days = append(days, row{Series: series, Daily: true, Hour: day, figures: figures(*f)})
	}
	return true, add(tx, days)
}

// retire deletes series that have been without figures for a while.
func retire(tx *db.Tx, now time.Time) error {
	const none = "NOT EXISTS (SELECT 1 FROM notify_figures AS f WHERE f.series = notify_series.id)"
	before := db.Nanos(now.Add(-retiredFor))
	for _, statement := range []struct {
		text string
		args []any
	}{
		{"UPDATE notify_series SET retired = 0 WHERE retired > 0 AND NOT " + none, nil},
		{"DELETE FROM notify_series WHERE retired > 0 AND retired < ? AND " + none, []any{before}},
		{"UPDATE notify_series SET retired = ? WHERE retired = 0 AND created < ? AND " + none,
			[]any{db.Nanos(now), before}},
	} {
		if _, err := tx.Exec(statement.text, statement.args...); err != nil {
			return err
		}
	}
	return nil
}
