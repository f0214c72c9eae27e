package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	space "ingot/internal/base/rootless"
	"ingot/internal/platform/engine/choice"
	"ingot/internal/platform/engine/local"
	"ingot/internal/server/rootless"
	"ingot/internal/system"
)

// tryArg makes this program run a trial container, as root of the namespaces of an ordinary user.
const tryArg = "--rootless-try"

// begin handles the calls of this program by itself, and finishes joining the namespaces of an ordinary
// user.
func (p *process) begin() (status int, done bool) {
	if status, ok := rootless.Stage(p.args); ok {
		return status, true
	}
	s := space.Current()
	if s == nil {
		return 0, false
	}
	p.uid = s.UID // for default values
	if err := os.Chdir(s.Dir); err != nil {
		fmt.Fprintf(p.err, "ingot: %v\n", err)
		return exitFailure, true
	}
	if len(p.args) == 2 && p.args[0] == tryArg {
		if err := choice.TryContainers(context.Background(), p.args[1]); err != nil {
			fmt.Fprintln(p.out, err)
			return exitFailure, true
		}
		return exitOK, true
	}
	return 0, false
}

// spaceOf returns the namespaces of a data directory.
func spaceOf(dataDir, programs string) (*rootless.Space, error) {
	keeper := ""
	if programs != "" {
		keeper = filepath.Join(programs, local.InitName)
	}
	keeper, err := local.InitPath(keeper)
	if err != nil {
		return nil, err
	}
	return rootless.New(rootless.Options{DataDir: dataDir, Init: keeper})
}

// becomeRoot starts the server again as root of a user namespace, if an ordinary user has started it and it
// may use containers. It returns only if this process is to run the server, and why not in containers.
func (p *process) becomeRoot(c system.Config) (why, err error) {
	before := choice.Recorded(c.DataDir)
	wanted := c.Engine == containers || c.Engine == choice.Auto && (before == containers || before == "")
	if p.uid == 0 || os.Geteuid() == 0 || !wanted {
		return nil, nil //nolint:nilnil // as it is
	}
	s, err := spaceOf(c.DataDir, c.Programs)
	if err == nil {
		ctx, stop := p.untilAsked(c.Log)
		err = s.Ensure(ctx)
		if err == nil && before == "" && c.Engine == choice.Auto {
			err = try(ctx, s, c.Programs)
		}
		stop()
	}
	if err != nil {
		return err, nil
	}
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return nil, s.Exec(program, p.args)
}

// containers is the value of --engine.
const containers = "container"

// try runs a trial container in namespaces, which are ended if it fails.
func try(ctx context.Context, s *rootless.Space, programs string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd, err := s.Command(ctx, self, tryArg, programs)
	if err != nil {
		return err
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		return errors.Join(fmt.Errorf("containers without root: %s (%w)", strings.TrimSpace(string(out)), err), s.Release())
	}
	return nil
}

// tryRootless runs a trial container for an ordinary user, and leaves nothing behind.
func tryRootless(ctx context.Context, programs string) (err error) {
	dir, err := os.MkdirTemp("", "ingot-trial")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	s, err := spaceOf(dir, programs)
	if err != nil {
		return err
	}
	if err := s.Ensure(ctx); err != nil {
		return err
	}
	if err := try(ctx, s, programs); err != nil {
		return err
	}
	return s.Release()
}

// downRootless runs `ingot down` in the namespaces of a data directory, if an ordinary user's apps are in
// containers there, and ends the namespaces.
func (p *process) downRootless(ctx context.Context, o downOptions) (done bool, err error) {
	if p.uid == 0 || os.Geteuid() == 0 || choice.Recorded(o.DataDir) != containers {
		return false, nil
	}
	s, err := spaceOf(o.DataDir, programsDir(o.Programs))
	if err != nil {
		return true, fmt.Errorf("apps in containers: %w", err)
	}
	if err := s.Ensure(ctx); err != nil {
		return true, err
	}
	self, err := os.Executable()
	if err != nil {
		return true, err
	}
	cmd, err := s.Command(ctx, self, slices.Clone(p.args)...)
	if err != nil {
		return true, err
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, p.out, p.err
	if err := cmd.Run(); err != nil {
		return true, fmt.Errorf("in the namespaces of the apps: %w", err)
	}
	return true, s.Release()
}
