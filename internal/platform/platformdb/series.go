package platformdb

import (
	"context"
	"slices"
	"strings"

	"ingot/internal/base/db"
	"ingot/internal/platform/series"
)

// Series returns the blocks of an app of a resolution that have points after a time, and those of all
// finer ones after a later time, in Unix seconds.
func (s *Store) Series(ctx context.Context, app string, resolution int, from, recent int64) ([]series.Stored, error) {
	return db.Within(ctx, s.db.View, func(tx *db.Tx) (all []series.Stored, err error) {
		for _, r := range series.Resolutions() {
			if r.ID > resolution {
				continue
			}
			since := from
			if r.ID < resolution {
				since = recent
			}
			some, err := blocksOf(tx, app, r, r.Block(since), "")
			if err != nil {
				return nil, err
			}
			all = append(all, some...)
		}
		return all, nil
	})
}

// blocksOf returns blocks of a resolution from a time on: of one server, or of all.
func blocksOf(tx *db.Tx, app string, r series.Resolution, from int64, server string) ([]series.Stored, error) {
	return db.All(tx, func(row db.Scanner) (b series.Stored, err error) {
		b.Resolution = r.ID
		err = row.Scan(&b.Server, &b.Start, &b.Data)
		return b, err
	}, "SELECT server, start_at, data FROM platform_series WHERE app_guid = ? AND resolution = ? AND start_at >= ? "+
		"AND (server = ? OR ? = '') ORDER BY start_at", app, r.ID, from, server, server)
}

// AddPoints adds what a server measured to the blocks of apps and the platform, in one transaction. now is the time in
// Unix seconds, by which old blocks are removed. Apps that no longer exist are left out.
func (s *Store) AddPoints(ctx context.Context, server string, now int64, more []series.Addition) error {
	return s.db.UpdateLocking(ctx, func(tx *db.Tx) error {
		there, err := existing(tx, more)
		if err != nil {
			return err
		}
		for i := range more {
			if !there[more[i].App] {
				continue
			}
			if err := addPoints(tx, server, now, &more[i]); err != nil {
				return written(err)
			}
		}
		return nil
	})
}

// existing returns which apps exist.
func existing(tx *db.Tx, more []series.Addition) (map[string]bool, error) {
	there := map[string]bool{series.Platform: true}
	for some := range slices.Chunk(more, purgeBatch) {
		args := make([]any, len(some))
		for i := range some {
			args[i] = some[i].App
		}
		guids, err := db.All(tx, func(row db.Scanner) (guid string, err error) {
			err = row.Scan(&guid)
			return guid, err
		}, "SELECT guid FROM platform_apps WHERE guid IN (?"+strings.Repeat(", ?", len(args)-1)+")", args...)
		if err != nil {
			return nil, err
		}
		for _, guid := range guids {
			there[guid] = true
		}
	}
	return there, nil
}

// addPoints changes the blocks of one app in one resolution.
func addPoints(tx *db.Tx, server string, now int64, a *series.Addition) error {
	var finer []series.Stored
	if fine, ok := a.Fill(); ok {
		var err error
		if finer, err = blocksOf(tx, a.App, fine, fine.Block(now-series.FillBack), server); err != nil {
			return err
		}
	}
	for _, start := range a.Blocks(now) {
		var old []byte
		err := tx.QueryRow("SELECT data FROM platform_series WHERE app_guid = ? AND resolution = ? AND start_at = ? AND "+
			"server = ?", a.App, a.Resolution.ID, start, server).Scan(&old)
		isNew := missing(err)
		if err != nil && !isNew {
			return err
		}
		_, err = tx.Exec(`INSERT INTO platform_series (app_guid, resolution, start_at, server, data) VALUES (?, ?, ?, ?, ?)
			ON CONFLICT (app_guid, resolution, start_at, server) DO UPDATE SET data = excluded.data`,
			a.App, a.Resolution.ID, start, server, db.Raw{V: a.Apply(start, old, finer)})
		if err == nil && isNew {
			err = trimSeries(tx, now, a)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// trimSeries removes blocks of an app that are too old, or of a time to come, and the oldest ones
// where all servers together have more than the bound.
func trimSeries(tx *db.Tx, now int64, a *series.Addition) error {
	first, last := a.Resolution.Kept(now)
	if _, err := tx.Exec("DELETE FROM platform_series WHERE app_guid = ? AND resolution = ? AND (start_at < ? OR "+
		"start_at > ?)", a.App, a.Resolution.ID, first, last); err != nil {
		return err
	}
	type block struct {
		resolution, start, size int64
		server                  string
	}
	all, err := db.All(tx, func(row db.Scanner) (b block, err error) {
		err = row.Scan(&b.resolution, &b.start, &b.server, &b.size)
		return b, err
	}, "SELECT resolution, start_at, server, LENGTH(data) FROM platform_series WHERE app_guid = ? ORDER BY resolution, "+
		"start_at", a.App)
	if err != nil {
		return err
	}
	var sum int64
	for _, b := range all {
		sum += b.size + series.RowOverhead
	}
	for _, b := range all {
		if sum <= series.Bound {
			break
		}
		if _, err := tx.Exec("DELETE FROM platform_series WHERE app_guid = ? AND resolution = ? AND start_at = ? AND server "+
			"= ?", a.App, b.resolution, b.start, b.server); err != nil {
			return err
		}
		sum -= b.size + series.RowOverhead
	}
	return nil
}

// PurgeSeries removes points of apps that no longer exist, and those that are too old.
func (s *Store) PurgeSeries(ctx context.Context, now int64) error {
	return s.db.Update(ctx, func(tx *db.Tx) error {
		_, err := tx.Exec("DELETE FROM platform_series WHERE app_guid <> ? AND NOT EXISTS (SELECT 1 FROM platform_apps a "+
			"WHERE a.guid = app_guid)", series.Platform)
		for _, r := range series.Resolutions() {
			if err != nil {
				break
			}
			first, last := r.Kept(now)
			_, err = tx.Exec("DELETE FROM platform_series WHERE resolution = ? AND (start_at < ? OR start_at > ?)", r.ID,
				first, last)
		}
		return written(err)
	})
}
