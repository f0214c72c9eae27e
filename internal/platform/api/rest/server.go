package rest

import (
	"log/slog"

	"ingot/internal/platform"
	"ingot/internal/platform/actions"
	"ingot/internal/platform/services"
)

// Server is what the handlers of all resources need.
type Server struct {
	Store    platform.Store
	Platform *actions.Platform
	Services *services.Services
	Log      *slog.Logger
}
