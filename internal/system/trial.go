package system

import (
	"context"
	"log/slog"

	"ingot/internal/platform/engine/container"
)

// TryContainers runs a trial container and says why it did not work, if it did
// not. It is how --engine auto decides, for those who want to know before they
// start a server.
func TryContainers(ctx context.Context, programs string) error {
	options := container.Options{Log: slog.New(slog.DiscardHandler)}
	if programs != "" {
		options.Init = programs + "/ingot-init"
	}
	return container.Probe(ctx, options)
}

// RuncVersion is what the runc of this machine says of itself, and what is wrong
// with that version.
func RuncVersion(ctx context.Context) (name, problem string, err error) {
	return container.RuncVersion(ctx)
}
