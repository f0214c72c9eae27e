package system

import (
	"ingot/internal/auth"
	"ingot/internal/auth/external"
	"ingot/internal/base/background"
	"ingot/internal/base/datadir"
	"ingot/internal/base/token"
	"ingot/internal/base/web"
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
