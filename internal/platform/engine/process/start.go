//go:build linux

package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"ingot/internal/base/background"
	"ingot/internal/base/fault"
	"ingot/internal/platform/engine"
	"ingot/internal/platform/engine/local"
	"ingot/internal/platform/instance/initproto"
)

const (
	// firstFile in the control directory identifies the process of ingot-init.
	firstFile = "init.json"
	// complaintsFile has the standard error of ingot-init.
	complaintsFile = "init.log"
	// marker is an environment variable of ingot-init. Members do not have it: they are
	// identified by HOME.
	marker = "INGOT_INSTANCE"

	sigTerm = syscall.SIGTERM

	noImages = "This server runs apps as plain processes, which cannot have their own file system. " +
		"Docker images need the container engine: ask the operator to start the server as root with --engine container, or " +
		"push the app's files instead."

	noMemberLimits = "This server runs apps as plain processes, whose memory and processor shares it cannot limit. " +
		"memory-enforced and cpu-weight of sidecars need the container engine: ask the operator to start the server as " +
		"root with --engine container, or remove them from the sidecars."
)

// Start creates an instance and runs it.
func (e *Engine) Start(ctx context.Context, s engine.Spec) error {
	if err := local.CheckID(s.ID); err != nil {
		return err
	}
	if s.Image != nil {
		return engine.NoImages(noImages)
	}
	if s.LimitsMembers() {
		return engine.NoMemberLimits(noMemberLimits)
	}
	if len(s.Launch.Members) == 0 {
		return fmt.Errorf("instance %s has nothing to run", s.ID)
	}
	unlock, err := e.ids.Lock(ctx, s.ID)
	if err != nil {
		return err
	}
	defer unlock()
	if err := e.open.Err(); err != nil {
		return errors.New("the engine is closed")
	}
	if _, err := local.Open(e.root, s.ID); !errors.Is(err, engine.ErrNotFound) {
		return err // already exists, or cannot be read
	}
	if err := e.blocked(); err != nil {
		return &engine.PlacementError{Reason: blockedText, Err: err}
	}
	if err := e.room.Take(s.ID, s.Limits); err != nil {
		return err
	}
	defer e.starting.Begin(s.ID)()
	ports, err := e.reserve(s)
	if err != nil {
		e.room.Free(s.ID)
		return err
	}
	d, err := e.build(ctx, s, ports)
	if err == nil {
		err = e.run(d, s.Limits)
		if err == nil {
			return nil
		}
	}
	// Clean up even if ctx was cancelled.
	err = fmt.Errorf("starting instance %s: %w", s.ID, err)
	if d != nil {
		err = errors.Join(err, e.destroy(context.WithoutCancel(ctx), d))
	}
	for _, p := range ports {
		e.ports.Release(p.Listens)
	}
	e.room.Free(s.ID)
	return err
}

// reserve allocates a port of this machine for each port of the spec, and for those that
// only members mention. If it fails, none is kept.
func (e *Engine) reserve(s engine.Spec) ([]engine.Port, error) {
	var ports []engine.Port
	for _, inside := range local.WantedPorts(s) {
		listens := inside
		var err error
		if local.MentionsPort(s.Launch, inside) {
			listens, err = e.ports.Take()
		} else if err = e.ports.Claim(inside); errors.Is(err, local.ErrPortTaken) {
			err = fault.Wrap(err, fault.Unprocessable,
				"port %d is already in use on this machine: the process engine shares the host's ports, "+
					"so an app with a fixed sidecar port can run one instance only; use the container engine for more", inside)
		}
		if err != nil {
			for _, p := range ports {
				e.ports.Release(p.Listens)
			}
			return nil, err
		}
		ports = append(ports, engine.Port{
			Inside: inside, Listens: listens, Address: net.JoinHostPort(loopback, strconv.Itoa(listens)),
		})
	}
	return ports, nil
}

// wordsOf returns the placeholder values of an instance.
func (e *Engine) wordsOf(d *local.Dir, ports []engine.Port) local.Words {
	return local.Words{Home: d.Home(), IP: e.host, Host: e.host, Port: local.Listens(ports)}
}

// build creates the directory of an instance with its files. The caller must destroy the
// result, even with an error.
func (e *Engine) build(ctx context.Context, s engine.Spec, ports []engine.Port) (*local.Dir, error) {
	d, err := local.Create(e.root, s.ID)
	if err != nil {
		return nil, err
	}
	return d, background.Do("engine/process start", func() error { return e.fill(ctx, d, s, ports) })
}

// fill unpacks the files of an instance and writes its metadata.
func (e *Engine) fill(ctx context.Context, d *local.Dir, s engine.Spec, ports []engine.Port) error {
	files, err := s.AllFiles(e.host)
	if err != nil {
		return err
	}
	keys, readOnly, err := e.unpack(ctx, d, files)
	if err != nil {
		return err
	}
	spec := local.Substitute(s.Launch, e.wordsOf(d, ports))
	for i := range spec.Members {
		m := &spec.Members[i]
		if !slices.ContainsFunc(m.Env, func(v string) bool { return names(v, d.Path()) }) {
			m.Env = append(m.Env, "HOME="+d.Home())
		}
	}
	if os.Geteuid() != 0 {
		spec.User, spec.Group = 0, 0 // ingot-init could not change to them
	}
	if spec.User != 0 || spec.Group != 0 {
		if err := passable(d.Home(), spec.User, spec.Group); err != nil {
			return err
		}
		if err := d.Own(spec.User, spec.Group, readOnly...); err != nil {
			return err
		}
	}
	return d.Commit(local.Meta{
		Labels: s.Labels, Limits: s.Limits, Ports: ports, Launch: spec, Created: time.Now().UTC(), Keys: keys,
	})
}

// unpack unpacks the files. A read-only archive with a key and its own target is unpacked
// once for all instances.
func (e *Engine) unpack(ctx context.Context, d *local.Dir, files []engine.Archive) (keys, readOnly []string,
	err error) {
	for _, a := range files {
		if a.ReadOnly && a.Target != "" {
			readOnly = append(readOnly, a.Target)
		}
		if a.ReadOnly && a.Key != "" && a.Target != "" {
			path, err := e.cache.Get(ctx, a, 0)
			if err != nil {
				return nil, nil, err
			}
			if d.Link(a.Target, path) == nil {
				keys = append(keys, a.Key)
				continue
			}
			// Something exists there: unpack into that.
		}
		if err := d.Unpack(ctx, []engine.Archive{a}, 0); err != nil {
			return nil, nil, err
		}
	}
	return keys, readOnly, ctx.Err()
}

// passable checks that a user can reach a directory, because otherwise its processes fail
// with obscure errors.
func passable(path string, user, group int) error {
	for dir := filepath.Dir(path); ; dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		if err != nil {
			return err
		}
		bit := os.FileMode(0o001)
		if st, ok := info.Sys().(*syscall.Stat_t); ok {
			switch {
			case int(st.Uid) == user:
				bit = 0o100
			case int(st.Gid) == group:
				bit = 0o010
			}
		}
		if info.Mode().Perm()&bit == 0 {
			return fmt.Errorf("user %d cannot pass through %s (%v): chmod o+x it, or use another data directory", user, dir,
				info.Mode())
		}
		if dir == filepath.Dir(dir) {
			return nil
		}
	}
}

// child is an ingot-init started by this server process.
type child struct {
	done chan struct{} // closed after it was waited for
}

func (c *child) running() bool {
	select {
	case <-c.done:
		return false
	default:
		return true
	}
}

// run starts ingot-init in its own session, so that it survives this server.
func (e *Engine) run(d *local.Dir, limits engine.Limits) error {
	complaints, err := os.OpenFile(filepath.Join(d.Control(), complaintsFile), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer complaints.Close()
	args := e.limited(limits, e.initPath, d.Control())
	cmd := exec.Command(args[0], args[1:]...) //nolint:noctx // outlives every context
	cmd.Dir = "/"
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), marker + "=" + d.Path()}
	cmd.Stdout, cmd.Stderr = complaints, complaints
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	c := &child{done: make(chan struct{})}
	first, err := local.Identify(cmd.Process.Pid) // not reaped yet, so the pid is right
	e.mu.Lock()
	e.children[d.ID()] = c
	e.mu.Unlock()
	background.Go("engine/process wait", func() {
		defer close(c.done)
		_ = cmd.Wait() // its records say how it ended
	})
	if err != nil {
		return err
	}
	return local.WriteJSON(filepath.Join(d.Control(), firstFile), first)
}

// limited prefixes a command with the limit of open files. A process can only set it for
// itself, so a shell does and then execs the command.
func (e *Engine) limited(limits engine.Limits, command ...string) []string {
	if limits.Files <= 0 {
		return command
	}
	files := uint64(limits.Files)
	var now unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &now) == nil {
		files = min(files, now.Max)
	}
	return append([]string{"/bin/sh", "-c", `ulimit -n "$0"; exec "$@"`, strconv.FormatUint(files, 10)}, command...)
}

// find looks for an instance's ingot-init among the processes of this machine: the program
// that has this control directory as its argument.
func (e *Engine) find(d *local.Dir) (local.ProcessID, error) {
	table, err := local.Processes()
	if err != nil {
		return local.ProcessID{}, err
	}
	for pid, s := range table {
		proc := "/proc/" + strconv.Itoa(pid)
		line, err := os.ReadFile(proc + "/cmdline")
		if err != nil || !bytes.HasSuffix(line, []byte("\x00"+d.Control()+"\x00")) {
			continue
		}
		program, err := os.Readlink(proc + "/exe")
		if err == nil && filepath.Base(strings.TrimSuffix(program, " (deleted)")) == filepath.Base(e.initPath) {
			return s.ID(), nil
		}
	}
	return local.ProcessID{}, os.ErrProcessDone
}

// user returns the credentials for processes of the instance; nil means those of this
// process.
func user(s initproto.Spec) *syscall.Credential {
	if s.User == 0 && s.Group == 0 || os.Geteuid() != 0 {
		return nil
	}
	return &syscall.Credential{Uid: uint32(s.User), Gid: uint32(s.Group)}
}
