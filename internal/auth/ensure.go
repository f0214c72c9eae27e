package auth

import (
	"context"
	"errors"
	"slices"
)

// EnsureClient makes a client that acts for itself with exactly these
// authorities, or makes an existing one so. Doing it again changes nothing.
func (s *Server) EnsureClient(ctx context.Context, id, secret string, authorities []string) error {
	hash, err := s.hash.hash(ctx, secret)
	if err != nil {
		return err
	}
	c := &Client{
		ID: id, Secrets: []string{hash}, GrantTypes: []string{GrantClientCredentials}, Scopes: []string{"uaa.none"},
		Authorities: slices.Clone(authorities), Created: s.now(), Modified: s.now(),
	}
	err = s.store.CreateClient(ctx, c)
	if !errors.Is(err, ErrConflict) {
		return err
	}
	fewer := false
	_, err = s.store.UpdateClient(ctx, id, func(have *Client) error {
		fewer = slices.ContainsFunc(have.Authorities, func(a string) bool { return !slices.Contains(authorities, a) })
		have.Secrets, have.GrantTypes, have.Scopes, have.Authorities, have.Modified = c.Secrets, c.GrantTypes, c.Scopes, c.Authorities, c.Modified
		return nil
	})
	if err == nil && fewer {
		// Tokens carry what it had before.
		err = s.revoked.all(ctx, RevokeClient, id)
	}
	return err
}

// RemoveClient deletes a client and withdraws its tokens; none is no error.
func (s *Server) RemoveClient(ctx context.Context, id string) error {
	if _, err := s.store.DeleteClient(ctx, id); err != nil && !errors.Is(err, ErrNotFound) {
		return err
	}
	// Also when it was gone: the one who deleted it may have been killed before
	// he withdrew the tokens.
	return s.revoked.all(ctx, RevokeClient, id)
}
