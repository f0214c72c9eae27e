package main

import (
	"context"
	"fmt"
	"strings"

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

func (p *process) tellEnded(e system.Ended) {
	if e.Server > 0 {
		fmt.Fprintf(p.out, "Stopped the server (pid %d).\n", e.Server)
	} else {
		fmt.Fprintln(p.out, "No server was running.")
	}
	switch {
	case e.Instances == 0 && e.InCluster:
		fmt.Fprintln(p.out, "App instances keep running in the cluster.")
	case e.Instances == 0:
		fmt.Fprintln(p.out, "No app was running.")
	case e.Instances == 1:
		fmt.Fprintln(p.out, "Stopped 1 app instance.")
	default:
		fmt.Fprintf(p.out, "Stopped %d app instances.\n", e.Instances)
	}
	if len(e.Servers) > 0 {
		fmt.Fprintf(p.out, "Stopped databases that were still running: %s.\n", strings.Join(e.Servers, ", "))
	}
}
