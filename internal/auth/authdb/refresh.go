package authdb

import (
	"context"
	"fmt"
	"time"

	"ingot/internal/auth"
	"ingot/internal/base/db"
)

const refreshColumns = "id, family, user_id, client_id, scopes, grant_type, auth_time, issued_at, expires_at, " +
	"rotated_at"

func scanRefresh(s db.Scanner) (*auth.Refresh, error) {
	var r auth.Refresh
	err := s.Scan(&r.ID, &r.Family, &r.UserID, &r.ClientID, list{&r.Scopes}, &r.Grant,
		moment{&r.AuthTime}, moment{&r.Issued}, moment{&r.Expires}, moment{&r.Rotated})
	return &r, err
}

func refreshValues(r *auth.Refresh) []any {
	return []any{
		r.ID, r.Family, r.UserID, r.ClientID, stored(r.Scopes), r.Grant,
		db.Nanos(r.AuthTime), db.Nanos(r.Issued), db.Nanos(r.Expires), db.Nanos(r.Rotated),
	}
}

func refresh(tx *db.Tx, id string) (*auth.Refresh, error) {
	return one(tx, scanRefresh, "SELECT "+refreshColumns+" FROM auth_refresh_tokens WHERE id = ?", id)
}

// SaveRefresh implements auth.Store. It returns ErrNotFound if the user or the
// client does not exist. A rotated token stays rotated.
func (s *Store) SaveRefresh(ctx context.Context, r *auth.Refresh) error {
	return s.write(ctx, func(tx *db.Tx) error {
		if err := mustExist(tx, "auth_users", r.UserID); err != nil {
			return err
		}
		if err := mustExist(tx, "auth_clients", r.ClientID); err != nil {
			return err
		}
		_, err := tx.Exec(insert("auth_refresh_tokens", refreshColumns)+` ON CONFLICT (id) DO UPDATE SET
				family = excluded.family, user_id = excluded.user_id, client_id = excluded.client_id, scopes = excluded.scopes,
				grant_type = excluded.grant_type, auth_time = excluded.auth_time, issued_at = excluded.issued_at,
				expires_at = excluded.expires_at, rotated_at = CASE WHEN auth_refresh_tokens.rotated_at <> 0
					THEN auth_refresh_tokens.rotated_at ELSE excluded.rotated_at END`,
			refreshValues(r)...)
		return err
	})
}

// Refresh implements auth.Store.
func (s *Store) Refresh(ctx context.Context, id string) (*auth.Refresh, error) {
	return view(ctx, s, func(tx *db.Tx) (*auth.Refresh, error) { return refresh(tx, id) })
}

// RotateRefresh implements auth.Store.
func (s *Store) RotateRefresh(ctx context.Context, id string, now time.Time,
	next *auth.Refresh) (*auth.Refresh, error) {
	return update(ctx, s, func(tx *db.Tx) (*auth.Refresh, error) {
		// Deleting a family deletes all its tokens, so if this one exists, the
		// family, its user and its client exist until this transaction commits.
		before, err := refresh(tx, id)
		if err != nil {
			return nil, err
		}
		if next.Family != before.Family {
			return nil, fmt.Errorf("refresh token of family %q cannot follow one of %q", next.Family, before.Family)
		}
		if !before.Rotated.IsZero() {
			return before, nil
		}
		if _, err := tx.Exec("UPDATE auth_refresh_tokens SET rotated_at = ? WHERE id = ?", db.Nanos(now), id); err != nil {
			return nil, err
		}
		_, err = tx.Exec(insert("auth_refresh_tokens", refreshColumns), refreshValues(next)...)
		return before, err
	})
}

// DeleteFamily implements auth.Store.
func (s *Store) DeleteFamily(ctx context.Context, family string) error {
	return s.remove(ctx, "DELETE FROM auth_refresh_tokens WHERE family = ?", family)
}
