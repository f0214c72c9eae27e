package system

import (
	"ingot/internal/auth"
	"ingot/internal/auth/external"
	"ingot/internal/base/background"
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
