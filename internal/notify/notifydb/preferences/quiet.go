package preferences

import (
	"context"
	"encoding/json"

	"ingot/internal/base/db"
	"ingot/internal/notify"
	"ingot/internal/notify/notifydb/query"
)

// quietRow is a row of notify_quiet_hours.
type quietRow struct{ user, hours string }

func scanQuiet(row db.Scanner) (q quietRow, err error) {
	err = row.Scan(&q.user, &q.hours)
	return q, err
}

// QuietHours implements notify.Store.
func (s *Choices) QuietHours(ctx context.Context, users []string) (map[string]*notify.QuietHours, error) {
	list, err := query.TextList(users)
	if err != nil {
		return nil, err
	}
	rows, err := query.Read(ctx, s.db, func(tx *db.Tx) ([]quietRow, error) {
		return db.All(tx, scanQuiet, "SELECT user_id, hours FROM notify_quiet_hours WHERE "+
			query.TextsIn(tx.Dialect(), "user_id"), list)
	})
	if err != nil {
		return nil, err
	}
	all := make(map[string]*notify.QuietHours, len(rows))
	for _, r := range rows {
		// Those that this server cannot read, because it does not know the zone, must not hold up everybody's messages.
		if q, err := notify.ReadQuietHours([]byte(r.hours)); err == nil {
			all[r.user] = q
		}
	}
	return all, nil
}

// setQuiet changes the quiet hours of a user; nil deletes them.
func setQuiet(tx *db.Tx, userID string, q *notify.QuietHours) error {
	if q == nil {
		_, err := tx.Exec("DELETE FROM notify_quiet_hours WHERE user_id = ?", userID)
		return err
	}
	text, err := json.Marshal(q)
	if err != nil {
		return err
	}
	_, err = tx.Exec(query.Insert("notify_quiet_hours", "user_id, hours")+
		" ON CONFLICT (user_id) DO UPDATE SET hours = excluded.hours", userID, string(text))
	return err
}
