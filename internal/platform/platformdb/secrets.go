package platformdb

import (
	"context"

	"ingot/internal/base/db"
)

const secretValue = "platform_secrets.value"

// Secret returns a secret that all servers of the installation share. The first server
// creates it; created reports whether this call did.
func (s *Store) Secret(ctx context.Context, name string, create func() ([]byte, error)) (value []byte, created bool, err error) {
	read := func(tx *db.Tx) error {
		var sealed string
		err := tx.QueryRow("SELECT value FROM platform_secrets WHERE name = ?", name).Scan(&sealed)
		if err == nil {
			value, err = tx.Unseal(secretValue, name, sealed)
		}
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
