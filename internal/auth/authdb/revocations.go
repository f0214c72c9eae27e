package authdb

import (
	"context"
	"time"

	"ingot/internal/auth"
	"ingot/internal/base/db"
)

// Revoke implements auth.Store. A second revocation of the same subject can only
// move the times to later.
func (s *Store) Revoke(ctx context.Context, r auth.Revocation) error {
	return s.write(ctx, func(tx *db.Tx) error {
		_, err := tx.Exec(`INSERT INTO auth_revocations (kind, subject, before_at, expires_at) VALUES (?, ?, ?, ?)
				ON CONFLICT (kind, subject) DO UPDATE SET
				before_at = CASE WHEN excluded.before_at > auth_revocations.before_at
					THEN excluded.before_at ELSE auth_revocations.before_at END,
				expires_at = CASE WHEN excluded.expires_at > auth_revocations.expires_at
					THEN excluded.expires_at ELSE auth_revocations.expires_at END`,
			string(r.Kind), r.Subject, db.Nanos(r.Before), db.Nanos(r.Expires))
		return err
	})
}

// Revocations implements auth.Store.
func (s *Store) Revocations(ctx context.Context, now time.Time) ([]auth.Revocation, error) {
	return view(ctx, s, func(tx *db.Tx) ([]auth.Revocation, error) {
		return db.All(tx, scanRevocation,
			"SELECT kind, subject, before_at, expires_at FROM auth_revocations WHERE expires_at >= ? ORDER BY kind, subject",
			db.Nanos(now))
	})
}

func scanRevocation(s db.Scanner) (r auth.Revocation, err error) {
	err = s.Scan(&r.Kind, &r.Subject, moment{&r.Before}, moment{&r.Expires})
	return r, err
}
