package main

import (
	"context"
	"fmt"
	"strings"

	"ingot/internal/system"
)

// downOptions are the flags of `ingot down`.
type downOptions struct {
	DataDir  string `long:"data-dir" env:"INGOT_DATA_DIR" value-name:"DIR" description:"The data directory of the server"`
	Programs string `long:"programs" env:"INGOT_PROGRAMS" value-name:"DIR" description:"Where ingot-init is; without it, beside ingot"`
	logOptions
}

// down ends a server and what outlives it.
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
	ended, err := system.Down(ctx, o.DataDir, o.Programs, log)
	p.tellEnded(ended)
	if ctx.Err() != nil && err != nil {
		return fmt.Errorf("interrupted: %w; 'ingot down' again goes on", context.Cause(ctx))
	}
	if err == nil {
		fmt.Fprintf(p.out, "The data is in %s; 'ingot up' brings everything back.\n", o.DataDir)
	}
	return err
}

func (p *process) tellEnded(e system.Ended) {
	if e.Server > 0 {
		fmt.Fprintf(p.out, "The server (pid %d) has stopped.\n", e.Server)
	} else {
		fmt.Fprintln(p.out, "No server was running.")
	}
	switch e.Instances {
	case 0:
		fmt.Fprintln(p.out, "No app was running.")
	case 1:
		fmt.Fprintln(p.out, "1 instance of an app has ended.")
	default:
		fmt.Fprintf(p.out, "%d instances of apps have ended.\n", e.Instances)
	}
	if len(e.Servers) > 0 {
		fmt.Fprintf(p.out, "Databases that had outlived their server have ended: %s.\n", strings.Join(e.Servers, ", "))
	}
}
