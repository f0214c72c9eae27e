package main

import (
	"context"
	"fmt"
	"strings"

	"ingot/internal/base/plural"
	"ingot/internal/system"
)

// downOptions are the flags of `ingot down`.
type downOptions struct {
	DataDir  string `long:"data-dir" env:"INGOT_DATA_DIR" value-name:"DIR" description:"Data directory of the server"`
	Programs string `long:"programs" env:"INGOT_PROGRAMS" value-name:"DIR" description:"Directory of ingot-init (default: beside ingot)"`
	logOptions
}

// down stops a server and the apps that outlive it.
func (p *process) down(o downOptions) error {
	if o.DataDir == "" {
		return &usageError{errNoDataDir.Error(), "down"}
	}
	log, err := p.logger(o.logOptions)
	if err != nil {
		return &usageError{err.Error(), "down"}
	}
	ctx, stop := p.untilAsked(log)
	defer stop()
	if done, err := p.downRootless(ctx, o); done {
		return err
	}
	ended, err := system.Down(ctx, o.DataDir, programsDir(o.Programs), log)
	p.tellEnded(ended)
	if ctx.Err() != nil && err != nil {
		return fmt.Errorf("interrupted: %w; run 'ingot down' again to continue", context.Cause(ctx))
	}
	if err == nil {
		fmt.Fprintf(p.out, "The data is kept in %s; 'ingot up' starts everything again.\n", o.DataDir)
	}
	return err
}

// tellEnded says what was stopped, and nothing that is not known.
func (p *process) tellEnded(e system.Ended) {
	if !e.Stopped {
		return // the error says why
	}
	if e.Server > 0 {
		fmt.Fprintf(p.out, "Stopped the server (pid %d).\n", e.Server)
	} else {
		fmt.Fprintln(p.out, "No server was running.")
	}
	switch apps := e.Apps; {
	case apps.Instances > 0:
		fmt.Fprintf(p.out, "Stopped %s.\n", plural.Count(apps.Instances, "app instance"))
	case apps.Left > 0 || apps.Unknown:
	case e.InCluster:
		fmt.Fprintln(p.out, "App instances keep running in the cluster.")
	default:
		fmt.Fprintln(p.out, "No app was running.")
	}
	if e.Apps.Left > 0 {
		fmt.Fprintf(p.out, "Could not stop %s.\n", plural.Count(e.Apps.Left, "app instance"))
	}
	if e.Apps.Unknown {
		fmt.Fprintln(p.out, "Not all app instances could be listed; some may still be running.")
	}
	if len(e.Servers) > 0 {
		fmt.Fprintf(p.out, "Stopped databases that were still running: %s.\n", strings.Join(e.Servers, ", "))
	}
}
