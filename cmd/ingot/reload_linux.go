package main

import (
	"context"
	"fmt"
	"os"
	"slices"

	"ingot/internal/server/succession"
	"ingot/internal/server/systemd"
	"ingot/internal/system"
)

// reloadOptions are the flags of `ingot reload`.
type reloadOptions struct {
	DataDir string `long:"data-dir" env:"INGOT_DATA_DIR" value-name:"DIR" description:"Data directory of the server"`
	logOptions
}

// reload replaces the running server by a new process.
func (p *process) reload(o reloadOptions) error {
	if o.DataDir == "" {
		return &usageError{errNoDataDir.Error(), "reload"}
	}
	log, err := p.logger(o.logOptions)
	if err != nil {
		return &usageError{err.Error(), "reload"}
	}
	ctx, stop := p.untilAsked(log)
	defer stop()
	now, err := succession.Reload(ctx, o.DataDir)
	if err != nil {
		return err
	}
	fmt.Fprintf(p.out, "%s serves now. The previous process finishes its requests and exits.\n", now)
	return nil
}

// succeed runs the server, as the successor of the one that runs if replace is set, until it
// is asked to stop or replaced itself.
func (p *process) succeed(c system.Config, replace bool) error {
	manager := systemd.New(p.getenv)
	inherited, err := systemd.Sockets(p.getenv, os.Getpid())
	if err != nil {
		return err
	}
	systemd.Forget()
	o := succession.Process{Replace: replace, Inherited: inherited, Manager: manager}
	if program, err := os.Executable(); err != nil {
		o.WhyNot = "the file of the program is not known: " + err.Error()
	} else if os.Getpid() == 1 {
		o.WhyNot = "the server is the first process of a container, which ends with it: restart the container"
	} else {
		args := p.args
		if !slices.Contains(args, "--replace") {
			args = append(slices.Clone(args), "--replace")
		}
		o.Successor = succession.SuccessorOf(program, args, os.Environ())
	}
	s, err := system.NewSuccession(c, o)
	if err != nil {
		return &usageError{err.Error(), "up"}
	}
	tell := func(err error) {
		if err != nil {
			c.Log.Warn(err.Error())
		}
	}
	return p.serve(s, c.Log, func(ctx context.Context) {
		tell(manager.Ready("serving " + s.Current().Endpoints().API))
		p.welcome(ctx, s.Current(), c)
	})
}
