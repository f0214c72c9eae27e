//go:build linux

package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"ingot/internal/base/background"
	"ingot/internal/platform/engine"
	"ingot/internal/platform/engine/local"
	"ingot/internal/platform/instance/initproto"
)

// Exec starts a process beside those of the instance: a child of this server, which ends
// with it.
func (e *Engine) Exec(ctx context.Context, id string, r engine.ExecRequest) (engine.Process, error) {
	d, err := e.lookup(id)
	if err != nil {
		return nil, err
	}
	if !e.running(d) {
		return nil, fmt.Errorf("instance %s has ended", id)
	}
	if err := errors.Join(ctx.Err(), e.open.Err()); err != nil {
		return nil, err
	}
	cmd, err := e.command(d, r)
	if err != nil {
		return nil, err
	}
	io, err := local.NewStdio(r.Terminal, ownerOf(cmd.SysProcAttr.Credential))
	if err != nil {
		return nil, err
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = io.Theirs[0], io.Theirs[1], io.Theirs[2]
	p := &process{Stdio: io, Child: local.NewChild(cmd, r.Terminal != nil)}
	e.execs.Add(1)
	err = p.Start(e.execs.Done)
	p.CloseTheirs()
	if err != nil {
		p.CloseOurs()
		return nil, fmt.Errorf("starting %s: %w", r.Args[0], err)
	}
	p.stop = background.OnDone(e.open, "engine exec", func() { _ = p.Signal(int(syscall.SIGKILL)) })
	return p, nil
}

func ownerOf(c *syscall.Credential) *local.Owner {
	if c == nil {
		return nil
	}
	return &local.Owner{User: int(c.Uid), Group: int(c.Gid)}
}

// command returns the command for Exec, without input and output.
func (e *Engine) command(d *local.Dir, r engine.ExecRequest) (*exec.Cmd, error) {
	if len(r.Args) == 0 {
		return nil, errors.New("nothing to run")
	}
	m := d.Meta()
	words := e.wordsOf(d, m.Ports)
	args := words.All(r.Args)
	env := slices.Concat(mainEnv(m.Launch), words.All(r.Env))
	if r.Terminal != nil && r.Terminal.Term != "" {
		env = append(env, "TERM="+r.Terminal.Term)
	}
	dir := d.Home()
	if r.Dir != "" {
		dir = words.In(r.Dir)
		if !filepath.IsAbs(dir) {
			dir = filepath.Join(d.Home(), dir)
		}
	}
	program, err := lookPath(args[0], env, dir)
	if err != nil {
		return nil, err
	}
	return &exec.Cmd{
		Path: program, Args: args, Env: env, Dir: dir,
		SysProcAttr: &syscall.SysProcAttr{Credential: user(m.Launch)},
	}, nil
}

func mainEnv(s initproto.Spec) []string {
	if len(s.Members) == 0 {
		return nil
	}
	return s.Members[0].Env
}

// lookPath finds a program in the PATH of the instance.
func lookPath(name string, env []string, dir string) (string, error) {
	if strings.Contains(name, "/") {
		if filepath.IsAbs(name) {
			return name, nil
		}
		return filepath.Join(dir, name), nil
	}
	path := "/usr/local/bin:/usr/bin:/bin"
	for _, v := range env {
		if value, ok := strings.CutPrefix(v, "PATH="); ok {
			path = value // the last one takes effect
		}
	}
	for _, folder := range filepath.SplitList(path) {
		if !filepath.IsAbs(folder) {
			folder = filepath.Join(dir, folder)
		}
		file := filepath.Join(folder, name)
		if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return file, nil
		}
	}
	return "", fmt.Errorf("%s: %w in PATH=%s", name, exec.ErrNotFound, path)
}

// process is a process started by Exec.
type process struct {
	*local.Stdio
	*local.Child
	stop func() bool
}

// Close kills the process if it still runs and releases its resources.
func (p *process) Close() error {
	err := p.Signal(int(syscall.SIGKILL))
	<-p.Done()
	p.stop()
	p.CloseOurs()
	return err
}
