package authdb

import (
	"context"
	"errors"
	"fmt"
	"time"

	"ingot/internal/base/db"
)

// purgeBatch limits the rows of one transaction, so that logins do not wait long
// for it.
const purgeBatch = 500

// perishable lists the tables with expires_at, and their primary keys.
var perishable = []struct{ table, key string }{
	{"auth_codes", "hash"},
	{"auth_sessions", "hash"},
	{"auth_refresh_tokens", "id"},
	{"auth_revocations", "kind, subject"},
	{"auth_failures", "account, address"},
}

// Purge implements auth.Store. When it is interrupted, finished batches stay
// deleted.
func (s *Store) Purge(ctx context.Context, now time.Time) error {
	for _, p := range perishable {
		query := fmt.Sprintf("DELETE FROM %[1]s WHERE (%[2]s) IN (SELECT %[2]s FROM %[1]s WHERE expires_at < ? ORDER BY "+
			"expires_at LIMIT ?)",
			p.table, p.key)
		for {
			n, err := update(ctx, s, func(tx *db.Tx) (int64, error) { return tx.Exec(query, db.Nanos(now), purgeBatch) })
			if err != nil {
				return fmt.Errorf("purge %s: %w", p.table, err)
			}
			if n < purgeBatch {
				break
			}
		}
	}
	return nil
}

// remove deletes rows; it is not an error if there are none.
func (s *Store) remove(ctx context.Context, query, key string) error {
	err := s.write(ctx, func(tx *db.Tx) error { return exec(tx, key, query) })
	if errors.Is(err, db.ErrText) {
		return nil // nothing has such a key
	}
	return err
}
