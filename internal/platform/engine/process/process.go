//go:build linux

package process

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"ingot/internal/base/keyed"
	"ingot/internal/base/mounts"
	"ingot/internal/platform/engine"
	"ingot/internal/platform/engine/local"
)

// Options configure an engine.
type Options struct {
	// Root is the directory of instances. One server uses it at a time.
	Root string
	// Cache is the directory of shared archives; "cache" next to Root if empty.
	Cache string
	// Init is the ingot-init program; see local.InitPath if empty.
	Init string
	// Host is the address of this machine for instances; loopback if empty.
	Host string
	// Overcommit is the ratio of the sum of all memory limits to the machine's memory;
	// local.DefaultOvercommit if zero.
	Overcommit int
	// Leaving means that the engine is opened to remove its instances: leftovers that cannot be
	// removed are no reason to keep the others.
	Leaving bool
	Log     *slog.Logger
}

// Engine runs instances as plain processes.
type Engine struct {
	root, initPath, host string
	unpacked             string // directory of the cache
	left                 error  // what New could not remove

	log   *slog.Logger
	cache *local.Cache
	ports *local.Ports
	room  *local.Room
	ids   keyed.Mutex
	// starting are not visible yet.
	starting local.Starting

	// open is cancelled by Close, and with it every stream and every Exec.
	open  context.Context //nolint:containedctx // the lifetime of the engine, not of a call
	close context.CancelFunc
	execs sync.WaitGroup

	mu       sync.Mutex
	children map[string]*child // ingot-init processes started by this server process
	usage    usageCache
}

var _ engine.Engine = (*Engine)(nil)

// cacheUnused is how long an unused archive stays unpacked.
const cacheUnused = 7 * 24 * time.Hour

// New opens the engine on a directory and adopts the instances in it.
func New(o Options) (*Engine, error) {
	initPath, err := local.InitPath(o.Init)
	if err != nil && !o.Leaving {
		return nil, err
	}
	root, err := filepath.Abs(o.Root)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(root, 0o711); err != nil {
		return nil, err
	}
	if o.Cache == "" {
		o.Cache = filepath.Join(filepath.Dir(root), "cache")
	}
	if o.Cache, err = filepath.Abs(o.Cache); err != nil {
		return nil, err
	}
	cache, err := local.OpenCache(o.Cache)
	if err != nil {
		return nil, err
	}
	room, err := local.NewRoom(root, o.Overcommit)
	if err != nil {
		return nil, err
	}
	e := &Engine{
		room: room, root: root, initPath: initPath, host: o.Host, log: o.Log, cache: cache, unpacked: o.Cache,
		ports:    local.NewPorts(),
		children: map[string]*child{}, usage: usageCache{disk: map[string]diskUse{}},
	}
	e.host = cmp.Or(e.host, loopback)
	e.log = cmp.Or(e.log, slog.New(slog.DiscardHandler))
	e.open, e.close = context.WithCancel(context.Background())
	if err := e.adopt(); err != nil {
		if !o.Leaving {
			return nil, errors.Join(err, e.Close())
		}
		e.left = err
	}
	return e, nil
}

// adopt cleans up after a server that died, and adopts its instances.
func (e *Engine) adopt() error {
	left := local.Recover(e.root, func(d *local.Dir) error { return e.kill(e.open, d) })
	dirs, err := local.List(e.root)
	local.WarnNewer(dirs, e.log)
	for _, d := range dirs {
		e.room.Adopt(d.ID(), d.Meta().Limits)
		for _, p := range d.Meta().Ports {
			if err := e.ports.Adopt(p.Listens); err != nil {
				e.log.Warn("port of an instance is reserved by another server", "instance", d.ID(), "port", p.Listens, "err", err)
			}
		}
	}
	if err := e.cache.Prune(e.root, cacheUnused); err != nil {
		e.log.Warn("cleaning the archive cache failed", "err", err)
	}
	return errors.Join(left, err)
}

// Left returns what a dead server left and New could not remove; nil if there is nothing.
func (e *Engine) Left() error { return e.left }

// blocked returns why no instance can run: its programs cannot be executed where they are, or
// their links not followed. It names the mount and its option.
func (e *Engine) blocked() error {
	if err := mounts.Check(e.initPath, mounts.NoExec); err != nil {
		return fmt.Errorf("the first program of instances cannot be executed: %w, or copy Ingot's programs to a directory "+
			"elsewhere and name it with --programs", err)
	}
	for _, dir := range []string{e.root, e.unpacked} {
		if err := mounts.Check(dir, mounts.NoExec, mounts.NoSymlinks); err != nil {
			return fmt.Errorf("programs of apps cannot be executed in the data directory: %w, or use a directory elsewhere "+
				"with --data-dir", err)
		}
	}
	return nil
}

const blockedText = "the platform starts no instances at the moment because their programs cannot be executed in its " +
	"data directory; the server's log tells its operator why"

// Describe reports that instances are not isolated, and why none are started.
func (e *Engine) Describe() engine.Description {
	held := ""
	if err := e.blocked(); err != nil {
		held = err.Error()
	}
	return engine.Description{
		Held: held,
		Name: "process",
		Detail: "instances are plain processes WITHOUT isolation: they see this machine's files, processes and network; " +
			"memory, disk and processor limits are not enforced; a fixed port can be used by one instance only",
		SharedPorts: true, NoImages: noImages, NoMemberLimits: noMemberLimits,
	}
}

// Signal asks ingot-init to stop its members.
func (e *Engine) Signal(_ context.Context, id string) error {
	d, err := e.lookup(id)
	if err != nil {
		return err
	}
	first, err := e.first(d)
	if err == nil {
		err = first.Signal(sigTerm)
	}
	if errors.Is(err, os.ErrProcessDone) {
		return nil // it has ended
	}
	return err
}

// Remove kills the instance's processes and deletes its directory.
func (e *Engine) Remove(ctx context.Context, id string) error {
	if local.CheckID(id) != nil {
		return nil
	}
	unlock, err := e.ids.Lock(ctx, id)
	if err != nil {
		return err
	}
	defer unlock()
	d, err := local.Open(e.root, id)
	if errors.Is(err, engine.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return e.destroy(ctx, d)
}

// destroy kills and deletes an instance, complete or not.
func (e *Engine) destroy(ctx context.Context, d *local.Dir) error {
	if err := e.kill(ctx, d); err != nil {
		return fmt.Errorf("instance %s: %w", d.ID(), err)
	}
	if err := d.Remove(); err != nil {
		return fmt.Errorf("instance %s: %w", d.ID(), err)
	}
	for _, p := range d.Meta().Ports {
		e.ports.Release(p.Listens)
	}
	e.mu.Lock()
	delete(e.children, d.ID())
	e.mu.Unlock()
	e.usage.forget(d.ID())
	e.room.Free(d.ID())
	return nil
}

// List returns instances of the directory.
func (e *Engine) List(_ context.Context, wanted engine.Wanted) ([]engine.Instance, error) {
	dirs, err := local.List(e.root)
	if err != nil && e.left == nil {
		return nil, err
	}
	list := make([]engine.Instance, 0, len(dirs))
	for _, d := range dirs {
		if !e.starting.Has(d.ID()) && wanted.Of(d.Meta().Labels) {
			list = append(list, e.instance(d))
		}
	}
	return list, nil
}

// Get returns one instance.
func (e *Engine) Get(_ context.Context, id string) (engine.Instance, error) {
	d, err := e.lookup(id)
	if err != nil {
		return engine.Instance{}, err
	}
	return e.instance(d), nil
}

func (e *Engine) instance(d *local.Dir) engine.Instance {
	// Check this first: it may end in between, and an instance that does not run must have
	// its last state.
	running := e.running(d)
	m, state := d.Meta(), d.State()
	in := engine.Instance{
		ID: m.ID, Labels: m.Labels, State: state, Running: running,
		Created: m.Created, Ports: m.Ports, Host: e.host, Internal: e.host,
	}
	if !running {
		first, err := e.first(d)
		in.Displaced = err == nil && local.Displaced(first, state)
	}
	return in
}

// Records streams from the instance's record files.
func (e *Engine) Records(ctx context.Context, id string, after engine.Position) (engine.Stream, error) {
	d, err := e.lookup(id)
	if err != nil {
		return nil, err
	}
	return d.Records(ctx, after, local.Follow{
		Closed: e.open.Done(), Gone: func(ctx context.Context) error { return e.gone(ctx, d) },
	})
}

// Dial connects to an address of this machine: a port of the Spec on loopback is mapped to
// the number that the instance listens on.
func (e *Engine) Dial(ctx context.Context, id, network, address string) (net.Conn, error) {
	d, err := e.lookup(id)
	if err != nil {
		return nil, err
	}
	if !e.running(d) {
		// Another program may listen on its port now.
		return nil, fmt.Errorf("instance %s has ended", id)
	}
	if host, port, err := net.SplitHostPort(address); err == nil && isLoopback(host) {
		if n, err := strconv.Atoi(port); err == nil {
			address = net.JoinHostPort(host, strconv.Itoa(local.Listens(d.Meta().Ports)(n)))
		}
	}
	var dialer net.Dialer
	return dialer.DialContext(ctx, network, address)
}

const loopback = "127.0.0.1"

func isLoopback(host string) bool {
	if host == "" || host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// Collect writes files of the instance's home.
func (e *Engine) Collect(ctx context.Context, id, path string, w io.Writer) error {
	d, err := e.lookup(id)
	if err != nil {
		return err
	}
	return d.Collect(ctx, path, d.Home(), w)
}

// Close closes streams and Execs. Instances keep running, and those started by this server
// process are still waited for, so that they leave no zombies.
func (e *Engine) Close() error {
	e.close()
	e.execs.Wait()
	e.ports.Close()
	return nil
}

// first returns the instance's ingot-init; os.ErrProcessDone if it was never started.
func (e *Engine) first(d *local.Dir) (local.ProcessID, error) {
	var id local.ProcessID
	err := local.ReadJSON(filepath.Join(d.Control(), firstFile), &id)
	if !errors.Is(err, fs.ErrNotExist) && !local.IsCut(err) {
		return id, err
	}
	// The file was truncated, or the server died between starting it and writing the file, or it is being started now.
	return e.find(d)
}

// lookup returns an instance's directory. One that is being started is not found yet: it
// would look as if it had ended.
func (e *Engine) lookup(id string) (*local.Dir, error) {
	if e.starting.Has(id) {
		return nil, engine.ErrNotFound
	}
	return local.Open(e.root, id)
}

func (e *Engine) child(d *local.Dir) *child {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.children[d.ID()]
}

// running reports whether the instance's ingot-init runs.
func (e *Engine) running(d *local.Dir) bool {
	if c := e.child(d); c != nil {
		return c.running()
	}
	first, err := e.first(d)
	return err == nil && first.Alive()
}

// gone waits until the instance's ingot-init has ended, or ctx ends.
func (e *Engine) gone(ctx context.Context, d *local.Dir) error {
	if c := e.child(d); c != nil {
		select {
		case <-c.done:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	first, err := e.first(d)
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	if err != nil {
		return err
	}
	return first.Wait(ctx)
}
