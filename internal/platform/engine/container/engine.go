//go:build linux

package container

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"ingot/internal/base/background"
	"ingot/internal/base/cgroup"
	"ingot/internal/base/filelock"
	"ingot/internal/base/keyed"
	"ingot/internal/base/loopdisk"
	"ingot/internal/base/rootless"
	"ingot/internal/platform/engine"
	"ingot/internal/platform/engine/container/network"
	"ingot/internal/platform/engine/local"
	"ingot/internal/platform/instance/homedir"
	"ingot/internal/platform/instance/initproto"
)

const (
	runDir     = "/run"
	namePrefix = network.NamePrefix // also of the directory in /run and the control groups

	// takedown limits cleanup work whose caller is gone.
	takedown = 30 * time.Second

	defaultLayerSpace = 4 << 30
)

var (
	errClosed  = errors.New("the engine is closed")
	errLeaving = errors.New("the engine removes its instances")
)

// Engine runs instances as Linux containers.
type Engine struct {
	root  string // of instances
	run   string // files that do not survive a reboot
	group string // parent of control groups
	log   *slog.Logger

	lock   *os.File
	runc   *runtimeOCI
	init   string     // the program ingot-init
	host   *hostFiles // the host's programs
	groups *cgroup.Tree
	net    *network.Network
	layers *layers
	users  *users
	room   *local.Room
	watch  *watch
	resolv atomic.Pointer[string]

	options Options
	// disks is nil until it is known that disks can be limited.
	disks *disks
	// userSpace is set if an ordinary user started the server.
	userSpace *rootless.Space
	// sharing reports whether layers can be shared.
	sharing bool

	ids keyed.Mutex
	// open is cancelled by Close, and with it every stream and every Exec.
	open     context.Context //nolint:containedctx // the lifetime of the engine, not of a call
	shut     context.CancelFunc
	work     background.WaitGroup
	shutOnce sync.Once
	shutErr  error

	mu        sync.Mutex
	instances map[string]*instance
	about     engine.Description
	held      error // why no instances are started

	// trying is closed when the trial of Reopen has ended, and endTrial ends it; both are nil without one.
	trying   chan struct{}
	endTrial context.CancelFunc
	checking sync.Mutex // one trial at a time
	// leftTrial is the trial container that could not be removed, if there is one; mu guards it. It keeps its address
	// and users, and the engine from being dismantled, until it is removed.
	leftTrial string

	left     error         // what New could not remove
	loopTime time.Duration // see the constant; tests change it
}

var _ engine.Engine = (*Engine)(nil)

// instance is a started instance, running or ended.
type instance struct {
	extra
	dir *local.Dir
	*watched
}

// extra is the data of an instance that only this engine uses.
type extra struct {
	Base   uint32          `json:"base"` // its first user id on the host
	Addr   netip.Addr      `json:"addr"`
	Init   local.ProcessID `json:"init"`
	Layers []string        `json:"layers,omitempty"`
	// Shared is the size of its layers, which count as its own.
	Shared int64 `json:"shared,omitempty"`
	// Reach are additional addresses it may connect to; nil if an older server started it.
	Reach []Endpoint `json:"reach"`
	// Zone and App say which rules apply to it; Zone is nil if an older server started it.
	Zone *engine.Zone `json:"zone"`
	App  string       `json:"app,omitempty"`
	// Image is set if it runs an image.
	Image *imageUser `json:"image,omitempty"`
}

// access returns what the firewall has to know of it.
func (x *extra) access() network.Access {
	a := network.Access{Reach: x.Reach, App: x.App}
	if x.Zone != nil {
		a.Zone = *x.Zone
	}
	return a
}

func (in *instance) runs() bool {
	select {
	case <-in.gone:
		return false
	default:
		return true
	}
}

// New opens the engine on a directory, cleans up after a server that died there, and adopts
// its instances. It needs root; see Open. If something that new instances need is missing,
// runc or disk limits, the engine is paused: running instances are not affected, and Check
// tries again.
func New(ctx context.Context, o Options) (*Engine, error) {
	e, err := adopt(ctx, o)
	if err != nil {
		return nil, err
	}
	if o.Leaving {
		e.hold(errLeaving)
	} else if err := e.able(ctx); err != nil {
		e.hold(err)
	}
	if err := ctx.Err(); err != nil {
		return nil, errors.Join(err, e.Close())
	}
	return e, nil
}

// adopt is New without looking for what new instances need.
func adopt(ctx context.Context, o Options) (_ *Engine, err error) {
	e := &Engine{
		log: o.Log, users: newUsers(), instances: map[string]*instance{}, options: o, loopTime: loopTime,
		userSpace: rootless.Current(),
		about: engine.Description{Name: "container", Isolated: true, HardDisk: true, HardProcesses: true,
			Detail: "Linux containers"},
	}
	e.log = cmp.Or(e.log, slog.New(slog.DiscardHandler))
	initPath, err := local.InitPath(o.Init)
	if err != nil && !o.Leaving {
		return nil, err
	}
	if err := os.MkdirAll(o.Root, 0o711); err != nil {
		return nil, err
	}
	root, err := resolved(o.Root)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256([]byte(root))
	hash := hex.EncodeToString(sum[:4])
	e.root, e.group, e.run = filepath.Join(root, "instances"), namePrefix+hash, filepath.Join(runDir, namePrefix+hash)
	e.runc = &runtimeOCI{root: filepath.Join(e.run, "runc")}
	if e.room, err = local.NewRoom(root, o.Overcommit); err != nil {
		return nil, err
	}
	e.open, e.shut = context.WithCancel(context.Background())
	defer func() {
		if err != nil {
			err = errors.Join(err, e.Close())
		}
	}()
	if e.lock, err = lockDir(root); err != nil {
		return nil, err
	}
	if e.groups, err = findGroups(); err != nil {
		return nil, err
	}
	e.limitRootless()
	if e.watch, err = newWatch(); err != nil {
		return nil, err
	}
	// Other users must be able to pass, because a container resolves its root path as its
	// own user.
	if err := os.MkdirAll(filepath.Join(e.run, "i"), 0o711); err != nil && !o.Leaving {
		return nil, err
	}
	e.init, e.host = initPath, &hostFiles{root: filepath.Join(e.run, "root"), etc: "/etc"}
	if program, err := findRunc(o.Runc); err == nil { // able says what is wrong
		e.runc.program.Store(&program)
	}
	text := network.ResolvConf(o.Egress)
	e.resolv.Store(&text)
	if o.LayerSpace <= 0 {
		o.LayerSpace = defaultLayerSpace
	}
	if e.layers, err = openLayers(filepath.Join(root, "layers"), o.LayerSpace); err != nil {
		return nil, err
	}
	e.net, err = network.Open(network.Options{Hash: hash, Root: root, Egress: o.Egress, Allow: o.Allow, Holder: initPath,
		Log: e.log})
	if err != nil {
		return nil, err
	}
	if err := e.recover(ctx); err != nil {
		return nil, err
	}
	if err := e.net.Protect(); err != nil && !o.Leaving {
		return nil, err
	}
	if err := removeOrphans(ctx, e.groups, e.log); err != nil {
		e.log.Warn("removing leftovers of deleted engines failed", "err", err)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	e.watchDisks()
	return e, nil
}

// findGroups finds the control groups for the runtime, which needs these controllers of version 1.
func findGroups() (*cgroup.Tree, error) { return cgroup.Find(rootless.Group(), "cpuacct", "devices") }

// groupOf returns the control group of an instance.
func (e *Engine) groupOf(id string) string { return e.groups.Path(e.group, id) }

// makeRoot creates the root file system that new containers share.
func (e *Engine) makeRoot() error {
	if err := os.MkdirAll(e.host.root, 0o755); err != nil {
		return err
	}
	if err := ownMount(e.host.root); err != nil {
		return err
	}
	if err := buildRootfs(e.host.root, map[string]string{initInside: e.init, SFTPInside: e.options.SFTP}); err != nil {
		return err
	}
	_, err := e.host.refresh()
	return err
}

// lockDir makes sure that one server uses a directory at a time.
func lockDir(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	// A server that is just stopping gets a moment.
	if err := filelock.Lock(context.Background(), f, time.Second); err != nil {
		_ = f.Close() // nothing was written
		if errors.Is(err, filelock.ErrLocked) {
			return nil, fmt.Errorf("%s is in use by another server", dir)
		}
		return nil, &os.PathError{Op: "lock", Path: f.Name(), Err: err}
	}
	return f, nil
}

// Describe reports that instances are isolated, and why none are started.
func (e *Engine) Describe() engine.Description {
	e.mu.Lock()
	defer e.mu.Unlock()
	d := e.about
	if err := e.whyLocked(); err != nil {
		d.Held = err.Error()
	}
	return d
}

// enter begins work that Close waits for.
func (e *Engine) enter() (leave func(), err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.open.Err() != nil {
		return nil, errClosed
	}
	e.work.Add(1)
	return e.work.Done, nil
}

// find returns an instance.
func (e *Engine) find(id string) (*instance, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	in, ok := e.instances[id]
	if !ok {
		return nil, engine.ErrNotFound
	}
	return in, nil
}

// running returns a running instance.
func (e *Engine) running(id string) (*instance, error) {
	in, err := e.find(id)
	if err != nil {
		return nil, err
	}
	if !in.runs() {
		return nil, fmt.Errorf("instance %s: %w", id, network.ErrEnded)
	}
	return in, nil
}

// Signal asks ingot-init to stop its members.
func (e *Engine) Signal(_ context.Context, id string) error {
	in, err := e.find(id)
	if err != nil {
		return err
	}
	if hasState(in.dir) {
		return in.terminate()
	}
	// Before ingot-init has started, no process there handles the signal.
	leave, err := e.enter()
	if err != nil {
		return err
	}
	background.Go("engine signal", func() {
		defer leave()
		for wait := time.Millisecond; !hasState(in.dir); wait = min(2*wait, 50*time.Millisecond) {
			select {
			case <-time.After(wait):
			case <-in.gone:
				return
			case <-e.open.Done():
				return
			}
		}
		if err := in.terminate(); err != nil {
			e.log.Warn("stopping an instance failed", "instance", id, "err", err)
		}
	})
	return nil
}

func (in *instance) terminate() error {
	err := in.Init.Signal(syscall.SIGTERM)
	if errors.Is(err, os.ErrProcessDone) {
		return nil // it has ended
	}
	return err
}

func hasState(d *local.Dir) bool {
	_, err := os.Lstat(filepath.Join(d.Control(), initproto.StateFile))
	return err == nil
}

// List returns instances, by id.
func (e *Engine) List(_ context.Context, wanted engine.Wanted) ([]engine.Instance, error) {
	e.mu.Lock()
	all := slices.Collect(maps.Values(e.instances))
	e.mu.Unlock()
	list := make([]engine.Instance, 0, len(all))
	for _, in := range all {
		if wanted.Of(in.dir.Meta().Labels) {
			list = append(list, e.present(in))
		}
	}
	slices.SortFunc(list, func(a, b engine.Instance) int {
		if a.ID < b.ID {
			return -1
		}
		return 1
	})
	return list, nil
}

// Get returns one instance.
func (e *Engine) Get(_ context.Context, id string) (engine.Instance, error) {
	in, err := e.find(id)
	if err != nil {
		return engine.Instance{}, err
	}
	return e.present(in), nil
}

func (e *Engine) present(in *instance) engine.Instance {
	// Check this first: an instance that does not run must have its last state.
	runs := in.runs()
	m := in.dir.Meta()
	state := in.dir.State()
	if !runs {
		e.explainEnd(&state, in)
		if e.userSpace != nil {
			in.explainDisk(&state)
		}
	}
	return engine.Instance{
		ID: m.ID, Labels: m.Labels, State: state, Running: runs, Created: m.Created, Ports: m.Ports,
		Host: e.net.Gateway().String(), Internal: in.Addr.String(),
		Displaced: local.Displaced(in.Init, state),
	}
}

// explainEnd adds the kernel's OOM count to the exit of an instance. ingot-init may not
// have seen the count of its own group, or was killed before it could report it. It always sees
// those of its members.
func (e *Engine) explainEnd(state *initproto.State, in *instance) {
	killed := 128 + int(syscall.SIGKILL)
	if x := state.Exit; x != nil && (x.OOM || x.Stopped || x.Status != killed || in.hasMemberGroups()) {
		return
	}
	kills, err := e.groups.OOMKills(e.groupOf(in.dir.ID()))
	if err != nil || kills == 0 {
		return
	}
	if state.Exit == nil {
		state.Exit = &initproto.Exit{Status: killed, Description: "Instance was killed (out of memory)"}
	}
	exit := *state.Exit
	exit.OOM = true
	state.Exit = &exit
}

// Records streams from the instance's record files.
func (e *Engine) Records(ctx context.Context, id string, after engine.Position) (engine.Stream, error) {
	in, err := e.find(id)
	if err != nil {
		return nil, err
	}
	if e.open.Err() != nil {
		return nil, errClosed
	}
	return in.dir.Records(ctx, after, local.Follow{Closed: e.open.Done(), Gone: func(ctx context.Context) error {
		select {
		case <-in.gone:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-e.open.Done():
			return errClosed
		}
	}})
}

// Usage reads the instance's control groups and its disk.
func (e *Engine) Usage(ctx context.Context, id string) (engine.Usage, error) {
	in, err := e.find(id)
	if err != nil {
		return engine.Usage{}, err
	}
	group := e.groupOf(id)
	u := engine.Usage{Time: time.Now(), MemoryLimit: in.dir.Meta().Limits.Memory}
	var errs [4]error
	u.CPUTime, errs[0] = e.groups.CPU(group)
	u.Memory, errs[1] = e.groups.Memory(group)
	u.OOMKills, errs[2] = e.groups.OOMKills(group)
	u.Disk, errs[3] = e.diskUse(ctx, in)
	for i, err := range errs {
		// After a reboot the groups do not exist any more.
		if errors.Is(err, os.ErrNotExist) {
			errs[i] = nil
		}
	}
	if err := errors.Join(errs[:]...); err != nil {
		if _, gone := e.find(id); gone != nil {
			return engine.Usage{}, gone // removed meanwhile
		}
		return engine.Usage{}, err
	}
	u.Members = e.memberUsage(ctx, in, u)
	return u, nil
}

func (e *Engine) diskUse(ctx context.Context, in *instance) (int64, error) {
	point := filepath.Join(e.bundle(in.dir.ID()), "disk")
	// The disk of an instance that is being removed may be gone; then the file system at
	// that path is the server's own.
	if _, err := os.Lstat(filepath.Join(in.dir.Path(), diskImage)); err == nil && loopdisk.Mounted(point) {
		used, err := loopdisk.Used(point)
		return used + in.Shared, err
	}
	used, err := homedir.Size(ctx, point)
	return used + in.Shared, err
}

// Collect writes files of the instance's home.
func (e *Engine) Collect(ctx context.Context, id, path string, w io.Writer) error {
	in, err := e.find(id)
	if err != nil {
		return err
	}
	return in.dir.Collect(ctx, path, homeInside, w)
}

// Close closes streams and Execs. Instances keep running; if there are none, nothing of the
// engine is left but its directory.
func (e *Engine) Close() error {
	e.shutOnce.Do(func() { e.shutErr = e.close() })
	return e.shutErr
}

func (e *Engine) close() error {
	if e.trying != nil { // before the rest: it removes its container
		e.endTrial()
		<-e.trying
	}
	errs := []error{e.removeLeftTrial(context.Background())}
	e.mu.Lock()
	e.shut()
	e.mu.Unlock()
	e.work.Wait()
	e.users.close()
	if e.watch != nil {
		errs = append(errs, e.watch.close())
	}
	if e.net != nil {
		errs = append(errs, e.net.Leave())
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.lock == nil {
		return errors.Join(errs...) // another server's
	}
	if dirs, err := os.ReadDir(e.root); len(e.instances) == 0 && len(dirs) == 0 &&
		(err == nil || errors.Is(err, os.ErrNotExist)) {
		ctx, cancel := context.WithTimeout(context.Background(), takedown)
		defer cancel()
		errs = append(errs, e.dismantle(ctx))
	}
	// A process that is being started may hold a copy of the file for a moment, so closing
	// alone does not unlock it.
	return errors.Join(append(errs, unix.Flock(int(e.lock.Fd()), unix.LOCK_UN), e.lock.Close())...)
}

// dismantle removes what instances share.
func (e *Engine) dismantle(ctx context.Context) error {
	var errs []error
	if e.net != nil {
		errs = append(errs, e.net.Remove())
	}
	errs = append(errs, e.groups.Remove(ctx, e.group))
	if err := unmountBelow(e.run); err != nil {
		return errors.Join(append(errs, err)...)
	}
	return errors.Join(append(errs, os.RemoveAll(e.run))...)
}
