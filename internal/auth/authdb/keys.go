package authdb

import (
	"context"
	"errors"

	"ingot/internal/auth"
	"ingot/internal/base/db"
)

// sealedKey is the sealed column.
const sealedKey = "auth_keys.private_key"

// Keys implements auth.Store.
func (s *Store) Keys(ctx context.Context) ([]*auth.Key, error) {
	return view(ctx, s, func(tx *db.Tx) ([]*auth.Key, error) {
		return db.All(tx, func(row db.Scanner) (*auth.Key, error) {
			var k auth.Key
			var sealed string
			if err := row.Scan(&k.ID, &sealed, moment{&k.Created}); err != nil {
				return nil, err
			}
			var err error
			k.Private, err = tx.Unseal(sealedKey, k.ID, sealed)
			return &k, err
		}, "SELECT id, private_key, created_at FROM auth_keys ORDER BY created_at DESC, id DESC")
	})
}

// AddKey implements auth.Store. It returns ErrConflict if the id exists.
func (s *Store) AddKey(ctx context.Context, k *auth.Key, onlyIfNone bool) error {
	err := s.write(ctx, func(tx *db.Tx) error {
		if onlyIfNone {
			var n int
			if err := tx.QueryRow("SELECT COUNT(*) FROM auth_keys").Scan(&n); err != nil || n > 0 {
				return err
			}
		}
		_, err := tx.Exec("INSERT INTO auth_keys (id, private_key, created_at) VALUES (?, ?, ?)",
			k.ID, tx.Seal(sealedKey, k.ID, k.Private), db.Nanos(k.Created))
		return err
	})
	// Two concurrent calls may detect the same key only here.
	if onlyIfNone && errors.Is(err, auth.ErrConflict) {
		return nil
	}
	return err
}

// DeleteKey implements auth.Store.
func (s *Store) DeleteKey(ctx context.Context, id string) error {
	return s.remove(ctx, "DELETE FROM auth_keys WHERE id = ?", id)
}
