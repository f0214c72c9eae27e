package rest

import (
	"log/slog"

	"ingot/internal/base/tracing"
	"ingot/internal/platform"
	"ingot/internal/platform/actions"
	"ingot/internal/platform/services"
)

// Server is what the handlers of all resources need.
type Server struct {
	Store    platform.Store
	Platform *actions.Platform
	Services *services.Services
	Signals  Signals
	Log      *slog.Logger
}

// Signals notifies the parts that bring the actual state to the desired one, after a
// change was stored. Routes, names and the lines of apps' logs are not among the
// signals: the actions that write those announce them in their transaction
// (platform.Changes). Signals do not block for long and may be lost: the receivers
// also check periodically.
type Signals interface {
	// AppsChanged signals a change of apps or of their bindings; without guids, of
	// bindings only.
	AppsChanged(guids ...string)
	BuildCreated(guid string, by tracing.Origin)
	TasksChanged()
	JobCreated(guid string)
}
