package system

import (
	"context"
	"errors"

	"ingot/internal/auth"
	"ingot/internal/auth/authdb"
	"ingot/internal/auth/external"
	"ingot/internal/base/background"
	"ingot/internal/base/datadir"
	"ingot/internal/base/db"
	"ingot/internal/base/token"
	"ingot/internal/base/web"
	"ingot/internal/platform/platformdb"
	"ingot/internal/server/cluster"
)

// authority is the authorization server, built-in or external.
type authority interface {
	background.Service
	// Verifier returns a verifier of tokens for one of audiences.
	Verifier(audiences ...string) *token.Verifier
	// Routes registers its routes, if this server has them.
	Routes(m *web.Mux)
}

var (
	_ authority = (*auth.Server)(nil)
	_ authority = (*external.Server)(nil)
)

// secrets returns what secrets the server needs: those of the OAuth clients of its
// own parts, and those of the administrator, unless another server has them.
func (c Config) secrets() datadir.SecretOptions {
	return datadir.SecretOptions{
		EncryptionKey: c.EncryptionKey, DatabaseURL: c.DatabaseURL, Log: c.Log,
		Clients: []string{auth.ClientPlatform, auth.ClientNotifications, auth.ClientConsole, auth.ClientSSH},
		NoAdmin: c.AuthURL != "", AdminPassword: c.AdminPassword, AdminClientSecret: c.AdminClientSecret,
	}
}

// sharedSecrets returns which secrets the server needs. Servers that share a database have
// the same, in sealed rows: the first creates them.
func (s *System) sharedSecrets(ctx context.Context, d *db.DB, servers *cluster.Cluster) (datadir.SecretOptions, error) {
	o := s.config.secrets()
	if servers.Alone() {
		return o, nil
	}
	store := platformdb.New(d)
	o.Share = func(name string, create func() string) (string, bool, error) {
		value, created, err := store.Secret(ctx, name, func() ([]byte, error) { return []byte(create()), nil })
		return string(value), created, err
	}
	if o.NoAdmin {
		return o, nil
	}
	// The secrets of an existing administrator are not needed, and may be unknown here.
	users := authdb.New(d)
	_, noUser := users.UserByName(ctx, "admin", auth.OriginUAA)
	_, noClient := users.Client(ctx, "admin")
	err := errors.Join(noUser, noClient)
	if o.NoAdmin = err == nil; errors.Is(err, auth.ErrNotFound) {
		err = nil
	}
	return o, err
}
