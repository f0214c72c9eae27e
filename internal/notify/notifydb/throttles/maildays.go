package throttles

import (
	"context"
	"maps"
	"slices"
	"time"

	"ingot/internal/base/db"
	"ingot/internal/notify"
	"ingot/internal/notify/notifydb/query"
)

// mailDay is a row of notify_mail_days.
type mailDay struct{ began, day, taken int }

// mailDomain returns how a receiving domain is stored: it may belong to a person.
func mailDomain(hash func(text string) string, name string) string {
	return hash("notify mail domain: " + name)[:query.ShortHash]
}

// TakeMail implements notify.Store.
func (s *Throttles) TakeMail(ctx context.Context, day int, wanted map[string]int,
	quota func(n int) int) (map[string]notify.MailPart, error) {
	hash, err := s.hasher.Hash(ctx)
	if err != nil {
		return nil, err
	}
	var got map[string]notify.MailPart
	err = query.Lock(ctx, s.db, func(tx *db.Tx) error {
		got = make(map[string]notify.MailPart, len(wanted))
		// All processes change the rows in the same order, to avoid deadlocks.
		for _, name := range slices.Sorted(maps.Keys(wanted)) {
			part, err := takeMail(tx, mailDomain(hash, name), day, wanted[name], quota)
			if err != nil {
				return err
			}
			got[name] = part
		}
		return nil
	})
	return got, err
}

// takeMail locks the row of a domain and takes from its quota.
func takeMail(tx *db.Tx, domain string, day, wanted int, quota func(n int) int) (p notify.MailPart, err error) {
	_, err = tx.Exec(`INSERT INTO notify_mail_days (domain, began, day, taken) VALUES (?, ?, ?, 0) ON CONFLICT (domain)
		DO UPDATE SET began = CASE WHEN notify_mail_days.day + ? < excluded.day THEN excluded.day
			ELSE notify_mail_days.began END,
		taken = CASE WHEN notify_mail_days.day < excluded.day THEN 0 ELSE notify_mail_days.taken END,
		day = CASE WHEN notify_mail_days.day < excluded.day THEN excluded.day ELSE notify_mail_days.day END`,
		domain, day, day, notify.WarmthKept)
	if err != nil {
		return p, err
	}
	d, err := query.One(tx, func(row db.Scanner) (d mailDay, err error) {
		err = row.Scan(&d.began, &d.day, &d.taken)
		return d, err
	}, "SELECT began, day, taken FROM notify_mail_days WHERE domain = ?", domain)
	if err != nil {
		return p, err
	}
	p.Day = d.day - d.began
	most := quota(p.Day)
	if most < 0 {
		p.Messages = notify.NoMailQuota
		return p, nil
	}
	p.Messages = max(0, min(wanted, most-d.taken))
	_, err = tx.Exec("UPDATE notify_mail_days SET taken = taken + ? WHERE domain = ?", p.Messages, domain)
	return p, err
}

// ReturnMail implements notify.Store.
func (s *Throttles) ReturnMail(ctx context.Context, day int, unused map[string]int) error {
	hash, err := s.hasher.Hash(ctx)
	if err != nil {
		return err
	}
	return query.Lock(ctx, s.db, func(tx *db.Tx) error {
		for _, name := range slices.Sorted(maps.Keys(unused)) {
			domain := mailDomain(hash, name)
			_, err := tx.Exec("UPDATE notify_mail_days SET taken = CASE WHEN taken > ? THEN taken - ? ELSE 0 END "+
				"WHERE domain = ? AND day = ?", unused[name], unused[name], domain, day)
			if err != nil {
				return err
			}
			if _, err := tx.Exec("DELETE FROM notify_mail_days WHERE domain = ? AND began = day AND taken = 0",
				domain); err != nil {
				return err
			}
		}
		return nil
	})
}

// PurgeMailDays deletes the rows of domains that begin again with the next message.
func (s *Throttles) PurgeMailDays(ctx context.Context, now time.Time) error {
	last := now.Unix()/int64(24*time.Hour/time.Second) - notify.WarmthKept
	return query.Lock(ctx, s.db, func(tx *db.Tx) error {
		_, err := tx.Exec("DELETE FROM notify_mail_days WHERE day < ?", last)
		return err
	})
}
