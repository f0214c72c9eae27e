package consoledb

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"io/fs"
	"time"

	"ingot/internal/base/db"
	"ingot/internal/console/page"
)

//go:embed migrations/*.sql
var files embed.FS

// Migrations are the tables of the console.
var Migrations = db.Migrations{Name: "console", Files: mustSub()}

// SealedColumns are the columns to reseal when the server's key is rotated.
var SealedColumns = []db.SealedColumn{{Table: "console_sessions", Key: "hash", Column: "secrets"}}

const secretsColumn = "console_sessions.secrets"

func mustSub() fs.FS {
	sub, err := fs.Sub(files, "migrations")
	if err != nil {
		panic(err) // the folder is embedded above
	}
	return sub
}

// Store implements page.Store. It is safe for concurrent use.
type Store struct{ db *db.DB }

var _ page.Store = (*Store)(nil)

// New returns a store on a database that was migrated with Migrations.
func New(d *db.DB) *Store { return &Store{d} }

func sealed(tx *db.Tx, s *page.Session) (string, error) {
	b, err := json.Marshal(s.Secrets)
	if err != nil {
		return "", err
	}
	return tx.Seal(secretsColumn, s.Hash, b), nil
}

// Create implements page.Store.
func (s *Store) Create(ctx context.Context, v *page.Session, keep int, now time.Time) error {
	return s.db.Update(ctx, func(tx *db.Tx) error {
		if _, err := tx.Exec("DELETE FROM console_sessions WHERE expires <= ?", db.Nanos(now)); err != nil {
			return err
		}
		_, err := tx.Exec(`DELETE FROM console_sessions WHERE user_id = ? AND hash NOT IN
			(SELECT hash FROM console_sessions WHERE user_id = ? ORDER BY expires DESC, hash LIMIT ?)`, v.UserID, v.UserID, keep-1)
		if err != nil {
			return err
		}
		secrets, err := sealed(tx, v)
		if err != nil {
			return err
		}
		_, err = tx.Exec("INSERT INTO console_sessions (hash, user_id, user_name, scopes, secrets, access_expires, "+
			"expires) VALUES (?, ?, ?, ?, ?, ?, ?)",
			v.Hash, v.UserID, v.UserName, db.JSON[[]string]{V: v.Scopes}, secrets, db.Nanos(v.AccessExpires),
			db.Nanos(v.Expires))
		return err
	})
}

// Get implements page.Store.
func (s *Store) Get(ctx context.Context, hash string) (*page.Session, error) {
	var v *page.Session
	err := s.db.View(ctx, func(tx *db.Tx) (err error) {
		v, err = db.One(tx, func(row db.Scanner) (*page.Session, error) {
			out := page.Session{Hash: hash}
			var scopes db.JSON[[]string]
			var secrets string
			var access, expires int64
			if err := row.Scan(&out.UserID, &out.UserName, &scopes, &secrets, &access, &expires); err != nil {
				return nil, err
			}
			out.Scopes, out.AccessExpires, out.Expires = scopes.V, db.Time(access), db.Time(expires)
			b, err := tx.Unseal(secretsColumn, hash, secrets)
			if err != nil {
				return nil, err
			}
			return &out, json.Unmarshal(b, &out.Secrets)
		}, "SELECT user_id, user_name, scopes, secrets, access_expires, expires FROM console_sessions WHERE hash = ?", hash)
		return err
	})
	if errors.Is(err, db.ErrNotFound) || errors.Is(err, db.ErrText) {
		return nil, page.ErrNotFound
	}
	return v, err
}

// Refresh implements page.Store.
func (s *Store) Refresh(ctx context.Context, v *page.Session) error {
	return s.db.Update(ctx, func(tx *db.Tx) error {
		secrets, err := sealed(tx, v)
		if err != nil {
			return err
		}
		_, err = tx.Exec("UPDATE console_sessions SET secrets = ?, scopes = ?, access_expires = ? WHERE hash = ?",
			secrets, db.JSON[[]string]{V: v.Scopes}, db.Nanos(v.AccessExpires), v.Hash)
		return err
	})
}

// Delete implements page.Store.
func (s *Store) Delete(ctx context.Context, hash string) error {
	return s.db.Update(ctx, func(tx *db.Tx) error {
		_, err := tx.Exec("DELETE FROM console_sessions WHERE hash = ?", hash)
		return err
	})
}
