package auth

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"

	"ingot/internal/base/fault"
	"ingot/internal/base/token"
	"ingot/internal/base/web"
)

// clientFault converts the store's error for a client that does not exist to a client error.
func clientFault(err error, id string) error {
	if errors.Is(err, ErrNotFound) {
		return fault.New(fault.NotFound, "No client with requested id: %s", id).WithKind("not_found")
	}
	return err
}

func (s *Server) listClients(w http.ResponseWriter, r *http.Request) error {
	return list(w, r, s.store.Clients, (*Client).body)
}

func (s *Server) getClient(w http.ResponseWriter, r *http.Request) error {
	id := web.Param(r, "id")
	c, err := s.store.Client(r.Context(), id)
	if err != nil {
		return clientFault(err, id)
	}
	return web.Answer(w, http.StatusOK, c.body(), nil)
}

// mayGive rejects granting a client scopes that the caller does not hold:
// clients.write alone must not be a way to become administrator.
func mayGive(r *http.Request, c *Client) error {
	caller := token.FromContext(r.Context())
	if caller.HasAny("uaa.admin", "clients.admin") {
		return nil
	}
	for _, scope := range slices.Concat(c.Scopes, c.Authorities) {
		if scope != "uaa.none" && !caller.HasAny(scope) {
			return invalidClient("You cannot grant %s: your own token does not have this scope", scope)
		}
	}
	return nil
}

// readClient decodes a client and keeps unknown fields.
func readClient(r *http.Request) (*clientBody, map[string]json.RawMessage, error) {
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, nil, err
	}
	var body clientBody
	var more map[string]json.RawMessage
	for _, dest := range []any{&body, &more} {
		again := r.Clone(r.Context())
		again.Body = io.NopCloser(bytes.NewReader(raw))
		if err := web.DecodeJSON(again, dest); err != nil {
			return nil, nil, err
		}
	}
	return &body, more, nil
}

func (s *Server) createClient(w http.ResponseWriter, r *http.Request) error {
	body, more, err := readClient(r)
	if err != nil {
		return err
	}
	c := &Client{ID: body.ID, Created: s.now(), Modified: s.now()}
	body.apply(c, more)
	if err := errors.Join(c.validate(), mayGive(r, c)); err != nil {
		return err
	}
	if body.Secret == nil && !c.Public {
		return invalidClient("client_secret is missing")
	}
	// Roles are assigned to users and clients by id: a client with the id of a
	// user would have the user's roles.
	if _, err := s.store.User(r.Context(), c.ID); err == nil {
		return invalidClient("client_id is already the id of a user")
	} else if !errors.Is(err, ErrNotFound) {
		return err
	}
	if err := s.createWithSecret(r.Context(), c, body.Secret); err != nil {
		return err
	}
	s.log.InfoContext(r.Context(), "client created", "client", c.ID)
	return web.Answer(w, http.StatusCreated, c.body(), nil)
}

func (s *Server) createWithSecret(ctx context.Context, c *Client, secret *string) error {
	if secret != nil {
		if len(*secret) > maxSecretBytes {
			return invalidClient("client_secret is longer than %d bytes", maxSecretBytes)
		}
		hash, err := s.hash.hash(ctx, *secret)
		if err != nil {
			return err
		}
		c.Secrets = []string{hash}
	}
	err := s.store.CreateClient(ctx, c)
	if errors.Is(err, ErrConflict) {
		return fault.New(fault.Conflict, "Client already exists: %s", c.ID).WithKind("invalid_client")
	}
	return err
}

func (s *Server) updateClient(w http.ResponseWriter, r *http.Request) error {
	id := web.Param(r, "id")
	body, more, err := readClient(r)
	if err != nil {
		return err
	}
	if body.ID != "" && body.ID != id {
		return invalidClient("client_id in the body (%s) does not match the URL (%s)", body.ID, id)
	}
	c, err := s.store.UpdateClient(r.Context(), id, func(c *Client) error {
		// Nor change a client that has more scopes than the caller.
		if err := mayGive(r, c); err != nil {
			return err
		}
		// The function may run again, so what the request has stays as it is.
		merged, rest := *body, maps.Clone(more)
		merged.inherit(c, rest)
		merged.apply(c, rest)
		c.Modified = s.now()
		return errors.Join(c.validate(), mayGive(r, c))
	})
	if err != nil {
		return clientFault(err, id)
	}
	return web.Answer(w, http.StatusOK, c.body(), nil)
}

func (s *Server) deleteClient(w http.ResponseWriter, r *http.Request) error {
	id := web.Param(r, "id")
	have, err := s.store.Client(r.Context(), id)
	if err != nil {
		return clientFault(err, id)
	}
	if err := mayGive(r, have); err != nil {
		return err
	}
	c, err := s.store.DeleteClient(r.Context(), id)
	if err != nil {
		return clientFault(err, id)
	}
	if err := s.revoked.all(r.Context(), RevokeClient, id); err != nil {
		return err
	}
	s.log.InfoContext(r.Context(), "client deleted", "client", id)
	return web.Answer(w, http.StatusOK, c.body(), nil)
}

// changeSecret is PUT /oauth/clients/{id}/secret. Besides replacing the secret,
// a second one can be added and the older one deleted, so that a client can
// switch without downtime. Only administrators change secrets of others; a
// client changes its own by presenting the old one.
func (s *Server) changeSecret(w http.ResponseWriter, r *http.Request) error {
	id := web.Param(r, "id")
	var body struct {
		OldSecret  string  `json:"oldSecret"`
		Secret     *string `json:"secret"`
		ChangeMode string  `json:"changeMode"`
	}
	if err := web.DecodeJSON(r, &body); err != nil {
		return err
	}
	if !may(r, "uaa.admin", "clients.admin") {
		if token.FromContext(r.Context()).ClientID != id {
			return web.Insufficient("uaa.admin", "clients.admin")
		}
		if _, err := s.authenticateClient(r.Context(), credentials{id, body.OldSecret, true, s.from(r)}); err != nil {
			return err
		}
	}
	var hash, message string
	switch body.ChangeMode {
	case "", "UPDATE", "ADD":
		if body.Secret == nil || *body.Secret == "" || len(*body.Secret) > maxSecretBytes {
			return invalidClient("secret must be 1 to %d bytes", maxSecretBytes)
		}
		var err error
		if hash, err = s.hash.hash(r.Context(), *body.Secret); err != nil {
			return err
		}
	case "DELETE":
	default:
		return invalidClient("changeMode must be UPDATE, ADD or DELETE, not %q", body.ChangeMode)
	}
	c, err := s.store.UpdateClient(r.Context(), id, func(c *Client) error {
		c.Modified = s.now()
		switch body.ChangeMode {
		case "ADD":
			message = "Secret is added"
			if len(c.Secrets) >= 2 {
				return invalidClient("The client already has two secrets; delete one first")
			}
			c.Secrets = append(c.Secrets, hash)
		case "DELETE":
			message = "Secret is deleted"
			if len(c.Secrets) < 2 {
				return invalidClient("The client has only one secret; it cannot be deleted")
			}
			c.Secrets = c.Secrets[1:]
		default:
			message = "Secret is updated"
			c.Secrets = []string{hash}
		}
		return nil
	})
	if err != nil {
		return clientFault(err, id)
	}
	return web.Answer(w, http.StatusOK, map[string]string{"status": "ok", "message": message},
		s.guard.reset(r.Context(), clientSubject(c, "")))
}
