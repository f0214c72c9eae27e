package authdb

import (
	"context"
	"encoding/json"
	"time"

	"ingot/internal/auth"
	"ingot/internal/base/db"
)

const clientColumns = "id, secrets, name, scopes, authorities, grant_types, redirect_uris, auto_approve, " +
	"resource_ids, " +
	"access_validity, refresh_validity, public, created_at, modified_at, more"

var clients = listing[*auth.Client]{
	table:   "auth_clients",
	columns: clientColumns,
	scan:    scanClient,
	attrs: attributes{
		"id":        {"id", exact},
		"client_id": {"id", exact},
	},
}

func scanClient(s db.Scanner) (*auth.Client, error) {
	var c auth.Client
	var access, refresh int64
	err := s.Scan(&c.ID, list{&c.Secrets}, &c.Name, list{&c.Scopes}, list{&c.Authorities}, list{&c.GrantTypes},
		list{&c.RedirectURIs}, list{&c.AutoApprove}, list{&c.ResourceIDs},
		&access, &refresh, &c.Public, moment{&c.Created}, moment{&c.Modified}, more{&c.More})
	c.AccessValidity, c.RefreshValidity = time.Duration(access), time.Duration(refresh)
	return &c, err
}

func clientValues(c *auth.Client) []any {
	return []any{
		c.ID, stored(c.Secrets), c.Name, stored(c.Scopes), stored(c.Authorities), stored(c.GrantTypes),
		stored(c.RedirectURIs), stored(c.AutoApprove), stored(c.ResourceIDs),
		int64(c.AccessValidity), int64(c.RefreshValidity), c.Public, db.Nanos(c.Created), db.Nanos(c.Modified),
		db.JSON[map[string]json.RawMessage]{V: c.More},
	}
}

func client(tx *db.Tx, id string) (*auth.Client, error) {
	return one(tx, scanClient, "SELECT "+clientColumns+" FROM auth_clients WHERE id = ?", id)
}

// Client implements auth.Store.
func (s *Store) Client(ctx context.Context, id string) (*auth.Client, error) {
	return read(ctx, s, func(tx *db.Tx) (*auth.Client, error) { return client(tx, id) })
}

// Clients implements auth.Store.
func (s *Store) Clients(ctx context.Context, q auth.Query) ([]*auth.Client, int, error) {
	return clients.list(ctx, s, q)
}

// CreateClient implements auth.Store.
func (s *Store) CreateClient(ctx context.Context, c *auth.Client) error {
	return s.write(ctx, func(tx *db.Tx) error {
		_, err := tx.Exec(insert("auth_clients", clientColumns), clientValues(c)...)
		return err
	})
}

// UpdateClient implements auth.Store. The id cannot be changed.
func (s *Store) UpdateClient(ctx context.Context, id string, change func(*auth.Client) error) (*auth.Client, error) {
	return update(ctx, s, func(tx *db.Tx) (*auth.Client, error) {
		c, err := client(tx, id)
		if err != nil {
			return nil, err
		}
		if err := change(c); err != nil {
			return nil, err
		}
		c.ID = id
		_, err = tx.Exec("UPDATE auth_clients SET "+set(clientColumns)+" WHERE id = ?", append(clientValues(c), id)...)
		return c, err
	})
}

// DeleteClient implements auth.Store.
func (s *Store) DeleteClient(ctx context.Context, id string) (*auth.Client, error) {
	return update(ctx, s, func(tx *db.Tx) (*auth.Client, error) {
		c, err := client(tx, id)
		if err != nil {
			return nil, err
		}
		return c, exec(tx, id,
			"DELETE FROM auth_codes WHERE client_id = ?",
			"DELETE FROM auth_refresh_tokens WHERE client_id = ?",
			"DELETE FROM auth_clients WHERE id = ?")
	})
}
