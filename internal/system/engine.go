package system

import (
	"context"
	"fmt"
	"log/slog"

	"ingot/internal/engine"
	"ingot/internal/engine/container"
	"ingot/internal/engine/process"
)

// openEngine returns the engine that --engine asks for. auto tries a container
// and says why when it has to do without.
func openEngine(ctx context.Context, d *dataDir, kind, programs string, log *slog.Logger) (engine.Engine, error) {
	initProgram := ""
	if programs != "" {
		initProgram = programs + "/ingot-init"
	}
	options := container.Options{Root: d.file("containers"), Init: initProgram, Log: log, Egress: true}
	if kind != "process" {
		e, err := container.Open(ctx, options)
		if err == nil {
			log.Info("apps run in containers", "why", "a trial container worked")
			return e, nil
		}
		if kind == "container" {
			return nil, fmt.Errorf("--engine container: %w", err)
		}
		log.Warn("apps run as plain processes, WITHOUT isolation; --engine container makes this an error", "why", err)
	}
	if err := d.letThrough(); err != nil {
		return nil, err
	}
	return process.New(process.Options{Root: d.file("processes"), Init: initProgram, Log: log})
}
