package authdb

import (
	"context"
	"errors"
	"time"

	"ingot/internal/auth"
	"ingot/internal/base/db"
)

// Failures implements auth.Store.
func (s *Store) Failures(ctx context.Context, account string, now time.Time) (map[string]auth.Failures, error) {
	all := map[string]auth.Failures{}
	err := s.db.View(ctx, func(tx *db.Tx) error {
		clear(all)
		_, err := db.All(tx, func(row db.Scanner) (struct{}, error) {
			var address string
			var f auth.Failures
			var last int64
			err := row.Scan(&address, &f.Count, &last)
			f.Last = db.Time(last)
			all[address] = f
			return struct{}{}, err
		}, "SELECT address, failures, failed_at FROM auth_failures WHERE account = ? AND expires_at >= ?", account,
			db.Nanos(now))
		return err
	})
	if errors.Is(err, db.ErrText) {
		return nil, nil // nothing has such a name
	}
	return all, err
}

// AddFailure implements auth.Store.
func (s *Store) AddFailure(ctx context.Context, account, address string, now,
	expires time.Time) (auth.Failures, error) {
	return update(ctx, s, func(tx *db.Tx) (auth.Failures, error) {
		f := auth.Failures{Last: now}
		err := tx.QueryRow(`INSERT INTO auth_failures (account, address, failures, failed_at, expires_at) VALUES (?, ?, 1, ?, ?)
			ON CONFLICT (account, address) DO UPDATE SET
				failures = CASE WHEN auth_failures.expires_at < excluded.failed_at THEN 1 ELSE auth_failures.failures + 1 END,
				failed_at = excluded.failed_at, expires_at = excluded.expires_at
			RETURNING failures`, account, address, db.Nanos(now), db.Nanos(expires)).Scan(&f.Count)
		return f, err
	})
}

// ForgetFailures implements auth.Store.
func (s *Store) ForgetFailures(ctx context.Context, account string, addresses ...string) error {
	return s.write(ctx, func(tx *db.Tx) error {
		if len(addresses) == 0 {
			_, err := tx.Exec("DELETE FROM auth_failures WHERE account = ?", account)
			return err
		}
		for _, address := range addresses {
			if _, err := tx.Exec("DELETE FROM auth_failures WHERE account = ? AND address = ?", account, address); err != nil {
				return err
			}
		}
		return nil
	})
}
