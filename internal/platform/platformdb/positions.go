package platformdb

import (
	"context"
	"slices"
	"strings"
	"time"

	"ingot/internal/base/db"
	"ingot/internal/platform"
)

// Position implements drain.Positions.
func (s *Store) Position(ctx context.Context, app, drain string) (sent uint64, known bool, err error) {
	err = s.db.View(ctx, func(tx *db.Tx) error {
		return tx.QueryRow("SELECT sent FROM platform_drain_positions WHERE app_guid = ? AND drain = ?", app,
			drain).Scan(&sent)
	})
	if missing(err) {
		return 0, false, nil
	}
	return sent, err == nil, err
}

// SetPosition implements drain.Positions.
func (s *Store) SetPosition(ctx context.Context, app, drain string, sent uint64) error {
	return s.db.UpdateLocking(ctx, func(tx *db.Tx) error {
		_, err := tx.Exec(`INSERT INTO platform_drain_positions (app_guid, drain, sent) VALUES (?, ?, ?)
			ON CONFLICT (app_guid, drain) DO UPDATE SET sent = excluded.sent`, app, drain, sent)
		return written(err)
	})
}

// SweepPositions implements drain.Positions.
func (s *Store) SweepPositions(ctx context.Context, wanted map[string][]string, mine func(app string) bool) error {
	type position struct{ app, drain string }
	var unwanted []position
	err := s.db.View(ctx, func(tx *db.Tx) error {
		all, err := db.All(tx, func(row db.Scanner) (p position, err error) {
			err = row.Scan(&p.app, &p.drain)
			return p, err
		}, "SELECT app_guid, drain FROM platform_drain_positions")
		unwanted = slices.DeleteFunc(all, func(p position) bool {
			return slices.Contains(wanted[p.app], p.drain) ||
				!mine(p.app)
		})
		return err
	})
	if err != nil || len(unwanted) == 0 {
		return err
	}
	return s.db.Update(ctx, func(tx *db.Tx) error {
		for _, p := range unwanted {
			if _, err := tx.Exec("DELETE FROM platform_drain_positions WHERE app_guid = ? AND drain = ?", p.app,
				p.drain); err != nil {
				return written(err)
			}
		}
		return nil
	})
}

// Unalerted implements alerts.Events.
func (s *Store) Unalerted(ctx context.Context, after time.Time, guid string, n int) (events []*platform.AuditEvent,
	err error) {
	var guids []string
	err = s.db.View(ctx, func(tx *db.Tx) (err error) {
		guids, err = db.All(tx, func(row db.Scanner) (guid string, err error) {
			err = row.Scan(&guid)
			return guid, err
		},
			"SELECT guid FROM platform_audit_events WHERE NOT alerted AND (created_at, guid) > (?, ?) ORDER BY created_at, "+
				"guid LIMIT ?", db.Nanos(after), guid, n)
		return err
	})
	if err != nil || len(guids) == 0 {
		return nil, err
	}
	err = s.View(ctx, func(tx platform.Tx) (err error) {
		events, _, err = tx.AuditEvents().List(platform.Query{Where: []platform.Cond{platform.InStrings("guid", guids)},
			Order: "created_at"})
		return err
	})
	return events, err
}

// SetAlerted implements alerts.Events.
func (s *Store) SetAlerted(ctx context.Context, guids []string) error {
	return s.db.UpdateLocking(ctx, func(tx *db.Tx) error {
		args := make([]any, len(guids))
		for i, guid := range guids {
			args[i] = guid
		}
		_, err := tx.Exec("UPDATE platform_audit_events SET alerted = TRUE WHERE guid IN (?"+
			strings.Repeat(", ?", len(guids)-1)+")", args...)
		return written(err)
	})
}

// AlertSince implements alerts.Events.
func (s *Store) AlertSince(ctx context.Context, since time.Time) error {
	return s.db.Update(ctx, func(tx *db.Tx) error {
		_, err := tx.Exec("UPDATE platform_audit_events SET alerted = FALSE WHERE created_at >= ?", db.Nanos(since))
		return written(err)
	})
}

// State implements alerts.States.
func (s *Store) State(ctx context.Context, name string) (value string, known bool, err error) {
	err = s.db.View(ctx, func(tx *db.Tx) error {
		return tx.QueryRow("SELECT value FROM platform_states WHERE name = ?", name).Scan(&value)
	})
	if missing(err) {
		return "", false, nil
	}
	return value, err == nil, err
}

// SetState implements alerts.States.
func (s *Store) SetState(ctx context.Context, name, value string) error {
	return s.db.UpdateLocking(ctx, func(tx *db.Tx) error {
		_, err := tx.Exec("INSERT INTO platform_states (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value "+
			"= excluded.value", name, value)
		return written(err)
	})
}
