package platformdb

import (
	"context"
	"fmt"
	"io/fs"
	"time"

	"ingot/internal/base/db"
)

const certificateValue = "platform_certificates.value"

// Certificates are the certificates that the servers of an installation share, as files.
type Certificates struct{ db *db.DB }

// Certificates returns the certificates that are stored.
func (s *Store) Certificates() *Certificates { return &Certificates{s.db} }

// File returns a file, or fs.ErrNotExist.
func (c *Certificates) File(ctx context.Context, name string) (value []byte, modified time.Time, err error) {
	err = c.db.View(ctx, func(tx *db.Tx) error {
		var sealed string
		var nanos int64
		if err := tx.QueryRow("SELECT value, modified_at FROM platform_certificates WHERE name = ?", name).
			Scan(&sealed, &nanos); err != nil {
			return err
		}
		modified = time.Unix(0, nanos).UTC()
		value, err = tx.Unseal(certificateValue, name, sealed)
		return err
	})
	if missing(err) {
		err = fmt.Errorf("%s: %w", name, fs.ErrNotExist)
	}
	return value, modified, err
}

// WriteFile creates or replaces a file.
func (c *Certificates) WriteFile(ctx context.Context, name string, value []byte) error {
	return c.db.Update(ctx, func(tx *db.Tx) error {
		_, err := tx.Exec(`INSERT INTO platform_certificates (name, value, modified_at) VALUES (?, ?, ?)
			ON CONFLICT (name) DO UPDATE SET value = excluded.value, modified_at = excluded.modified_at`,
			name, tx.Seal(certificateValue, name, value), time.Now().UnixNano())
		return written(err)
	})
}

// below is the condition for the files of a directory: those between "DIR/" and "DIR0",
// because 0 is the character after the slash.
const below = "name > ? AND name < ?"

func bounds(dir string) (from, to string) {
	if dir == "" {
		return "", "\U0010FFFF"
	}
	return dir + "/", dir + "0"
}

// DeleteFiles deletes a file, or all files of a directory.
func (c *Certificates) DeleteFiles(ctx context.Context, name string) error {
	return c.db.Update(ctx, func(tx *db.Tx) error {
		from, to := bounds(name)
		_, err := tx.Exec("DELETE FROM platform_certificates WHERE name = ? OR "+below, name, from, to)
		return written(err)
	})
}

// FileNames returns the names of all files of a directory, in order.
func (c *Certificates) FileNames(ctx context.Context, dir string) (names []string, err error) {
	err = c.db.View(ctx, func(tx *db.Tx) error {
		names = nil
		from, to := bounds(dir)
		rows, err := tx.Query("SELECT name FROM platform_certificates WHERE "+below+" ORDER BY name", from, to)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var name string
			if err := rows.Scan(&name); err != nil {
				return err
			}
			names = append(names, name)
		}
		return rows.Err()
	})
	return names, err
}

// TryLock locks a name until a time, unless another holder has. The holder itself extends the
// time.
func (c *Certificates) TryLock(ctx context.Context, name, holder string, until time.Time) (locked bool, err error) {
	err = c.db.Update(ctx, func(tx *db.Tx) error {
		n, err := tx.Exec(`INSERT INTO platform_certificate_locks (name, holder, expires_at) VALUES (?, ?, ?)
			ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, expires_at = excluded.expires_at
			WHERE platform_certificate_locks.holder = excluded.holder OR platform_certificate_locks.expires_at < ?`,
			name, holder, until.UnixNano(), time.Now().UnixNano())
		locked = n > 0
		return written(err)
	})
	return locked && err == nil, err
}

// Unlock removes the lock of a holder.
func (c *Certificates) Unlock(ctx context.Context, name, holder string) error {
	return c.db.Update(ctx, func(tx *db.Tx) error {
		_, err := tx.Exec("DELETE FROM platform_certificate_locks WHERE name = ? AND holder = ?", name, holder)
		return written(err)
	})
}
