package authdb

import (
	"context"
	"time"

	"ingot/internal/auth"
	"ingot/internal/base/db"
)

const (
	codeColumns = "hash, kind, client_id, user_id, scopes, redirect_uri, challenge, nonce, auth_time, expires_at, " +
		"used_at, family"

	sessionColumns = "hash, user_id, auth_time, expires_at"
)

func scanCode(s db.Scanner) (*auth.Code, error) {
	var c auth.Code
	err := s.Scan(&c.Hash, &c.Kind, &c.ClientID, &c.UserID, list{&c.Scopes}, &c.RedirectURI, &c.Challenge, &c.Nonce,
		moment{&c.AuthTime}, moment{&c.Expires}, moment{&c.Used}, &c.Family)
	return &c, err
}

// SaveCode implements auth.Store. It returns ErrNotFound if the user or the
// client does not exist. A used code stays used.
func (s *Store) SaveCode(ctx context.Context, c *auth.Code) error {
	return s.write(ctx, func(tx *db.Tx) error {
		if err := mustExist(tx, "auth_users", c.UserID); err != nil {
			return err
		}
		if c.ClientID != "" {
			if err := mustExist(tx, "auth_clients", c.ClientID); err != nil {
				return err
			}
		}
		_, err := tx.Exec(insert("auth_codes", codeColumns)+` ON CONFLICT (hash) DO UPDATE SET
				kind = excluded.kind, client_id = excluded.client_id, user_id = excluded.user_id, scopes = excluded.scopes,
				redirect_uri = excluded.redirect_uri, challenge = excluded.challenge, nonce = excluded.nonce,
				auth_time = excluded.auth_time, expires_at = excluded.expires_at, family = excluded.family,
				used_at = CASE WHEN auth_codes.used_at <> 0 THEN auth_codes.used_at ELSE excluded.used_at END`,
			c.Hash, string(c.Kind), c.ClientID, c.UserID, stored(c.Scopes), c.RedirectURI, c.Challenge, c.Nonce,
			db.Nanos(c.AuthTime), db.Nanos(c.Expires), db.Nanos(c.Used), c.Family)
		return err
	})
}

// TakeCode implements auth.Store.
func (s *Store) TakeCode(ctx context.Context, hash string, now time.Time) (*auth.Code, error) {
	return update(ctx, s, func(tx *db.Tx) (*auth.Code, error) {
		c, err := one(tx, scanCode, "SELECT "+codeColumns+" FROM auth_codes WHERE hash = ?", hash)
		if err != nil || !c.Used.IsZero() {
			return c, err
		}
		_, err = tx.Exec("UPDATE auth_codes SET used_at = ? WHERE hash = ?", db.Nanos(now), hash)
		return c, err
	})
}

func scanSession(s db.Scanner) (*auth.Session, error) {
	var v auth.Session
	err := s.Scan(&v.Hash, &v.UserID, moment{&v.AuthTime}, moment{&v.Expires})
	return &v, err
}

// SaveSession implements auth.Store. It returns ErrNotFound if the user does not
// exist.
func (s *Store) SaveSession(ctx context.Context, v *auth.Session) error {
	return s.write(ctx, func(tx *db.Tx) error {
		if err := mustExist(tx, "auth_users", v.UserID); err != nil {
			return err
		}
		_, err := tx.Exec(insert("auth_sessions", sessionColumns)+` ON CONFLICT (hash) DO UPDATE SET
				user_id = excluded.user_id, auth_time = excluded.auth_time, expires_at = excluded.expires_at`,
			v.Hash, v.UserID, db.Nanos(v.AuthTime), db.Nanos(v.Expires))
		return err
	})
}

// Session implements auth.Store.
func (s *Store) Session(ctx context.Context, hash string) (*auth.Session, error) {
	return view(ctx, s, func(tx *db.Tx) (*auth.Session, error) {
		return one(tx, scanSession, "SELECT "+sessionColumns+" FROM auth_sessions WHERE hash = ?", hash)
	})
}

// DeleteSession implements auth.Store.
func (s *Store) DeleteSession(ctx context.Context, hash string) error {
	return s.remove(ctx, "DELETE FROM auth_sessions WHERE hash = ?", hash)
}
