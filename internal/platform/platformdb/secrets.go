package platformdb

import (
	"context"

	"ingot/internal/base/db"
)

const secretValue = "platform_secrets.value"

// Secret returns a secret that all servers of the installation share. The first server
// creates it.
func (s *Store) Secret(ctx context.Context, name string, create func() ([]byte, error)) ([]byte, error) {
	var value []byte
	read := func(tx *db.Tx) error {
		var sealed string
		err := tx.QueryRow("SELECT value FROM platform_secrets WHERE name = ?", name).Scan(&sealed)
		if err == nil {
			value, err = tx.Unseal(secretValue, name, sealed)
		}
		return err
	}
	err := s.db.View(ctx, read)
	if !missing(err) {
		return value, err
	}
	fresh, err := create()
	if err != nil {
		return nil, err
	}
	return value, s.db.Update(ctx, func(tx *db.Tx) error {
		_, err := tx.Exec("INSERT INTO platform_secrets (name, value) VALUES (?, ?) ON CONFLICT (name) DO NOTHING",
			name, tx.Seal(secretValue, name, fresh))
		if err != nil {
			return written(err)
		}
		return read(tx)
	})
}
