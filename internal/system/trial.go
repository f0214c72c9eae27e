package system

import (
	"context"
	"log/slog"

	"ingot/internal/platform/engine/container"
)

// TryContainers runs a trial container and returns why it failed. --engine auto
// decides in the same way.
func TryContainers(ctx context.Context, programs string) error {
	options := container.Options{Log: slog.New(slog.DiscardHandler)}
	if programs != "" {
		options.Init = programs + "/ingot-init"
	}
	return container.Probe(ctx, options)
}

// RuncVersion returns the version of this machine's runc, and what is wrong with
// it.
func RuncVersion(ctx context.Context) (name, problem string, err error) {
	return container.RuncVersion(ctx)
}
