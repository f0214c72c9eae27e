package auth

import (
	"context"
	"errors"
	"slices"
)

// EnsureClient creates a client with exactly these secrets, each of which is valid, and
// these authorities, or updates an existing one. It is idempotent.
func (s *Server) EnsureClient(ctx context.Context, id string, secrets, authorities []string) error {
	var hashes []string
	for _, secret := range secrets {
		hash, err := s.hash.hash(ctx, secret)
		if err != nil {
			return err
		}
		hashes = append(hashes, hash)
	}
	c := &Client{
		ID: id, Secrets: hashes, GrantTypes: []string{GrantClientCredentials}, Scopes: []string{"uaa.none"},
		Authorities: slices.Clone(authorities), Created: s.now(), Modified: s.now(),
	}
	err := s.store.CreateClient(ctx, c)
	if !errors.Is(err, ErrConflict) {
		return err
	}
	fewer := false
	_, err = s.store.UpdateClient(ctx, id, func(have *Client) error {
		fewer = slices.ContainsFunc(have.Authorities, func(a string) bool { return !slices.Contains(authorities, a) })
		have.Secrets, have.GrantTypes, have.Scopes, have.Authorities, have.Modified = c.Secrets, c.GrantTypes, c.Scopes,
			c.Authorities, c.Modified
		return nil
	})
	if err == nil && fewer {
		// Existing tokens have the old authorities.
		err = s.revoked.all(ctx, RevokeClient, id)
	}
	return err
}

// RemoveClient deletes a client and revokes its tokens. It is not an error if
// the client does not exist.
func (s *Server) RemoveClient(ctx context.Context, id string) error {
	if _, err := s.store.DeleteClient(ctx, id); err != nil && !errors.Is(err, ErrNotFound) {
		return err
	}
	// Also if the client does not exist: an earlier call may have been killed
	// before it revoked the tokens.
	return s.revoked.all(ctx, RevokeClient, id)
}
