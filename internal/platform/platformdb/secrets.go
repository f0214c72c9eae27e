package platformdb

import (
	"context"

	"ingot/internal/base/db"
	"ingot/internal/platform"
)

const secretValue = "platform_secrets.value"

// ChangeSecret changes a secret in one transaction. If change returns nil, the secret is
// deleted. It fails with platform.ErrNoSecret if there is none.
func (s *Store) ChangeSecret(ctx context.Context, name string, change func(value []byte) ([]byte, error)) error {
	return s.db.Update(ctx, func(tx *db.Tx) error {
		value, err := readSecret(tx, name)
		if missing(err) {
			return platform.ErrNoSecret
		}
		if err == nil {
			value, err = change(value)
		}
		if err != nil {
			return err
		}
		if value == nil {
			_, err = tx.Exec("DELETE FROM platform_secrets WHERE name = ?", name)
			return err
		}
		_, err = tx.Exec("UPDATE platform_secrets SET value = ? WHERE name = ?", tx.Seal(secretValue, name, value), name)
		return written(err)
	})
}

func readSecret(tx *db.Tx, name string) ([]byte, error) {
	var sealed string
	if err := tx.QueryRow("SELECT value FROM platform_secrets WHERE name = ?", name).Scan(&sealed); err != nil {
		return nil, err
	}
	return tx.Unseal(secretValue, name, sealed)
}

// Secret returns a secret that all servers of the installation share. The first server
// creates it; created reports whether this call did.
func (s *Store) Secret(ctx context.Context, name string, create func() ([]byte, error)) (value []byte, created bool,
	err error) {
	read := func(tx *db.Tx) (err error) {
		value, err = readSecret(tx, name)
		return err
	}
	if err := s.db.View(ctx, read); !missing(err) {
		return value, false, err
	}
	fresh, err := create()
	if err != nil {
		return nil, false, err
	}
	err = s.db.Update(ctx, func(tx *db.Tx) error {
		n, err := tx.Exec("INSERT INTO platform_secrets (name, value) VALUES (?, ?) ON CONFLICT (name) DO NOTHING",
			name, tx.Seal(secretValue, name, fresh))
		if err != nil {
			return written(err)
		}
		created = n > 0
		return read(tx)
	})
	return value, created, err
}
